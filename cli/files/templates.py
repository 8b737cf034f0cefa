"""Reads the Pod templates of a Framework from a user's file. Pure.

A part of an unexpected type is skipped, because validation reports it. Each part has its path in
the user's file.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from framework.api import images
from framework.kube.resources import Object


@dataclass(frozen=True, slots=True)
class ContainerTemplate:
    """One container of a role's Pods. ``path`` is its place in the Framework."""

    path: str
    body: Object
    is_init: bool

    @property
    def name(self) -> str:
        """Its name, or nothing."""
        return str(self.body.get("name", ""))

    @property
    def image(self) -> str:
        """Its image, or nothing."""
        return str(self.body.get("image") or "")

    @property
    def program(self) -> str | None:
        """Our program that its image runs (``framework.api.images``), or none."""
        return images.find_program(self.image)

    @property
    def is_native_sidecar(self) -> bool:
        """Return whether it runs beside the containers and ends after them."""
        return self.is_init and self.body.get("restartPolicy") == "Always"

    @property
    def is_wrapped(self) -> bool:
        """Return whether it starts the agent of the volume."""
        return images.starts_installed_agent(self.list_words())

    @property
    def is_agent(self) -> bool:
        """Return whether it needs a token to look at its gang."""
        return self.is_rendezvous or self.program == images.BARRIER

    @property
    def is_installer(self) -> bool:
        """Return whether it puts the agent into the volume, for other containers to start."""
        return self.program == images.RENDEZVOUS and "install" in self.list_words()

    @property
    def is_rendezvous(self) -> bool:
        """Return whether it follows the gang and writes the peers' files."""
        return self.is_wrapped or (self.program == images.RENDEZVOUS and not self.is_installer)

    def list_words(self) -> list[str]:
        """List the words of ``command`` and ``args``."""
        return [str(word) for key in ("command", "args") for word in _get_list(self.body, key)]

    def list_mounts(self) -> list[Object]:
        """List the mounts of volumes."""
        return [m for m in _get_list(self.body, "volumeMounts") if isinstance(m, dict)]

    def get_env(self) -> dict[str, str]:
        """Map each variable to its value, or to "" if it has no plain value."""
        return {
            str(item.get("name")): "" if item.get("value") is None else str(item["value"])
            for item in _get_list(self.body, "env")
            if isinstance(item, dict)
        }


@dataclass(frozen=True, slots=True)
class VolumeTemplate:
    """One volume of a role's Pods. ``path`` is its place in the Framework."""

    path: str
    body: Object


@dataclass(frozen=True, slots=True)
class RoleTemplate:
    """One task role. ``path`` is its place in the Framework."""

    path: str
    body: Object
    pod_spec: Object

    @property
    def name(self) -> str:
        """Its name, or nothing."""
        return str(self.body.get("name", ""))

    @property
    def spec_path(self) -> str:
        """Path of the Pod's spec."""
        return f"{self.path}.task.pod.spec"

    @property
    def annotations(self) -> Mapping[str, Any]:
        """The Pod's annotations."""
        return self._get_metadata("annotations")

    @property
    def labels(self) -> Mapping[str, Any]:
        """The Pod's labels."""
        return self._get_metadata("labels")

    def _get_metadata(self, key: str) -> Mapping[str, Any]:
        found = _get(self.body, "task", "pod", "metadata", key)
        return found if isinstance(found, Mapping) else {}

    def get_counts(self) -> dict[str, int]:
        """Map the counts of the completion policy that are given to their numbers."""
        counts = _get(self.body, "frameworkAttemptCompletionPolicy")
        given = counts.items() if isinstance(counts, Mapping) else ()
        return {str(name): count for name, count in given if isinstance(count, int)}

    def get_max_retry_count(self) -> int:
        """Return how often its Tasks are retried."""
        count = _get(self.body, "task", "retryPolicy", "maxRetryCount")
        return count if isinstance(count, int) else 0

    def list_containers(self) -> list[ContainerTemplate]:
        """List the init containers, then the containers."""
        return [
            ContainerTemplate(f"{self.spec_path}.{key}[{index}]", body, key == "initContainers")
            for key in ("initContainers", "containers")
            for index, body in enumerate(_get_list(self.pod_spec, key))
            if isinstance(body, dict)
        ]

    def list_volumes(self) -> list[VolumeTemplate]:
        """List the Pod's volumes."""
        return [
            VolumeTemplate(f"{self.spec_path}.volumes[{index}]", body)
            for index, body in enumerate(_get_list(self.pod_spec, "volumes"))
            if isinstance(body, dict)
        ]


def list_roles(framework: Object) -> Iterator[RoleTemplate]:
    """Yield the roles that have a Pod template."""
    for index, role in enumerate(_get_list(framework, "spec", "taskRoles")):
        spec = _get(role, "task", "pod", "spec")
        if isinstance(spec, dict):
            yield RoleTemplate(f"spec.taskRoles[{index}]", role, spec)


def is_open(text: str) -> bool:
    """Return whether a part of it is known only in the cluster: ``$(NAME)``, ``{{FC_NAME}}``."""
    return "$(" in text or "{{" in text


def list_role_names(framework: Object) -> list[str]:
    """List the names of all roles, with a Pod template or without."""
    return [str(_get(role, "name") or "") for role in _get_list(framework, "spec", "taskRoles")]


def list_task_numbers(framework: Object) -> list[Any]:
    """List the taskNumber of each role, as it is written; 0 where it is absent."""
    roles = _get_list(framework, "spec", "taskRoles")
    return [_get(role, "taskNumber") or 0 for role in roles]


def map_task_indices(framework: Object) -> dict[str, range]:
    """Return the indices of the Tasks of each role; none where taskNumber is not a number."""
    numbers = list_task_numbers(framework)
    counts = (number if isinstance(number, int) else 0 for number in numbers)
    return dict(zip(list_role_names(framework), map(range, counts), strict=True))


def get_account(role: RoleTemplate) -> str:
    """Return the service account, which has two fields for historical reasons, or nothing."""
    spec = role.pod_spec
    return str(spec.get("serviceAccountName") or spec.get("serviceAccount") or "")


def get_mount_path(mount: Mapping[str, Any]) -> str:
    """Return where a volume is mounted: a slash at the end makes no difference."""
    return str(mount.get("mountPath", "")).rstrip("/")


def _get(value: Any, *keys: str) -> Any:
    for key in keys:
        value = value.get(key) if isinstance(value, Mapping) else None
    return value


def _get_list(value: Any, *keys: str) -> list[Any]:
    found = _get(value, *keys)
    return found if isinstance(found, list) else []

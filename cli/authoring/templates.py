"""Walks the Pod templates of a Framework as it stands in a user's file. Pure.

Called by ``injection`` and ``rules``. A part of another form than Kubernetes wants is passed over:
judging the form is validation's job.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from framework.kube.resources import Object

OUR_IMAGES = frozenset({"framework-barrier", "framework-rendezvous"})
# The second is the original's.
BARRIER_IMAGES = frozenset({"framework-barrier", "frameworkbarrier"})
RENDEZVOUS_IMAGES = frozenset({"framework-rendezvous"})
AGENT_IMAGES = BARRIER_IMAGES | RENDEZVOUS_IMAGES
# What starts the agent that `install` puts into the volume.
INSTALLED_AGENT = "/agent/rendezvous.pyz"


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
    def image_name(self) -> str:
        """The last part of the image's repository: ``framework-barrier``."""
        return get_image_name(self.body.get("image"))

    @property
    def is_native_sidecar(self) -> bool:
        """Tell whether it runs beside the containers and ends after them."""
        return self.is_init and self.body.get("restartPolicy") == "Always"

    @property
    def is_wrapped(self) -> bool:
        """Tell whether the agent from the volume is what it starts."""
        return any(INSTALLED_AGENT in word for word in self.list_words())

    @property
    def is_agent(self) -> bool:
        """Tell whether it needs a token to look at its gang."""
        installs = self.image_name in RENDEZVOUS_IMAGES and "install" in self.list_words()
        return self.is_wrapped or (self.image_name in AGENT_IMAGES and not installs)

    def list_words(self) -> list[str]:
        """List the words of ``command`` and ``args``."""
        return [str(word) for key in ("command", "args") for word in _get_list(self.body, key)]

    def get_env(self) -> dict[str, str]:
        """Map the variables with a plain value to it, all others to an empty text."""
        return {
            str(item.get("name")): str(item.get("value", ""))
            for item in _get_list(self.body, "env")
            if isinstance(item, dict)
        }


@dataclass(frozen=True, slots=True)
class RoleTemplate:
    """One task role. ``path`` is its place in the Framework."""

    path: str
    body: Object
    pod_metadata: Object
    pod_spec: Object

    @property
    def name(self) -> str:
        """Its name, or nothing."""
        return str(self.body.get("name", ""))

    @property
    def spec_path(self) -> str:
        """Where the Pod's spec stands."""
        return f"{self.path}.task.pod.spec"

    def list_containers(self) -> list[ContainerTemplate]:
        """List the init containers, then the containers."""
        return [
            ContainerTemplate(f"{self.spec_path}.{key}[{index}]", body, key == "initContainers")
            for key in ("initContainers", "containers")
            for index, body in enumerate(_get_list(self.pod_spec, key))
            if isinstance(body, dict)
        ]

    def list_volumes(self) -> list[Object]:
        """List the Pod's volumes."""
        return [item for item in _get_list(self.pod_spec, "volumes") if isinstance(item, dict)]


def list_roles(framework: Object) -> Iterator[RoleTemplate]:
    """Go through the roles that have a Pod template."""
    for index, role in enumerate(_get_list(framework, "spec", "taskRoles")):
        spec = _get(role, "task", "pod", "spec")
        if isinstance(spec, dict):
            metadata = _get(role, "task", "pod", "metadata")
            yield RoleTemplate(
                f"spec.taskRoles[{index}]",
                role,
                metadata if isinstance(metadata, dict) else {},
                spec,
            )


def get_image_name(image: object) -> str:
    """Return ``barrier`` of ``registry:5000/team/barrier:v1@sha256:...``."""
    return str(image or "").partition("@")[0].rpartition("/")[2].partition(":")[0]


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

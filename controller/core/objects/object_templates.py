"""The attempt ConfigMap, the gang key and the Pods, rendered from a Framework and its status.

The executor calls this module when it sends a create. A Pod is its role's template, unchanged,
plus the documented additions: name, owner, labels, annotations, environment,
terminationMessagePolicy, and the node affinity of a Task that avoids nodes. Rules: docs/api.md,
"Objects of an attempt"; ``NewConfigMap`` and ``NewPod`` of the Go original.
"""

import base64
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from controller.core.objects.node_affinity import avoid_nodes
from framework.api import constants, naming
from framework.api.naming import TaskKey
from framework.api.templatefacts import TemplateWithFacts
from framework.api.types import Framework, FrameworkAttemptStatus, TaskRoleStatus, TaskStatus

Object = dict[str, Any]
_FALLBACK_TO_LOGS = "FallbackToLogsOnError"
_PLACEHOLDER = re.compile("{{(" + "|".join(constants.TEMPLATE_PLACEHOLDERS) + ")}}")
# Characters by which a Pod may be longer than its template. An API server stores 1.5 MiB.
MAX_GROWTH_CHARS = 2 * 1024 * 1024
# Characters of a variable in JSON, without its name and value.
_VARIABLE_CHARS = 24


class PodTooLargeError(ValueError):
    """A Pod is longer than an API server stores; the message names the role and the reason."""


class _Growth:
    """Counts by how much a Pod is longer than its template, and stops beyond the limit.

    A template of 1.5 MB may consist of placeholders, or of containers that each get all variables.
    """

    def __init__(self, role: str) -> None:
        self._role = role
        self._chars = 0

    def add(self, chars: int, cause: str) -> None:
        self._chars += chars
        if self._chars > MAX_GROWTH_CHARS:
            limit = f"{MAX_GROWTH_CHARS} characters longer than its template"
            raise PodTooLargeError(
                f"a Pod of role {self._role} would be more than {limit}: use fewer {cause}"
            )


def build_configmap(framework: Framework) -> Object:
    """Build the ConfigMap of the current attempt, still without a roster."""
    meta, attempt = framework.metadata, _attempt(framework)
    owner = _build_owner(constants.API_VERSION, constants.FRAMEWORK_KIND, meta.name, meta.uid)
    return {
        "apiVersion": "v1",
        "kind": constants.CONFIGMAP_KIND,
        "metadata": {
            "name": attempt.configmap_name,
            "namespace": meta.namespace,
            "labels": {constants.FRAMEWORK_NAME: meta.name},
            "annotations": {
                constants.FRAMEWORK_NAMESPACE: meta.namespace,
                constants.FRAMEWORK_NAME: meta.name,
                constants.CONFIGMAP_NAME: attempt.configmap_name,
                constants.FRAMEWORK_UID: meta.uid,
                constants.FRAMEWORK_ATTEMPT_ID: str(attempt.id),
                constants.ROSTER_VERSION_ANNOTATION: constants.ROSTER_VERSION,
            },
            "finalizers": [constants.FOREGROUND_DELETION_FINALIZER],
            "ownerReferences": [owner],
        },
    }


@dataclass(frozen=True, slots=True)
class GangSecrets:
    """The secrets that the Pods of an attempt share. Certificate and private key are PEM."""

    key: str
    certificate: str
    private_key: str


def build_gang_key(framework: Framework, secrets: GangSecrets) -> Object:
    """Build the Secret with the gang key, whose text starts with the attempt's instance UID."""
    meta, attempt = framework.metadata, _attempt(framework)
    texts = {
        constants.GANG_KEY: f"{attempt.instance_uid}:{secrets.key}",
        constants.GANG_CERTIFICATE: secrets.certificate,
        constants.GANG_CERTIFICATE_KEY: secrets.private_key,
    }
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {
            "name": naming.build_gang_key_name(meta.name),
            "namespace": meta.namespace,
            "labels": {constants.FRAMEWORK_NAME: meta.name},
            "ownerReferences": [_build_configmap_owner(framework)],
        },
        "type": "Opaque",
        "immutable": True,
        "data": {name: base64.b64encode(text.encode()).decode() for name, text in texts.items()},
    }


def build_pod(framework: Framework, key: TaskKey) -> Object:
    """Build the Pod of a Task's current attempt from its role's template.

    Raises:
        LookupError: The role is not in the spec, or the Task not in the status.
        PodTooLargeError: The Pod is far longer than its template.
    """
    names, growth = _build_names(framework, key), _Growth(key.role)
    role = framework.spec.find_role(key.role)
    if role is None:
        raise LookupError(f"role {key.role} is not in the spec")
    _, task = _find_entries(framework, key)
    nodes = task.attempt_status.avoided_nodes
    template = _replace_placeholders(role.task.pod, names, growth, with_affinity=bool(nodes))
    spec = _augment_spec(template.get("spec"), names, growth)
    return {
        "apiVersion": "v1",
        "kind": constants.POD_KIND,
        "metadata": _augment_metadata(template.get("metadata"), framework, names),
        "spec": avoid_nodes(spec, nodes, lambda chars: growth.add(chars, "node selector terms")),
    }


def _augment_metadata(template: Any, framework: Framework, names: Mapping[str, str]) -> Object:
    meta = _mapping(template)
    labels = {
        name: names[name]
        for name in (constants.FRAMEWORK_NAME, constants.TASKROLE_NAME, constants.TASK_INDEX)
    }
    owners = [*_list(meta.get("ownerReferences")), _build_configmap_owner(framework)]
    return {
        **meta,
        "name": names[constants.POD_NAME],
        "namespace": framework.metadata.namespace,
        "annotations": {**_mapping(meta.get("annotations")), **names},
        "labels": {**_mapping(meta.get("labels")), **labels},
        "ownerReferences": owners,
    }


def _augment_spec(template: Any, names: Mapping[str, str], growth: _Growth) -> Object:
    spec = dict(_mapping(template))
    env = _build_env(names)
    chars = sum(len(name) + len(value) + _VARIABLE_CHARS for name, value in names.items())
    for field in ("containers", "initContainers"):
        if isinstance(spec.get(field), list):
            growth.add(len(spec[field]) * chars, field)
            spec[field] = [_augment_container(container, env) for container in spec[field]]
    return spec


def _build_names(framework: Framework, key: TaskKey) -> dict[str, str]:
    meta, attempt = framework.metadata, _attempt(framework)
    role, task = _find_entries(framework, key)
    return {
        constants.FRAMEWORK_NAMESPACE: meta.namespace,
        constants.FRAMEWORK_NAME: meta.name,
        constants.TASKROLE_NAME: key.role,
        constants.TASK_INDEX: str(key.index),
        constants.CONFIGMAP_NAME: attempt.configmap_name,
        constants.POD_NAME: naming.build_pod_name(meta.name, key.role, key.index),
        constants.FRAMEWORK_UID: meta.uid,
        constants.FRAMEWORK_ATTEMPT_ID: str(attempt.id),
        constants.FRAMEWORK_ATTEMPT_INSTANCE_UID: attempt.instance_uid or "",
        constants.CONFIGMAP_UID: attempt.configmap_uid or "",
        constants.TASKROLE_UID: role.instance_uid,
        constants.TASK_UID: task.instance_uid,
        constants.TASK_ATTEMPT_ID: str(task.attempt_status.id),
    }


def _find_entries(framework: Framework, key: TaskKey) -> tuple[TaskRoleStatus, TaskStatus]:
    """Find the role and the Task in the status."""
    role = _attempt(framework).find_role(key.role)
    if role is None or key.index >= len(role.tasks):
        raise LookupError(f"Task {key} is not in the status")
    return role, role.tasks[key.index]


def _build_env(names: Mapping[str, str]) -> list[Object]:
    env: list[Object] = [{"name": name, "value": value} for name, value in names.items()]
    pod_uid = {"fieldRef": {"fieldPath": constants.POD_UID_FIELD_PATH}}
    env.append({"name": constants.POD_UID, "valueFrom": pod_uid})
    instance = naming.build_instance_uid(
        int(names[constants.TASK_ATTEMPT_ID]),
        f"$({constants.POD_UID})",
    )
    env.append({"name": constants.TASK_ATTEMPT_INSTANCE_UID, "value": instance})
    return env


def _augment_container(container: Any, env: list[Object]) -> Any:
    if not isinstance(container, Mapping):
        return container
    return {
        **container,
        "env": _prepend(env, container.get("env")),
        "terminationMessagePolicy": container.get("terminationMessagePolicy") or _FALLBACK_TO_LOGS,
    }


def _prepend(ours: list[Object], theirs: Any) -> Any:
    if theirs is None or isinstance(theirs, (list, tuple)):
        return [*ours, *_list(theirs)]
    # Not a list: the API server refuses it. Without it, the Pod would lack the user's values.
    return theirs


def _build_configmap_owner(framework: Framework) -> Object:
    attempt = _attempt(framework)
    return _build_owner(
        "v1", constants.CONFIGMAP_KIND, attempt.configmap_name, attempt.configmap_uid
    )


def _build_owner(api_version: str, kind: str, name: str, uid: str | None) -> Object:
    return {
        "apiVersion": api_version,
        "kind": kind,
        "name": name,
        "uid": uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }


def _replace_placeholders(
    template: Mapping[str, Any], names: Mapping[str, str], growth: _Growth, *, with_affinity: bool
) -> Object:
    if isinstance(template, TemplateWithFacts):
        return template.render(
            names, lambda chars: growth.add(chars, "placeholders"), with_affinity=with_affinity
        )

    def replace_one(found: re.Match[str]) -> str:
        value = names[found[1]]
        growth.add(max(0, len(value) - len(found[0])), "placeholders")
        return value

    def replace_text(text: str) -> str:
        # One scan: a placeholder in a replaced value is not replaced again.
        return _PLACEHOLDER.sub(replace_one, text) if "{{" in text else text

    replaced = _map_strings(template, replace_text)
    return replaced if isinstance(replaced, dict) else {}


def _map_strings(value: Any, change: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        return change(value)
    if isinstance(value, Mapping):
        return {change(str(k)): _map_strings(v, change) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_map_strings(item, change) for item in value]
    return value


def _attempt(framework: Framework) -> FrameworkAttemptStatus:
    if framework.status is None:
        raise LookupError("the Framework has no status")
    return framework.status.attempt_status


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _list(value: Any) -> list[Any]:
    return list(value) if isinstance(value, (list, tuple)) else []

"""Compares Pods on a server with the templates of their Frameworks.

A server adds defaults and normalizes numbers, so a Pod equals its template when everything of the
template is in it, lists in their order, and what goes first or last in a list is documented: our
environment variables, our owner, the service account's volume.
"""

import json
from collections.abc import Callable, Iterator
from typing import Any

from framework.api import constants
from framework.kube.resources import Object

PLACEHOLDERS = (
    constants.FRAMEWORK_NAMESPACE,
    constants.FRAMEWORK_NAME,
    constants.TASKROLE_NAME,
    constants.TASK_INDEX,
    constants.CONFIGMAP_NAME,
    constants.POD_NAME,
)
# Of every container, in this order, before the user's own.
ENV_NAMES = (
    *PLACEHOLDERS,
    constants.FRAMEWORK_UID,
    constants.FRAMEWORK_ATTEMPT_ID,
    constants.FRAMEWORK_ATTEMPT_INSTANCE_UID,
    constants.CONFIGMAP_UID,
    constants.TASKROLE_UID,
    constants.TASK_UID,
    constants.TASK_ATTEMPT_ID,
    constants.POD_UID,
    constants.TASK_ATTEMPT_INSTANCE_UID,
)
# The original's examples contain one key that no server knows: it is written with a capital.
_UNKNOWN_TO_SERVERS = {"ActiveDeadlineSeconds"}


def check_pod(template: Object, pod: Object) -> None:
    """Fail unless the Pod is its template plus what is documented."""
    annotations = pod["metadata"]["annotations"]
    text = json.dumps(template)
    for name in PLACEHOLDERS:
        text = text.replace(f"{{{{{name}}}}}", annotations[name])
    faults = list(_compare(json.loads(text), pod, ""))
    assert faults == [], faults
    spec = pod["spec"]
    for container in [*spec.get("initContainers", ()), *spec["containers"]]:
        names = [variable["name"] for variable in container["env"]]
        assert tuple(names[: len(ENV_NAMES)]) == ENV_NAMES


def walk_templates(framework: Object) -> Iterator[tuple[str, int, Object]]:
    """Walk the roles: name, number of Tasks, template."""
    for role in framework["spec"]["taskRoles"]:
        yield role["name"], role["taskNumber"], role["task"]["pod"]


def _compare(wanted: Any, found: Any, path: str) -> Iterator[str]:
    if isinstance(wanted, dict):
        for key, value in wanted.items():
            # What says nothing is not stored: a server leaves out empty values.
            if not value or key in _UNKNOWN_TO_SERVERS:
                continue
            if not isinstance(found, dict) or key not in found:
                yield f"{path}.{key} is not there"
            else:
                yield from _compare(value, found[key], f"{path}.{key}")
    elif isinstance(wanted, list):
        yield from _compare_lists(wanted, found, path)
    elif str(wanted) != str(found):
        yield f"{path} is {found!r}, not {wanted!r}"


def _compare_lists(wanted: list[Any], found: list[Any], path: str) -> Iterator[str]:
    added: Callable[[Any], bool] = {
        "volumes": lambda item: item["name"].startswith("kube-api-access-"),
        "volumeMounts": lambda item: item["name"].startswith("kube-api-access-"),
        "ownerReferences": lambda item: item["kind"] == constants.CONFIGMAP_KIND,
        "tolerations": lambda item: item["key"].startswith("node.kubernetes.io/"),
    }.get(path.rpartition(".")[2], lambda _: False)
    kept = [item for item in found if not added(item)]
    if path.endswith(".env"):
        kept = kept[len(ENV_NAMES) :]
    if len(kept) != len(wanted):
        yield f"{path} has {len(kept)} items, not {len(wanted)}"
        return
    for number, (item, other) in enumerate(zip(wanted, kept, strict=True)):
        yield from _compare(item, other, f"{path}[{number}]")

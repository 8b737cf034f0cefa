"""Finds Frameworks that can never start on a local cluster, before one is started.

The facts are those of its kubelet: it pulls no image, and offers no extended resource but the GPUs
that the user offers.
"""

from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from typing import Any, NamedTuple

from cli.authoring.findings import Finding, error
from cli.files.templates import (
    ContainerTemplate,
    RoleTemplate,
    list_role_names,
    list_roles,
    list_task_numbers,
)
from framework.api import images
from framework.api.constants import GPU_RESOURCE
from framework.kube.resources import Object
from localcluster.kubelet.container.images import build_argv, explain_unknown_image
from localcluster.kubelet.pod.admission import count_extended


def find_local_faults(
    framework: Object, extended: Mapping[str, int], gpus_together: int | None = None
) -> Iterator[Finding]:
    """Find the parts of Pod templates with which no Pod starts on a local cluster.

    A part of an unexpected type is skipped, because the API server refuses it.

    Args:
        framework: as in the user's file.
        extended: the extended resources that the local cluster offers.
        gpus_together: GPUs of all Tasks that run at the same time; None for the Tasks of this
            Framework.
    """
    together = count_gpus(framework) if gpus_together is None else gpus_together
    for role in list_roles(framework):
        for container in role.list_containers():
            yield from _find_missing_command(container)
        for resource, wanted in sorted(count_extended(_build_pod(role)).items()):
            offered = extended.get(resource, 0)
            if wanted > offered:
                shortage = _Shortage(resource, wanted, offered, max(together, wanted))
                yield _report_shortage(role.spec_path, shortage)


def count_gpus(framework: Object) -> int:
    """Count the GPUs that all Tasks of a Framework ask for."""
    numbers = dict(zip(list_role_names(framework), list_task_numbers(framework), strict=True))
    return sum(
        count_extended(_build_pod(role)).get(GPU_RESOURCE, 0) * _read_number(numbers[role.name])
        for role in list_roles(framework)
    )


def warn_of_few_gpus(offered: int, together: int) -> str | None:
    """Warn of Tasks that wait for GPUs of other Tasks; None if all can run at the same time."""
    if not 0 < offered < together:
        return None
    return (
        f"all Tasks together ask for {together} {GPU_RESOURCE}, and the local cluster offers "
        f"{offered}: some wait until others end, and a gang that waits for all of its Tasks never "
        f"starts; offer them with --gpus {together}"
    )


def _read_number(number: Any) -> int:
    return number if isinstance(number, int) and number > 0 else 0


def _find_missing_command(container: ContainerTemplate) -> Iterator[Finding]:
    command = container.body.get("command") or []
    if not isinstance(command, list) or build_argv(container.image, command, ()) is not None:
        return
    known = get_close_matches(images.get_image_name(container.image), images.list_image_names(), 1)
    hint = f", or write the image `{images.REGISTRY}/{known[0]}`" if known else ""
    message, _, fix = explain_unknown_image(container.image).rpartition(": ")
    yield error("local-command", f"{container.path}.command", f"is missing: {message}", fix + hint)


def _build_pod(role: RoleTemplate) -> Object:
    """Build a Pod with only the fields that the node counts."""
    spec: dict[str, list[Object]] = {"initContainers": [], "containers": []}
    for container in role.list_containers():
        spec["initContainers" if container.is_init else "containers"].append(
            {
                "name": container.path,
                "restartPolicy": container.body.get("restartPolicy"),
                "resources": _read_resources(container.body.get("resources")),
            }
        )
    return {"spec": spec}


def _read_resources(resources: Any) -> dict[str, dict[str, Any]]:
    found = resources.items() if isinstance(resources, Mapping) else ()
    return {
        str(kind): {str(name): quantity for name, quantity in quantities.items()}
        for kind, quantities in found
        if isinstance(quantities, Mapping)
    }


class _Shortage(NamedTuple):
    """An extended resource of which a Pod asks for more than the local cluster offers."""

    resource: str
    wanted: int
    offered: int
    together: int


def _report_shortage(path: str, shortage: _Shortage) -> Finding:
    resource, wanted, offered, together = shortage
    fix = "remove the request to run here without it"
    if resource == GPU_RESOURCE:
        sum_ = " (for all Tasks together)" if together > wanted else ""
        fix = f"offer this machine's GPUs with --gpus {together}{sum_}, or {fix}"
    return error(
        "local-resource",
        f"{path}.containers",
        f"a Pod asks for {wanted} {resource}, and the local cluster offers {offered}",
        fix,
    )

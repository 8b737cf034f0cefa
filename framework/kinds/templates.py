"""Checks and changes of Pod templates that all kinds need. Pure.

The functions that change a template are called with a copy of the user's.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from framework.api import constants, inplace, podtemplates, retryable_codes
from framework.api.fielderrors import FieldError
from framework.kinds.compiled import Note, Object
from framework.kinds.shapes import ANY, BOOLEAN, QUANTITY, TEXT, Shape, find_shape_faults

OLD_GPU_RESOURCE = "alpha.kubernetes.io/nvidia-gpu"
"""Name of GPUs before Kubernetes 1.11; no cluster offers it any more."""
_MAX_CONTAINERS = 100
_NAMED_LISTS = ("initContainers", "containers", "volumes")
# A template may have any number of faults; so many are enough to see what is wrong.
_MAX_FAULTS = 20
_AMOUNTS = {ANY: QUANTITY}
_CONTAINER: Shape = {
    "name": TEXT,
    "image": TEXT,
    "imagePullPolicy": TEXT,
    "command": [TEXT],
    "env": [{"name": TEXT, "value": TEXT}],
    "volumeMounts": [{"name": TEXT, "mountPath": TEXT}],
    "resources": {"limits": _AMOUNTS, "requests": _AMOUNTS},
}
_TEMPLATE: Shape = {
    "metadata": {"labels": {ANY: TEXT}, "annotations": {ANY: TEXT}},
    "spec": {
        "restartPolicy": TEXT,
        "serviceAccountName": TEXT,
        "serviceAccount": TEXT,
        "automountServiceAccountToken": BOOLEAN,
        "initContainers": [_CONTAINER],
        "containers": [_CONTAINER],
        "volumes": [{"name": TEXT}],
    },
}
"""All that the compile steps read of a template."""


def check_template(
    template: Mapping[str, Any], path: str, reserved: Mapping[str, Collection[str]]
) -> Iterator[FieldError]:
    """Find what a compile step cannot work with; the API server checks the rest.

    Args:
        template: the Pod template of a role.
        path: its field.
        reserved: by list (containers, volumes), the names that the compile step adds.
    """
    faults = list(islice(find_shape_faults(template, _TEMPLATE, path), _MAX_FAULTS))
    if faults:
        yield from faults
        return
    spec = template.get("spec")
    if inplace.find_text(template) is not None:
        yield FieldError(
            f"{path}.metadata.annotations[{constants.IN_PLACE_ANNOTATION}]",
            "only the roles of a Framework restart in place: remove it, or write a Framework "
            "(examples/recovery.yaml)",
        )
    if spec is None:
        yield FieldError(f"{path}.spec", "is required: write an object with containers")
        return
    for key in _NAMED_LISTS:
        yield from _check_names(spec.get(key) or (), f"{path}.spec.{key}", reserved.get(key, ()))
    yield from _check_retryable_codes(template, path)
    if not spec.get("containers"):
        yield FieldError(f"{path}.spec.containers", "is required: list at least one container")


def _check_retryable_codes(template: Mapping[str, Any], path: str) -> Iterator[FieldError]:
    names = {str(item.get("name")) for item in template["spec"].get("containers") or ()}
    fault, remedy = retryable_codes.find_fault(template, names)
    if fault:
        field = f"{path}.metadata.annotations[{constants.RETRYABLE_CODES_ANNOTATION}]"
        yield FieldError(field, f"{fault}: {remedy}")


def _check_names(
    items: Sequence[Mapping[str, Any]], path: str, reserved: Collection[str]
) -> Iterator[FieldError]:
    if len(items) > _MAX_CONTAINERS:
        yield FieldError(path, f"has {len(items)} entries: use at most {_MAX_CONTAINERS}")
        return
    for index, item in enumerate(items):
        name = item.get("name")
        if name in reserved:
            yield FieldError(
                f"{path}[{index}].name",
                f"{name} is the name of a part that is added: give it another name",
            )


def translate_restart_policy(spec: Object, path: str, remedy: str) -> Iterator[Note]:
    """Set ``restartPolicy`` to Never, which lets the controller see exit codes."""
    given = spec.get("restartPolicy") or "Always"
    if given != "Never":
        shown = "missing, which is Always" if not spec.get("restartPolicy") else str(given)
        yield Note(f"{path}.spec.restartPolicy", f"is {shown}; translated to Never: {remedy}")
    spec["restartPolicy"] = "Never"


def translate_gpus(spec: Object, path: str) -> Iterator[Note]:
    """Rename the resource that GPUs had in old versions of Kubernetes."""
    for index, container in enumerate(spec["containers"]):
        resources = container.get("resources")
        for kind in ("limits", "requests"):
            amounts = resources.get(kind) if isinstance(resources, dict) else None
            if isinstance(amounts, dict) and OLD_GPU_RESOURCE in amounts:
                amount = amounts.pop(OLD_GPU_RESOURCE)
                amounts.setdefault(constants.GPU_RESOURCE, amount)
                yield Note(
                    f"{path}.spec.containers[{index}].resources.{kind}[{OLD_GPU_RESOURCE}]",
                    f"translated to {constants.GPU_RESOURCE}: Kubernetes has dropped the old name",
                )


def add_labels(template: Object, labels: Mapping[str, str]) -> None:
    """Set labels of the Pods; those of the user with other names stay."""
    metadata = _get_object(template, "metadata")
    metadata["labels"] = {**(metadata.get("labels") or {}), **labels}


def add_annotation(template: Object, name: str, value: str) -> None:
    """Set an annotation of the Pods."""
    metadata = _get_object(template, "metadata")
    metadata["annotations"] = {**(metadata.get("annotations") or {}), name: value}


def add_default_annotation(template: Object, name: str, value: str) -> None:
    """Set an annotation of the Pods that the user did not set."""
    if podtemplates.find_annotation(template, name) is None:
        add_annotation(template, name, value)


def add_volume(spec: Object, volume: Object) -> None:
    """Add a volume; a second one of this name is not added."""
    volumes = _get_list(spec, "volumes")
    if all(item.get("name") != volume["name"] for item in volumes):
        volumes.append(volume)


def add_mount(container: Object, mount: Object) -> None:
    """Mount a volume, unless the user has mounted one at this path."""
    mounts = _get_list(container, "volumeMounts")
    path = str(mount["mountPath"]).rstrip("/")
    if all(str(item.get("mountPath")).rstrip("/") != path for item in mounts):
        mounts.append(mount)


def add_env(container: Object, variables: Mapping[str, str]) -> None:
    """Set variables, in place of those that the user gave the same names."""
    kept = [item for item in container.get("env") or [] if item.get("name") not in variables]
    container["env"] = [*kept, *({"name": k, "value": v} for k, v in variables.items())]


def add_default_env(container: Object, variables: Mapping[str, str]) -> None:
    """Set the variables that the user did not set."""
    given = {item.get("name") for item in container.get("env") or []}
    add_env(container, {name: text for name, text in variables.items() if name not in given})


def _get_object(body: Object, key: str) -> Object:
    value: Object = body.get(key) or {}
    body[key] = value
    return value


def _get_list(body: Object, key: str) -> list[Object]:
    value: list[Object] = body.get(key) or []
    body[key] = value
    return value

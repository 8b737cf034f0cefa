"""The rules of `lint` about Pod templates. Pure.

The API server validates a template with each Pod, so its refusal comes late, in a status. Most of
these faults are YAML scalars of another type than the author meant. ``restart_policy`` finds
policies under which the kubelet hides exit codes from the controller.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from difflib import get_close_matches
from itertools import islice

from cli.authoring.containerfields import find_invalid_image, find_invalid_ports
from cli.authoring.findings import Finding, error, warning
from cli.files.templates import ContainerTemplate, RoleTemplate, is_open
from framework.api import constants
from framework.kube.resources import Object
from rendezvous.settings.options import BY_ANNOTATION

_REFUSED = "the API server refuses the Pod"
_QUOTES = "put it into quotes"
_RESTART_POLICIES = ("Always", "OnFailure", "Never")
_QUANTITY = re.compile(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([KMGTPE]i|[numkMGTPE]|[eE][+-]?[0-9]+)?")
_RESOURCES = ("cpu", "memory", "ephemeral-storage")
_MEANT_RESOURCES = {
    "cpu": "cpu",
    "mem": "memory",
    "ram": "memory",
    "disk": "ephemeral-storage",
    "storage": "ephemeral-storage",
    "gpu": "nvidia.com/gpu",
}
# A quantity that is not a whole number.
_PART = re.compile(r"[0-9]*\.0*[1-9][0-9]*|[0-9]*[1-9]0{0,2}m")
# The longest DNS label.
_LONGEST_NAME = 63
_MOST_SUGGESTED = 16
_NOTHING = (None, "")  # Kubernetes puts the default there.
_COUNTS = ("minFailedTaskCount", "minSucceededTaskCount")
_RESERVED_PREFIXES = ("FC_", constants.ANNOTATION_PREFIX)
_WRAPPER = constants.WRAPPER_ANNOTATION.removeprefix(constants.ANNOTATION_PREFIX)
_IN_PLACE = constants.IN_PLACE_ANNOTATION.removeprefix(constants.ANNOTATION_PREFIX)
_RETRYABLE = constants.RETRYABLE_CODES_ANNOTATION.removeprefix(constants.ANNOTATION_PREFIX)
_SETTINGS = BY_ANNOTATION | {_WRAPPER, _IN_PLACE, _RETRYABLE}


def pod_template(_: Object, role: RoleTemplate, __: object) -> Iterator[Finding]:
    """Find fields of a wrong type or form, and volumes that do not exist."""
    yield from _find_no_restart_policy(role)
    selector = role.pod_spec.get("nodeSelector")
    yield from _find_no_text_map(selector, f"{role.spec_path}.nodeSelector")
    volumes = dict.fromkeys(str(volume.body.get("name", "")) for volume in role.list_volumes())
    for container in role.list_containers():
        for key in ("name", "image"):
            yield from _find_no_word(container, key)
        yield from find_invalid_image(container)
        yield from find_invalid_ports(container)
        for key in ("command", "args"):
            yield from _find_no_texts(container.body.get(key), f"{container.path}.{key}")
        yield from _find_no_variables(container)
        yield from _find_no_mounts(container, volumes)
        yield from _find_no_quantities(container)


def reserved_key(_: Object, role: RoleTemplate, __: object) -> Iterator[Finding]:
    """Find labels and annotations of the controller in a Pod template."""
    fields = {"labels": role.labels, "annotations": role.annotations}
    for field, key in [(field, str(key)) for field, keys in fields.items() for key in keys]:
        word = key.removeprefix(constants.ANNOTATION_PREFIX)
        is_setting = field == "annotations" and word != key and word in _SETTINGS
        if is_setting or not key.startswith(_RESERVED_PREFIXES):
            continue
        close = get_close_matches(word, _SETTINGS, n=1, cutoff=0.8)
        yield warning(
            "reserved-key",
            f"{role.path}.task.pod.metadata.{field}[{key}]",
            "is reserved for the controller, and is not a setting of an agent: a cluster with the "
            "policies of deploy/tenants refuses the Framework",
            f"write the annotation `{constants.ANNOTATION_PREFIX}{close[0]}`"
            if close
            else "leave it out",
        )


def restart_policy(_: Object, role: RoleTemplate, __: object) -> Iterator[Finding]:
    """Find restart policies under which the controller does not see exit codes."""
    given_policy = role.pod_spec.get("restartPolicy")
    policy = "Always" if given_policy in _NOTHING else given_policy
    if policy == "Never" or policy not in _RESTART_POLICIES:
        return  # `pod_template` reports any other value.
    path = f"{role.spec_path}.restartPolicy"
    misspelt = _find_misspelt("restartPolicy", role.pod_spec)
    mend = "write `restartPolicy: Never`" + (f" for `{misspelt}`" if misspelt else "")
    mend += "; Tasks are retried by their retryPolicy"
    if any(c.is_agent for c in role.list_containers()):
        yield error(
            "restart-policy",
            path,
            f"is {policy}: the kubelet restarts an agent that ends with 201 or 210 in the same "
            "Pod, so the controller does not see the exit code, and the Pod waits without end",
            mend,
        )
        return
    counts = role.get_counts()
    given = " and ".join(name for name in _COUNTS if counts.get(name, 0) > 0)
    # A Task that is retried after every completion is a service. A deadline also ends its Pods.
    is_service = role.get_max_retry_count() == constants.EXTENDED_UNLIMITED
    is_ended = role.pod_spec.get("activeDeadlineSeconds") is not None
    if policy == "Always" and given and not is_service and not is_ended:
        word = "is Always" if given_policy else "is missing, which is Always"
        yield warning(
            "restart-policy",
            path,
            f"{word}: the kubelet restarts each container that ends, so no Task completes, and "
            f"{given} has no effect",
            f"{mend} (a service that never ends: leave out frameworkAttemptCompletionPolicy)",
        )


def _find_no_word(container: ContainerTemplate, key: str) -> Iterator[Finding]:
    value = container.body.get(key)
    if isinstance(value, str) and value:
        return
    misspelt = _find_misspelt(key, container.body)
    yield error(
        "pod-template",
        f"{container.path}.{key}",
        f"is {'not a string' if value else 'missing'}: {_REFUSED}",
        f"write `{key}` for `{misspelt}`" if misspelt else f"write `{key}: ...`",
    )


def _find_misspelt(key: str, body: Mapping[str, object]) -> str | None:
    """Find the misspelt key that stands for this key; None if the key exists."""
    close = get_close_matches(key, map(str, body), n=1, cutoff=0.8)
    return close[0] if close and close[0] != key else None


def _find_no_restart_policy(role: RoleTemplate) -> Iterator[Finding]:
    policy = role.pod_spec.get("restartPolicy")
    if policy in (*_NOTHING, *_RESTART_POLICIES) or is_open(str(policy)):
        return
    by_folded = {known.casefold(): known for known in _RESTART_POLICIES}
    meant = by_folded.get(str(policy).casefold())
    yield error(
        "pod-template",
        f"{role.spec_path}.restartPolicy",
        f"{json.dumps(policy, default=str)} is not a valid restartPolicy: {_REFUSED}",
        f"write `{meant}`" if meant else f"write one of {', '.join(_RESTART_POLICIES)}",
    )


def _find_no_quantities(container: ContainerTemplate) -> Iterator[Finding]:
    resources = container.body.get("resources")
    for kind in ("requests", "limits"):
        quantities = resources.get(kind) if isinstance(resources, Mapping) else None
        for name, value in quantities.items() if isinstance(quantities, Mapping) else ():
            path = f"{container.path}.resources.{kind}[{name}]"
            yield from _find_no_resource(str(name), value, path)
            if value is not None and not _is_quantity(value):
                yield error(
                    "pod-template",
                    path,
                    f"{json.dumps(value, default=str)} is not a valid quantity: {_REFUSED}",
                    "write it for example 2, 500m or 16Gi",
                )


def _find_no_resource(name: str, value: object, path: str) -> Iterator[Finding]:
    """Find a resource that is unknown, or a fraction of a resource that cannot be divided."""
    domain, slash, _ = name.partition("/")
    if not slash and name not in _RESOURCES and not name.startswith("hugepages-"):
        if is_open(name):
            return
        meant = _MEANT_RESOURCES.get(name.casefold().removesuffix("s"))
        near = [meant] if meant else get_close_matches(name, _RESOURCES, n=1)
        yield error(
            "pod-template",
            path,
            f"is no resource of Kubernetes: {_REFUSED}",
            f"write `{near[0]}`" if near else "write cpu, memory, or DOMAIN/NAME as nvidia.com/gpu",
        )
    is_extended = slash and not domain.endswith("kubernetes.io")
    if is_extended and _is_quantity(value) and _PART.fullmatch(str(value).strip()):
        yield error(
            "pod-template",
            path,
            f"{json.dumps(value)} is not a whole number: {_REFUSED}",
            f"write a whole number: {name} cannot be divided",
        )


def _is_quantity(value: object) -> bool:
    if isinstance(value, str):
        return is_open(value) or _QUANTITY.fullmatch(value.strip()) is not None
    return isinstance(value, int | float) and not isinstance(value, bool)


def _find_no_texts(words: object, path: str) -> Iterator[Finding]:
    """Find arguments that are not strings; YAML reads an unquoted true or 8080 as another type."""
    if words is None:
        return
    if not isinstance(words, list):
        yield error(
            "pod-template",
            path,
            f"is not a list: {_REFUSED}",
            'write a list of strings, for example ["python3", "/app/train.py"]',
        )
        return
    for index, word in enumerate(words):
        yield from _find_no_text(word, f"{path}[{index}]")


def _find_no_text(value: object, path: str) -> Iterator[Finding]:
    if not isinstance(value, str):
        shown = json.dumps(value, default=str)
        yield error("pod-template", path, f"{shown} is not a string: {_REFUSED}", _QUOTES)


def _find_no_text_map(texts: object, path: str) -> Iterator[Finding]:
    if texts is None:
        return
    if not isinstance(texts, Mapping):
        yield error("pod-template", path, f"is not a map: {_REFUSED}", "write {key: value, ...}")
        return
    for key, value in texts.items():
        if value is not None:
            yield from _find_no_text(value, f"{path}[{key}]")


def _find_no_variables(container: ContainerTemplate) -> Iterator[Finding]:
    form = "write `- {name: NAME, value: TEXT}` for each variable"
    for path, variable in _list_maps(container, "env"):
        if path.endswith(".env"):
            yield error("pod-template", path, f"is not a list: {_REFUSED}", form)
            continue
        if not isinstance(variable, Mapping):
            yield error("pod-template", path, f"is not a variable: {_REFUSED}", form)
            continue
        name, value = variable.get("name"), variable.get("value")
        if not isinstance(name, str) or not name:
            kind = "missing" if name is None or name == "" else "no text"
            yield error("pod-template", f"{path}.name", f"is {kind}: {_REFUSED}", form)
        if value is not None:
            yield from _find_no_text(value, f"{path}.value")


def _find_no_mounts(container: ContainerTemplate, volumes: Mapping[str, None]) -> Iterator[Finding]:
    form = "write `- {name: VOLUME, mountPath: /PATH}` for each"
    for path, mount in _list_maps(container, "volumeMounts"):
        if not isinstance(mount, Mapping):
            yield error("pod-template", path, f"is not a mount: {_REFUSED}", form)
            continue
        if not mount.get("mountPath"):
            yield error("pod-template", f"{path}.mountPath", f"is missing: {_REFUSED}", form)
        name = str(mount.get("name") or "")
        if name not in volumes and not is_open(name):
            close = _suggest_volume(name, volumes)
            yield error(
                "pod-template",
                f"{path}.name",
                f"the Pod has no volume {name!r}: {_REFUSED}",
                f"write `{close[0]}`" if close else "add it to `volumes` of the Pod's spec",
            )


def _suggest_volume(name: str, volumes: Iterable[str]) -> list[str]:
    """Find the volume that the user may have meant, among the first volumes."""
    if len(name) > _LONGEST_NAME:
        return []
    first = islice(volumes, _MOST_SUGGESTED)
    return get_close_matches(name, [v for v in first if len(v) <= _LONGEST_NAME], n=1)


def _list_maps(container: ContainerTemplate, key: str) -> Iterator[tuple[str, object]]:
    """Yield the entries of a list of maps with their paths; None for a value that is not a list."""
    entries = container.body.get(key)
    path = f"{container.path}.{key}"
    if isinstance(entries, list):
        yield from ((f"{path}[{index}]", entry) for index, entry in enumerate(entries))
    elif entries is not None:
        yield path, None

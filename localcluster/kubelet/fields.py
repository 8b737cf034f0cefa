"""Values that a Pod requests: fields of the downward API, and ``$(VAR)`` in texts. Pure."""

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass

from framework.kube.resources import Object
from localcluster.apiserver.model.quantities import parse_quantity

_SUBSCRIPT = re.compile(r"metadata\.(?P<field>labels|annotations)\['(?P<key>[^']+)'\]\Z")

# ``$$`` is an escaped dollar sign.
_REFERENCE = re.compile(r"\$(?:\$|\((?P<name>[^)]*)\))")


class FieldError(Exception):
    """The Pod requests a value or an object that does not exist; the text is for its status.

    All functions that read the spec of a Pod raise it: env, volumes, mounts, privileges.
    """


@dataclass(frozen=True, slots=True)
class PodFacts:
    """The facts about a Pod that its containers can request."""

    pod: Object
    node_name: str
    host_ip: str
    pod_ips: tuple[str, ...]
    allocatable: Mapping[str, str]
    """Resources of the node: the limits of a container that has none."""


def resolve_field(facts: PodFacts, path: str) -> str:
    """Return the value of a ``fieldRef``."""
    metadata, spec = facts.pod["metadata"], facts.pod["spec"]
    subscript = _SUBSCRIPT.match(path)
    if subscript:
        return str((metadata.get(subscript["field"]) or {}).get(subscript["key"], ""))
    if path in {"metadata.labels", "metadata.annotations"}:
        return _format_map(metadata.get(path.removeprefix("metadata.")) or {})
    values = {
        "metadata.name": metadata["name"],
        "metadata.namespace": metadata["namespace"],
        "metadata.uid": metadata["uid"],
        "spec.nodeName": facts.node_name,
        "spec.serviceAccountName": spec.get("serviceAccountName") or "default",
        "status.podIP": facts.pod_ips[0],
        "status.podIPs": ",".join(facts.pod_ips),
        "status.hostIP": facts.host_ip,
        "status.hostIPs": facts.host_ip,
    }
    if path not in values:
        raise FieldError(f"unsupported fieldPath: {path}")
    return str(values[path])


def _format_map(values: Mapping[str, str]) -> str:
    return "\n".join(
        f"{key}={json.dumps(values[key], ensure_ascii=False)}" for key in sorted(values)
    )


def resolve_resource(facts: PodFacts, selector: Object, container: Object | None) -> str:
    """Return the value of a ``resourceFieldRef``, rounded up to whole divisors.

    In a volume, ``container`` is None, and the selector names its container.
    """
    name = selector.get("containerName")
    if name:
        container = next((c for c in list_containers(facts.pod) if c["name"] == name), None)
    if container is None:
        raise FieldError(f"container {name} not found")
    kind, _, resource = str(selector["resource"]).partition(".")
    if kind not in {"limits", "requests"} or not resource:
        raise FieldError(f"unsupported resource: {selector['resource']}")
    stated = ((container.get("resources") or {}).get(kind) or {}).get(resource)
    if stated is None:
        stated = facts.allocatable.get(resource, "0") if kind == "limits" else "0"
    try:
        divisor = parse_quantity(str(selector.get("divisor") or "1")) or 1
        return str(math.ceil(parse_quantity(str(stated)) / divisor))
    except ValueError as e:
        raise FieldError(f"{selector['resource']}: {e}") from e


def list_containers(pod: Object) -> list[Object]:
    """List init and main containers, in their order."""
    spec = pod["spec"]
    return [*(spec.get("initContainers") or ()), *spec["containers"]]


def expand(text: str, variables: Mapping[str, str]) -> str:
    """Replace ``$(VAR)`` once, by the kubelet's rules; an undefined variable is kept."""

    def replace(match: re.Match[str]) -> str:
        name = match["name"]
        return "$" if name is None else variables.get(name, match[0])

    # There is no reference behind the last bracket. A search there would take quadratic time.
    end = text.rfind(")") + 1
    return _REFERENCE.sub(replace, text[:end]) + text[end:].replace("$$", "$")

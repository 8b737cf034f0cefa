"""Validation of a Pod spec after defaults: the most common rules of the API server."""

from collections.abc import Iterator

from localcluster.apiserver.kinds.plain import port_faults
from localcluster.apiserver.model import names
from localcluster.apiserver.model.errors import (
    Cause,
    Object,
    duplicate,
    invalid_value,
    missing_reference,
    not_allowed,
    not_supported,
    required,
)
from localcluster.apiserver.model.metadata import NameRule
from localcluster.apiserver.model.quantities import parse_quantity

_RESTART_POLICIES = ("Always", "OnFailure", "Never")
_DNS_POLICIES = ("ClusterFirst", "ClusterFirstWithHostNet", "Default", "None")
_PULL_POLICIES = ("Always", "IfNotPresent", "Never")
_PROTOCOLS = ("SCTP", "TCP", "UDP")
_MESSAGE_POLICIES = ("FallbackToLogsOnError", "File")
_HANDLERS = ("exec", "grpc", "httpGet", "tcpSocket")
_SOURCES = ("configMapKeyRef", "fieldRef", "fileKeyRef", "resourceFieldRef", "secretKeyRef")
_PLAIN_RESOURCES = ("cpu", "memory", "ephemeral-storage")
_SPEC_NAMES: dict[str, NameRule] = {
    "hostname": names.label_faults,
    "subdomain": names.label_faults,
    "nodeName": names.subdomain_faults,
    "serviceAccountName": names.subdomain_faults,
    "priorityClassName": names.subdomain_faults,
    "schedulerName": names.subdomain_faults,
}


def pod_faults(obj: Object) -> list[Cause]:
    """Check the spec of a Pod."""
    spec = obj["spec"]
    volumes, found = _volume_faults(spec.get("volumes") or [])
    found += _policy_faults(spec)
    if spec.get("nodeName") and spec.get("schedulingGates"):
        detail = "cannot be set until all schedulingGates have been cleared"
        found.append(not_allowed("spec.nodeName", detail))
    if not spec.get("containers"):
        found.append(required("spec.containers"))
    seen: set[str] = set()
    for kind in ("containers", "initContainers"):
        for index, container in enumerate(spec.get(kind) or ()):
            path = f"spec.{kind}[{index}]"
            found += _container_faults(container, path, volumes, is_init=kind != "containers")
            name = container.get("name", "")
            if name and name in seen:
                found.append(duplicate(f"{path}.name", name))
            seen.add(name)
    return found


def _policy_faults(spec: Object) -> list[Cause]:
    found = _enum_faults(spec, "restartPolicy", _RESTART_POLICIES, "spec")
    found += _enum_faults(spec, "dnsPolicy", _DNS_POLICIES, "spec")
    for name, rule in _SPEC_NAMES.items():
        if spec.get(name):
            found += _name_faults(spec, name, "spec", rule)
    deadline = spec.get("activeDeadlineSeconds")
    if deadline is not None and deadline < 1:
        detail = "must be between 1 and 2147483647, inclusive"
        found.append(invalid_value("spec.activeDeadlineSeconds", deadline, detail))
    return found


def _name_faults(
    obj: Object, field: str, path: str, rule: NameRule = names.label_faults
) -> list[Cause]:
    """Check a required name."""
    value = obj.get(field, "")
    if not value:
        return [required(f"{path}.{field}")]
    return [invalid_value(f"{path}.{field}", value, fault) for fault in rule(value)]


def _enum_faults(obj: Object, name: str, known: tuple[str, ...], path: str) -> list[Cause]:
    value = obj.get(name, "")
    if value in known or (not value and name != "restartPolicy"):
        return []
    return [not_supported(f"{path}.{name}", value, [item for item in known if item])]


def _volume_faults(volumes: list[Object]) -> tuple[dict[str, Object], list[Cause]]:
    known: dict[str, Object] = {}
    found: list[Cause] = []
    for index, volume in enumerate(volumes):
        path = f"spec.volumes[{index}]"
        name = volume.get("name", "")
        found += _name_faults(volume, "name", path)
        if name in known:
            found.append(duplicate(f"{path}.name", name))
        known[name] = volume
        sources = [key for key, value in volume.items() if key != "name" and value is not None]
        if len(sources) > 1:
            detail = "may not specify more than 1 volume type"
            found += [not_allowed(f"{path}.{source}", detail) for source in sources[1:]]
        found += _source_faults(volume, path)
    return known, found


def _source_faults(volume: Object, path: str) -> list[Cause]:
    checks = (
        ("configMap", "name"),
        ("secret", "secretName"),
        ("hostPath", "path"),
        ("persistentVolumeClaim", "claimName"),
    )
    return [
        required(f"{path}.{kind}.{name}")
        for kind, name in checks
        if volume.get(kind) is not None and not volume[kind].get(name)
    ]


def _container_faults(
    container: Object, path: str, volumes: dict[str, Object], *, is_init: bool
) -> list[Cause]:
    found = _name_faults(container, "name", path)
    image = container.get("image", "")
    if not image:
        found.append(required(f"{path}.image"))
    elif image != image.strip():
        detail = "must not have leading or trailing whitespace"
        found.append(invalid_value(f"{path}.image", image, detail))
    found += _enum_faults(container, "imagePullPolicy", _PULL_POLICIES, path)
    found += _enum_faults(container, "terminationMessagePolicy", _MESSAGE_POLICIES, path)
    found += _container_policy_faults(container, path, is_init=is_init)
    found += _port_list_faults(container.get("ports") or [], f"{path}.ports")
    found += _env_faults(container.get("env") or [], f"{path}.env")
    found += _mount_faults(container.get("volumeMounts") or [], f"{path}.volumeMounts", volumes)
    return found + _resource_faults(container.get("resources") or {}, f"{path}.resources")


def _container_policy_faults(container: Object, path: str, *, is_init: bool) -> list[Cause]:
    found: list[Cause] = []
    ends_itself = is_init and container.get("restartPolicy") != "Always"
    detail = "may not be set for init containers without restartPolicy=Always"
    for name in ("livenessProbe", "readinessProbe", "startupProbe"):
        probe = container.get(name)
        if probe is None:
            continue
        if ends_itself:
            found.append(not_allowed(f"{path}.{name}", detail))
        found += _handler_faults(probe, f"{path}.{name}")
        if name != "readinessProbe" and probe.get("successThreshold") != 1:
            value = probe.get("successThreshold")
            found.append(invalid_value(f"{path}.{name}.successThreshold", value, "must be 1"))
    if ends_itself and container.get("lifecycle") is not None:
        found.append(not_allowed(f"{path}.lifecycle", detail))
    return found


def _handler_faults(probe: Object, path: str) -> list[Cause]:
    handlers = [name for name in _HANDLERS if probe.get(name) is not None]
    if not handlers:
        return [required(path, "must specify a handler type")]
    detail = "may not specify more than 1 handler type"
    return [not_allowed(f"{path}.{name}", detail) for name in handlers[1:]]


def _port_list_faults(ports: list[Object], path: str) -> list[Cause]:
    found: list[Cause] = []
    seen: set[str] = set()
    for index, port in enumerate(ports):
        where = f"{path}[{index}]"
        number = port.get("containerPort", 0)
        missing = [] if number else [required(f"{where}.containerPort")]
        found += missing or port_faults(f"{where}.containerPort", number)
        found += _enum_faults(port, "protocol", _PROTOCOLS, where)
        name = port.get("name")
        if name and name in seen:
            found.append(duplicate(f"{where}.name", name))
        seen.add(name or "")
    return found


def _env_faults(variables: list[Object], path: str) -> list[Cause]:
    found: list[Cause] = []
    for index, variable in enumerate(variables):
        where = f"{path}[{index}]"
        found += _name_faults(variable, "name", where, names.env_name_faults)
        if variable.get("valueFrom") is not None:
            details = _explain_source(variable)
            found += [invalid_value(f"{where}.valueFrom", "", detail) for detail in details]
    return found


def _explain_source(variable: Object) -> Iterator[str]:
    if variable.get("value"):
        yield "may not be specified when `value` is not empty"
    given = [kind for kind in _SOURCES if variable["valueFrom"].get(kind) is not None]
    if not given:
        yield "must specify one of: " + ", ".join(f"`{kind}`" for kind in _SOURCES)
    elif len(given) > 1:
        yield "may not have more than one field specified at a time"


def _mount_faults(mounts: list[Object], path: str, volumes: dict[str, Object]) -> list[Cause]:
    found: list[Cause] = []
    seen: set[str] = set()
    for index, mount in enumerate(mounts):
        where = f"{path}[{index}]"
        name, target = mount.get("name", ""), mount.get("mountPath", "")
        if not name:
            found.append(required(f"{where}.name"))
        if name not in volumes:
            found.append(missing_reference(f"{where}.name", name))
        if not target:
            found.append(required(f"{where}.mountPath"))
        elif target in seen:
            found.append(invalid_value(f"{where}.mountPath", target, "must be unique"))
        seen.add(target)
        found += _sub_path_faults(mount, where)
    return found


def _sub_path_faults(mount: Object, path: str) -> list[Cause]:
    sub = mount.get("subPath", "")
    if sub.startswith("/"):
        return [invalid_value(f"{path}.subPath", sub, "must be a relative path")]
    if ".." in sub.split("/"):
        return [invalid_value(f"{path}.subPath", sub, "must not contain '..'")]
    if sub and mount.get("subPathExpr"):
        detail = "subPathExpr and subPath are mutually exclusive"
        return [invalid_value(f"{path}.subPathExpr", mount["subPathExpr"], detail)]
    return []


def _resource_faults(resources: Object, path: str) -> list[Cause]:
    limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
    found: list[Cause] = []
    for kind, amounts in (("limits", limits), ("requests", requests)):
        for name, amount in amounts.items():
            where = f"{path}.{kind}[{name}]"
            found += _resource_name_faults(name, f"{path}.{kind}")
            if parse_quantity(amount) < 0:
                found.append(invalid_value(where, amount, "must be greater than or equal to 0"))
    for name, amount in requests.items():
        limit = limits.get(name)
        if limit is not None and parse_quantity(amount) > parse_quantity(limit):
            detail = f"must be less than or equal to {name} limit of {limit}"
            found.append(invalid_value(f"{path}.requests", amount, detail))
    return found


def _resource_name_faults(name: str, path: str) -> list[Cause]:
    where = f"{path}[{name}]"
    faults = names.qualified_name_faults(name)
    if faults:
        return [invalid_value(where, name, fault) for fault in faults]
    if "/" in name or name in _PLAIN_RESOURCES or name.startswith("hugepages-"):
        return []
    return [
        invalid_value(where, name, "must be a standard resource type or fully qualified"),
        invalid_value(where, name, "must be a standard resource for containers"),
    ]

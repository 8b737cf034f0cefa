"""Pods: defaults, quality of service, graceful deletion, and which fields may change."""

from collections.abc import Iterator
from typing import Any

from localcluster.apiserver.engine.state import State
from localcluster.apiserver.engine.strategy import Strategy, keep_field
from localcluster.apiserver.kinds import pod_status_rules, pod_validation
from localcluster.apiserver.model import builtins, errors, objects
from localcluster.apiserver.model.errors import Cause, Object
from localcluster.apiserver.model.quantities import parse_quantity
from localcluster.apiserver.model.registry import ResourceType

DEFAULT_GRACE_SECONDS = 30
TERMINAL_PHASES = ("Succeeded", "Failed")
_FILE_MODE = 0o644
_TOKEN_SECONDS = 3600
_LOST_NODE_SECONDS = 300
_LOST_NODE_TAINTS = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
_SYSTEM_PRIORITIES = {
    "system-cluster-critical": 2_000_000_000,
    "system-node-critical": 2_000_001_000,
}
_UPDATE_MESSAGE = (
    "pod updates may not change fields other than `spec.containers[*].image`,"
    "`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only "
    "additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set "
    "to 1 if it was previously negative)"
)


class PodStrategy(Strategy):
    """Rules of Pods."""

    def __init__(self, rt: ResourceType, state: State) -> None:
        """Look up priority classes in ``state``."""
        super().__init__(rt)
        self._state = state

    def apply_defaults(self, obj: Object) -> None:
        """Set the fields that the API server sets in every Pod."""
        spec = obj.setdefault("spec", {})
        for name, value in _SPEC_DEFAULTS.items():
            spec.setdefault(name, value)
        spec.setdefault("securityContext", {})
        account = spec.get("serviceAccountName") or spec.get("serviceAccount")
        if account:
            spec["serviceAccountName"] = spec["serviceAccount"] = account
        for container in containers_of(spec):
            _default_container(container, is_host_network=bool(spec.get("hostNetwork")))
        for volume in spec.get("volumes") or ():
            _default_volume(volume)
        _default_addresses(obj.get("status") or {})

    def prepare_create(self, obj: Object) -> None:
        """Set the phase Pending, the service account and the priority."""
        super().prepare_create(obj)
        spec = obj["spec"]
        spec.setdefault("serviceAccountName", "default")
        _drop_container_policies(spec)
        _tolerate_lost_nodes(spec)
        spec.setdefault("serviceAccount", spec["serviceAccountName"])
        self._resolve_priority(obj)
        obj["status"] = {"phase": "Pending", "qosClass": quality_of_service(spec)}
        if spec.get("schedulingGates"):
            since = objects.format_time(self._state.clock.now())
            obj["status"]["conditions"] = [{**_GATED, "lastTransitionTime": since}]

    def _resolve_priority(self, obj: Object) -> None:
        spec = obj["spec"]
        name = spec.get("priorityClassName")
        if not name:
            spec["priority"] = 0
            spec.setdefault("preemptionPolicy", "PreemptLowerPriority")
            return
        found = self._state.find(builtins.PRIORITY_CLASSES.key, ("", name))
        if found is None and name not in _SYSTEM_PRIORITIES:
            why = f"no PriorityClass with name {name} was found"
            raise errors.forbidden(self.rt, obj["metadata"].get("name", ""), why)
        held = found or {}
        spec["priority"] = held.get("value", _SYSTEM_PRIORITIES.get(name, 0))
        spec["preemptionPolicy"] = held.get("preemptionPolicy", "PreemptLowerPriority")

    def object_faults(self, obj: Object) -> list[Cause]:
        """Check the whole spec."""
        return pod_validation.pod_faults(obj)

    def update_faults(self, new: Object, old: Object) -> list[Cause]:
        """Check that only fields that may change have changed."""
        if new["spec"] == old["spec"]:
            return []
        found = _change_faults(new["spec"], old["spec"])
        return found or pod_validation.pod_faults(new)

    def prepare_status(self, new: Object, old: Object) -> None:
        """Keep all but labels, annotations and the status."""
        super().prepare_status(new, old)
        owners = old["metadata"].get("ownerReferences")
        if owners is None:
            new["metadata"].pop("ownerReferences", None)
        else:
            new["metadata"]["ownerReferences"] = objects.copy_json(owners)
        status = new.setdefault("status", {})
        before = old.get("status") or {}
        if "qosClass" in before:
            status.setdefault("qosClass", before["qosClass"])
        _default_addresses(status)

    def status_faults(self, new: Object, old: Object) -> list[Cause]:
        """Check the status."""
        return pod_status_rules.status_faults(new, old)

    def prepare_update(self, new: Object, old: Object) -> None:
        """Keep the status and the decisions of admission."""
        super().prepare_update(new, old)
        for name in ("priority", "preemptionPolicy", "serviceAccountName", "serviceAccount"):
            if name not in new["spec"]:
                keep_field(new["spec"], old["spec"], name)

    def grace_seconds(self, obj: Object, asked: int | None) -> int | None:
        """Return the seconds of the request, else of the spec; 0 if no container runs."""
        spec = obj["spec"]
        own = spec.get("terminationGracePeriodSeconds", DEFAULT_GRACE_SECONDS)
        grace: int = own if asked is None else asked
        phase = objects.get_path(obj, "status", "phase")
        if not spec.get("nodeName") or phase in TERMINAL_PHASES:
            grace = 0
        return grace if grace >= 0 else 1


_GATED: Object = {
    "type": "PodScheduled",
    "status": "False",
    "reason": "SchedulingGated",
    "message": "Scheduling is blocked due to non-empty scheduling gates",
    # Like the encoder of the real server for a time that was never set.
    "lastProbeTime": None,
}
_SPEC_DEFAULTS: Object = {
    "restartPolicy": "Always",
    "terminationGracePeriodSeconds": DEFAULT_GRACE_SECONDS,
    "dnsPolicy": "ClusterFirst",
    "schedulerName": "default-scheduler",
    "enableServiceLinks": True,
}


def _tolerate_lost_nodes(spec: Object) -> None:
    tolerations = spec.setdefault("tolerations", [])
    for key in _LOST_NODE_TAINTS:
        if not any(_covers(toleration, key) for toleration in tolerations):
            tolerations.append(
                {
                    "key": key,
                    "operator": "Exists",
                    "effect": "NoExecute",
                    "tolerationSeconds": _LOST_NODE_SECONDS,
                }
            )


def _covers(toleration: Object, key: str) -> bool:
    is_key = toleration.get("key") == key
    is_any = not toleration.get("key") and toleration.get("operator") == "Exists"
    return (is_key or is_any) and toleration.get("effect", "") in ("", "NoExecute")


def containers_of(spec: Object) -> Iterator[Object]:
    """Yield the init containers, then the containers."""
    yield from spec.get("initContainers") or ()
    yield from spec.get("containers") or ()


def _default_container(container: Object, *, is_host_network: bool) -> None:
    container.setdefault("terminationMessagePath", "/dev/termination-log")
    container.setdefault("terminationMessagePolicy", "File")
    if not container.get("imagePullPolicy"):
        container["imagePullPolicy"] = _pull_policy(container.get("image", ""))
    resources = container.setdefault("resources", {})
    if resources.get("limits"):
        resources["requests"] = {**resources["limits"], **(resources.get("requests") or {})}
    for port in container.get("ports") or ():
        port.setdefault("protocol", "TCP")
        if is_host_network:
            port.setdefault("hostPort", port.get("containerPort", 0))
    for variable in container.get("env") or ():
        _default_variable(variable)
    for name in ("livenessProbe", "readinessProbe", "startupProbe"):
        if container.get(name) is not None:
            _default_probe(container[name])
    for hook in (container.get("lifecycle") or {}).values():
        if isinstance(hook, dict):
            _default_http(hook)


def _default_variable(variable: Object) -> None:
    field = objects.get_path(variable, "valueFrom", "fieldRef")
    if field is not None:
        field.setdefault("apiVersion", "v1")
    if variable.get("value") == "":
        del variable["value"]


def _pull_policy(image: str) -> str:
    name = image.partition("@")[0].rpartition("/")[2]
    _, colon, tag = name.partition(":")
    is_latest = (tag == "latest") if colon else "@" not in image
    return "Always" if is_latest else "IfNotPresent"


def _default_probe(probe: Object) -> None:
    defaults = (
        ("timeoutSeconds", 1),
        ("periodSeconds", 10),
        ("successThreshold", 1),
        ("failureThreshold", 3),
    )
    for name, value in defaults:
        if not probe.get(name):
            probe[name] = value
    _default_http(probe)
    if probe.get("grpc") is not None:
        probe["grpc"].setdefault("service", "")


def _default_http(action: Object) -> None:
    request = action.get("httpGet")
    if request is not None:
        request.setdefault("path", "/")
        request.setdefault("scheme", "HTTP")


def _default_volume(volume: Object) -> None:
    if not any(volume.get(name) is not None for name in volume if name != "name"):
        volume["emptyDir"] = {}
    for name in ("configMap", "secret", "downwardAPI", "projected"):
        if volume.get(name) is not None:
            volume[name].setdefault("defaultMode", _FILE_MODE)
    if volume.get("hostPath") is not None:
        volume["hostPath"].setdefault("type", "")
    for source in objects.get_path(volume, "projected", "sources") or ():
        if source.get("serviceAccountToken") is not None:
            source["serviceAccountToken"].setdefault("expirationSeconds", _TOKEN_SECONDS)
        _default_field_refs(objects.get_path(source, "downwardAPI", "items"))
    _default_field_refs(objects.get_path(volume, "downwardAPI", "items"))


def _default_field_refs(items: Any) -> None:
    for item in items or ():
        if item.get("fieldRef") is not None:
            item["fieldRef"].setdefault("apiVersion", "v1")


def _default_addresses(status: Object) -> None:
    """Make the first of several addresses equal to the single field, which decides."""
    for single, several in (("podIP", "podIPs"), ("hostIP", "hostIPs")):
        first = status.get(single)
        listed = status.get(several)
        if first and (not listed or listed[0].get("ip") != first):
            status[several] = [{"ip": first}]
        elif listed and not first:
            status[single] = listed[0].get("ip", "")


def quality_of_service(spec: Object) -> str:
    """Return the QoS class of a Pod spec: Guaranteed, Burstable or BestEffort."""
    is_any, is_guaranteed = False, True
    for container in containers_of(spec):
        resources = container.get("resources") or {}
        limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
        for name in ("cpu", "memory"):
            limit, request = _amount(limits, name), _amount(requests, name)
            is_any = is_any or bool(limit) or bool(request)
            is_guaranteed = is_guaranteed and bool(limit) and limit == request
    if not is_any:
        return "BestEffort"
    return "Guaranteed" if is_guaranteed else "Burstable"


def _drop_container_policies(spec: Object) -> None:
    """Drop fields that Kubernetes 1.34 ignores: restart policies of containers, except sidecars."""
    for container in (*(spec.get("containers") or ()), *(spec.get("initContainers") or ())):
        container.pop("restartPolicyRules", None)
    for container in spec.get("containers") or ():
        container.pop("restartPolicy", None)
    for container in spec.get("initContainers") or ():
        if container.get("restartPolicy") != "Always":
            container.pop("restartPolicy", None)


def _amount(quantities: Object, name: str) -> Any:
    text = quantities.get(name)
    return parse_quantity(text) if text is not None else None


def _change_faults(new: Object, old: Object) -> list[Cause]:
    found: list[Cause] = []
    deadline, before = new.get("activeDeadlineSeconds"), old.get("activeDeadlineSeconds")
    path = "spec.activeDeadlineSeconds"
    if before is not None and (deadline is None or deadline > before):
        if deadline is None:
            found.append(
                errors.invalid_value(
                    path, None, "must not update from a positive integer to nil value"
                )
            )
        else:
            detail = "must be less than or equal to previous value"
            found.append(errors.invalid_value(path, deadline, detail))
        return found
    held = _tolerated(new)
    if any(toleration not in held for toleration in _tolerated(old)):
        detail = "existing toleration can not be modified except its tolerationSeconds"
        found.append(errors.not_allowed("spec.tolerations", detail))
    for name in ("containers", "initContainers"):
        if len(new.get(name) or ()) != len(old.get(name) or ()):
            detail = "pod updates may not add or remove containers"
            return [*found, errors.not_allowed(f"spec.{name}", detail)]
    if _fixed_part(new, old) != _fixed_part(old, old):
        found.append(errors.not_allowed("spec", _UPDATE_MESSAGE))
    return found


def _tolerated(spec: Object) -> list[Object]:
    """Return the tolerations without the fields that may be changed."""
    return [
        {name: value for name, value in toleration.items() if name != "tolerationSeconds"}
        for toleration in spec.get("tolerations") or ()
    ]


def _fixed_part(spec: Object, old: Object) -> Object:
    fixed = {
        name: value
        for name, value in spec.items()
        if name not in ("activeDeadlineSeconds", "tolerations")
    }
    for name in ("containers", "initContainers"):
        if fixed.get(name):
            fixed[name] = [
                {key: value for key, value in container.items() if key != "image"}
                for container in fixed[name]
            ]
    gates = spec.get("schedulingGates") or []
    if all(gate in (old.get("schedulingGates") or []) for gate in gates):
        fixed.pop("schedulingGates", None)
    if old.get("terminationGracePeriodSeconds", 0) < 0:
        fixed.pop("terminationGracePeriodSeconds", None)
    return fixed

"""Pods: defaults, graceful deletion, and which fields may change.

Fields for a scheduler or a node (tolerations, quality of service) are stored as given, because
nothing here reads them. Of priorities, only the name of the PriorityClass is checked: a gang with a
wrong name would never start on a cluster.
"""

from collections.abc import Iterator
from typing import Any

from localcluster.apiserver.engine.state import State
from localcluster.apiserver.engine.strategy import Strategy, keep_field
from localcluster.apiserver.kinds import pod_validation
from localcluster.apiserver.model import builtins, errors, objects
from localcluster.apiserver.model.errors import Cause, Object
from localcluster.apiserver.model.registry import ResourceType

DEFAULT_GRACE_SECONDS = 30
TERMINAL_PHASES = ("Succeeded", "Failed")
_FILE_MODE = 0o644
_TOKEN_SECONDS = 3600
_SYSTEM_PRIORITIES = frozenset({"system-cluster-critical", "system-node-critical"})
_STATUSES = {"containers": "containerStatuses", "initContainers": "initContainerStatuses"}
_STATE_RULE = "may not be transitioned to non-terminated state"
_UPDATE_MESSAGE = (
    "pod updates may not change fields other than `spec.containers[*].image`,"
    "`spec.initContainers[*].image`,`spec.tolerations`"
)


class PodStrategy(Strategy):
    """Rules of Pods."""

    def __init__(self, rt: ResourceType, state: State) -> None:
        """Look up priority classes in ``state``, and take times from its clock."""
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
        """Set the phase Pending and the service account."""
        super().prepare_create(obj)
        spec = obj["spec"]
        spec.setdefault("serviceAccountName", "default")
        _drop_container_policies(spec)
        spec.setdefault("serviceAccount", spec["serviceAccountName"])
        self._check_priority_class(obj)
        obj["status"] = {"phase": "Pending"}
        if spec.get("schedulingGates"):
            since = objects.format_time(self._state.clock.now())
            obj["status"]["conditions"] = [{**_GATED, "lastTransitionTime": since}]

    def _check_priority_class(self, obj: Object) -> None:
        name = obj["spec"].get("priorityClassName")
        if not name or name in _SYSTEM_PRIORITIES:
            return
        if self._state.find(builtins.PRIORITY_CLASSES.key, ("", name)) is None:
            why = f"no PriorityClass with name {name} was found"
            raise errors.forbidden(self.rt, obj["metadata"].get("name", ""), why)

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
        _default_addresses(new.setdefault("status", {}))

    def status_faults(self, new: Object, old: Object) -> list[Cause]:
        """Check that no container runs again after its last end."""
        now, was = new.get("status") or {}, old.get("status") or {}
        return [
            errors.not_allowed(f"status.{field}[{index}].state", _STATE_RULE)
            for kind, field in _STATUSES.items()
            for index in _find_revived(
                now.get(field) or [], was.get(field) or [], old["spec"], kind
            )
        ]

    def prepare_update(self, new: Object, old: Object) -> None:
        """Keep the status and the decisions of admission."""
        super().prepare_update(new, old)
        for name in ("serviceAccountName", "serviceAccount"):
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
    """Make the single address and the list agree: the single address, if set, decides."""
    for single, several in (("podIP", "podIPs"), ("hostIP", "hostIPs")):
        first = status.get(single)
        listed = status.get(several)
        if first and (not listed or listed[0].get("ip") != first):
            status[several] = [{"ip": first}]
        elif listed and not first:
            status[single] = listed[0].get("ip", "")


def _drop_container_policies(spec: Object) -> None:
    """Drop fields that Kubernetes 1.34 ignores: restart policies of containers, except sidecars."""
    for container in (*(spec.get("containers") or ()), *(spec.get("initContainers") or ())):
        container.pop("restartPolicyRules", None)
    for container in spec.get("containers") or ():
        container.pop("restartPolicy", None)
    for container in spec.get("initContainers") or ():
        if container.get("restartPolicy") != "Always":
            container.pop("restartPolicy", None)


def _find_revived(now: list[Object], was: list[Object], spec: Object, kind: str) -> list[int]:
    """Return the indexes of containers that had ended for good, but in the status no longer."""
    policy = spec.get("restartPolicy")
    if policy == "Always":
        return []
    sidecars = {c["name"] for c in spec.get(kind) or () if c.get("restartPolicy") == "Always"}
    living = {c["name"] for c in now if objects.get_path(c, "state", "terminated") is None}
    must_stay_ended = living - sidecars
    found = []
    for index, status in enumerate(was):
        ended = objects.get_path(status, "state", "terminated")
        if ended is None or status["name"] not in must_stay_ended:
            continue
        if policy != "OnFailure" or ended.get("exitCode", 0) == 0:
            found.append(index)
    return found


def _change_faults(new: Object, old: Object) -> list[Cause]:
    for name in ("containers", "initContainers"):
        if len(new.get(name) or ()) != len(old.get(name) or ()):
            detail = "pod updates may not add or remove containers"
            return [errors.not_allowed(f"spec.{name}", detail)]
    if _fixed_part(new, old) != _fixed_part(old, old):
        return [errors.not_allowed("spec", _UPDATE_MESSAGE)]
    return []


def _fixed_part(spec: Object, old: Object) -> Object:
    fixed = {name: value for name, value in spec.items() if name != "tolerations"}
    for name in ("containers", "initContainers"):
        if fixed.get(name):
            fixed[name] = [
                {key: value for key, value in container.items() if key != "image"}
                for container in fixed[name]
            ]
    gates = spec.get("schedulingGates") or []
    if all(gate in (old.get("schedulingGates") or []) for gate in gates):
        fixed.pop("schedulingGates", None)
    return fixed

"""The rule for writes to the status of a Pod: a container never runs again after its last end."""

from localcluster.apiserver.model import errors
from localcluster.apiserver.model.errors import Cause, Object
from localcluster.apiserver.model.objects import get_path

_STATE_RULE = "may not be transitioned to non-terminated state"


def status_faults(new: Object, old: Object) -> list[Cause]:
    """Check a Pod whose status changed against the old Pod."""
    spec = old["spec"]
    now, was = new.get("status") or {}, old.get("status") or {}
    found: list[Cause] = []
    for kind, declared in (
        ("containerStatuses", spec.get("containers")),
        ("initContainerStatuses", spec.get("initContainers")),
    ):
        policies = {item["name"]: item.get("restartPolicy") for item in declared or ()}
        revived = _revived(now.get(kind) or [], was.get(kind) or [], spec, policies)
        found += [
            errors.not_allowed(f"status.{kind}[{index}].state", _STATE_RULE) for index in revived
        ]
    return found


def _revived(
    now: list[Object], was: list[Object], spec: Object, policies: dict[str, str | None]
) -> list[int]:
    """Return the indexes of containers that had ended for good, but now run in the status."""
    policy = spec.get("restartPolicy")
    if policy == "Always":
        return []
    living = {item["name"] for item in now if get_path(item, "state", "terminated") is None}
    found: list[int] = []
    for index, status in enumerate(was):
        ended = get_path(status, "state", "terminated")
        if ended is None or policies.get(status["name"]) == "Always":
            continue
        may_retry = policy == "OnFailure" and ended.get("exitCode", 0) != 0
        if status["name"] in living and not may_retry:
            found.append(index)
    return found

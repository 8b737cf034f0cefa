"""Rules for writes to the status of a Pod; every API server has them."""

import ipaddress

from localcluster.apiserver.model import errors
from localcluster.apiserver.model.errors import Cause, Object, invalid_value
from localcluster.apiserver.model.objects import get_path

_ADDRESS_RULE = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"
_STATE_RULE = "may not be transitioned to non-terminated state"
_MAX_ADDRESSES = 2


def status_faults(new: Object, old: Object) -> list[Cause]:
    """Check a Pod whose status changed against the old Pod."""
    spec = old["spec"]
    now, was = new.get("status") or {}, old.get("status") or {}
    found: list[Cause] = []
    if now.get("qosClass") != was.get("qosClass"):
        found.append(invalid_value("status.qosClass", now.get("qosClass"), "field is immutable"))
    for kind, declared in (
        ("containerStatuses", spec.get("containers")),
        ("initContainerStatuses", spec.get("initContainers")),
    ):
        policies = {item["name"]: item.get("restartPolicy") for item in declared or ()}
        revived = _revived(now.get(kind) or [], was.get(kind) or [], spec, policies)
        found += [
            errors.not_allowed(f"status.{kind}[{index}].state", _STATE_RULE) for index in revived
        ]
    for kind in ("podIPs", "hostIPs"):
        if now.get(kind) != was.get(kind):
            found += _address_faults(now.get(kind) or [], f"status.{kind}")
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


def _address_faults(addresses: list[Object], path: str) -> list[Cause]:
    found: list[Cause] = []
    families: list[int] = []
    for index, address in enumerate(addresses):
        text = address.get("ip", "")
        try:
            families.append(ipaddress.ip_address(text).version)
        except ValueError:
            found.append(invalid_value(f"{path}[{index}]", text, _ADDRESS_RULE))
    if not found and (len(families) > _MAX_ADDRESSES or len(set(families)) < len(families)):
        detail = "may specify no more than one IP for each IP family"
        listed = [address.get("ip", "") for address in addresses]
        found.append(invalid_value(path, listed, detail))
    return found

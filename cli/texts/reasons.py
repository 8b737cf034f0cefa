"""Explains why a Task does not run, from its Pod, the roster's annotation and conditions. Pure."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from framework.api import constants
from framework.api.gangreadiness import decode_readiness
from framework.api.naming import TaskKey
from framework.api.pods import ORDINARY_WAITS, PodPhase, explain_waiting, parse_pod
from framework.api.rostervalues import RosterError
from framework.kube.resources import Object

_CREATIONS = frozenset({constants.NAME_TAKEN_REASON, constants.CREATION_REFUSED_REASON})
# Warnings of the local cluster about its differences from a node; they never explain a wait.
_REMARKS = frozenset({"PathsReplaced", "SecurityContextIgnored"})
_POD_NAME = re.compile(r'pods "[^"]*" (?:is forbidden: )?')
# Kubernetes' own default.
_ALWAYS = "Always"


def explain_blocked(framework: Object, *, creates: bool = True) -> str:
    """Explain why the controller cannot continue; "" if it can.

    Args:
        framework: as stored.
        creates: whether failed creates count; after the end of the attempt they do not.
    """
    found = _find_blocked(framework)
    if found is None or (found.get("reason") in _CREATIONS and not creates):
        return ""
    return f"blocked: {_strip_name(str(found.get('message') or found.get('reason')))}"


def is_paused(framework: Object) -> bool:
    """Return whether the controller only waits for the end of the pause before a retry."""
    found = _find_blocked(framework)
    return found is not None and found.get("reason") == constants.RETRY_BACKOFF_REASON


def _find_blocked(framework: Object) -> Object | None:
    """Find the condition Blocked, if it is true."""
    status = framework.get("status")
    conditions = status.get(constants.CONDITIONS_FIELD) if isinstance(status, dict) else None
    for condition in conditions if isinstance(conditions, list) else ():
        if not isinstance(condition, dict) or condition.get("type") != constants.BLOCKED_CONDITION:
            continue
        if condition.get("status") == "True":
            return condition
    return None


def explain_no_tasks(framework: Object) -> str:
    """Explain why a Framework has no Tasks; "" if it requests some."""
    spec = framework.get("spec")
    if not isinstance(spec, dict):
        return ""
    roles = spec.get("taskRoles") or ()
    if any(role.get("taskNumber") for role in roles):
        return ""
    cause = "no role has a taskNumber above 0" if roles else "spec.taskRoles is empty"
    return f"it has no Tasks: {cause}"


def read_readiness(configmap: Object | None) -> tuple[dict[TaskKey, str], int]:
    """Read the missing Tasks, each with the reason, and the number of all Tasks.

    An annotation that cannot be read counts as absent.
    """
    annotations = ((configmap or {}).get("metadata") or {}).get("annotations") or {}
    try:
        readiness = decode_readiness(str(annotations.get(constants.READINESS_ANNOTATION)))
    except RosterError:
        return {}, 0
    missing = {TaskKey(m.role, m.index): _strip_name(m.reason) for m in readiness.missing}
    return missing, readiness.total


def _strip_name(message: str) -> str:
    """Remove the name of the Pod from a message of the API server: the line shows the Task."""
    return _POD_NAME.sub("", message)


def explain_pod(pod: Object, gang: str, warning: str | None) -> str:
    """Explain why the containers of a Pod do not run yet.

    Args:
        pod: as stored.
        gang: the missing Tasks, for an init container that waits for the gang.
        warning: message of the newest Warning event of the Pod.
    """
    initializing = find_running_init(pod)
    if initializing is not None:
        return f"{initializing}: {gang}" if gang else f"{initializing} runs"
    view = parse_pod(pod)
    if view.phase is not PodPhase.PENDING:
        # The state of the Task will show it soon.
        return ""
    has_trouble = any(c.waiting and c.waiting[0] not in ORDINARY_WAITS for c in view.containers)
    text = explain_waiting(view) if has_trouble or not view.pod_ip else "its containers start"
    is_new = warning and warning.removeprefix("Error: ") not in text
    return f"{text}; {warning}" if is_new else text


def may_explain_wait(reason: str) -> bool:
    """Return whether a Warning event of a Pod with this reason may say why its containers wait."""
    return reason not in _REMARKS


def find_running_init(pod: Object) -> str | None:
    """Find the init container that runs now."""
    statuses = (pod.get("status") or {}).get("initContainerStatuses") or ()
    for status in statuses:
        if "running" in (status.get("state") or {}):
            return str(status.get("name"))
    return None


def explain_restarts(pod: Object, *, counts: bool) -> str:
    """Explain that a container is restarted repeatedly; "" if none is.

    The controller does not see this failure, because the Pod stays Running.

    Args:
        pod: as stored.
        counts: add the number of restarts and the present state, which change at each restart.
    """
    found = next(_find_restarting(pod), None)
    if found is None:
        return ""
    status, policy = found
    name, restarts = str(status.get("name")), int(status.get("restartCount") or 0)
    text = f"{name} restarts"
    if counts:
        waiting = ((status.get("state") or {}).get("waiting") or {}).get("reason")
        shown = [] if not waiting or waiting in ORDINARY_WAITS else [str(waiting)]
        shown.append(f"{restarts} restart{'s' * (restarts != 1)}")
        text = f"{name}: {', '.join(shown)}"
    code = status["lastState"]["terminated"].get("exitCode")
    remedy = f"; restartPolicy is {policy}: write Never" if policy else ""
    return f"{text}, exited with {code}{remedy}"


def _find_restarting(pod: Object) -> Iterator[tuple[Mapping[str, Any], str]]:
    """Find containers that ended before, and the Pod's restartPolicy if that is the cause."""
    spec, status = pod.get("spec") or {}, pod.get("status") or {}
    policy = str(spec.get("restartPolicy") or _ALWAYS)
    sidecars = {c.get("name") for c in spec.get("initContainers") or () if c.get("restartPolicy")}
    for kind in ("initContainerStatuses", "containerStatuses"):
        for container in status.get(kind) or ():
            is_over = "terminated" in (container.get("state") or {})
            if (container.get("lastState") or {}).get("terminated") and not is_over:
                yield container, "" if container.get("name") in sidecars else policy

"""Explains a TfJob or TrainingJob that has no Framework: its state and the remedy. Pure."""

import shlex
from collections.abc import Iterator, Mapping
from typing import Any

from cli.texts.kindwords import is_word_for
from framework.api.text import cut_text
from framework.kinds.observing import BLOCKED, INVALID_SPEC, SPEC_CHANGED, read_conditions
from framework.kinds.trainingjob.status import is_suspended
from framework.kinds.trainingjob.types import SUSPENDED_ANNOTATION
from framework.kube.resources import TFJOBS, TRAININGJOBS, Object, Resource

_NO_NAMES = frozenset({"", ".", ".."})
# A condition holds at most 512 bytes of message, and the remedy is at its end.
_MAX_STATE_BYTES = 800
_TRUE = "True"
# Conditions that name a fault, the one that prevents the most first.
_FAULTS = (BLOCKED, INVALID_SPEC, SPEC_CHANGED)


def list_named_jobs(word: str) -> Iterator[tuple[Resource, str]]:
    """List which jobs a word may name: ``c2``, or ``tfjob/c2``."""
    prefix, slash, name = word.rpartition("/")
    for resource in (TFJOBS, TRAININGJOBS):
        if name not in _NO_NAMES and (not slash or is_word_for(prefix, resource)):
            yield resource, name


def describe_job(resource: Resource, body: Object) -> str:
    """Describe a job that has no Framework: its last reason, and the command that helps."""
    name = str(body["metadata"]["name"])
    title = f"{name} is a {resource.kind} without a Framework"
    target = shlex.quote(f"{resource.kind.lower()}.{resource.group}/{name}")
    namespace = str(body["metadata"].get("namespace") or "")
    where = f"-n {shlex.quote(namespace)} {target}" if namespace else target
    if resource is TRAININGJOBS and is_suspended(body):
        return f"{title}, Suspended: {_explain_suspension(body, where)}"
    state = _find_state(body.get("status"))
    if not state:
        return (
            f"{title}, and no controller has written its status: check that the controller runs "
            "and handles this kind"
        )
    shown = " ".join(cut_text(state, _MAX_STATE_BYTES).split())
    return (
        f"{title}, {shown}; when its cause is mended, and the job does not start, delete it with "
        f"`kubectl delete {where}` and create it again"
    )


def _explain_suspension(body: Object, where: str) -> str:
    annotations = body["metadata"].get("annotations") or {}
    status = body.get("status") or {}
    if status.get("targetWorkers") or SUSPENDED_ANNOTATION not in annotations:
        return f"this is final; delete it with `kubectl delete {where}` and create it again"
    return f"start it with `kubectl annotate {where} {SUSPENDED_ANNOTATION}-`"


def _find_state(status: Any) -> str:
    """Find the reason and the message that say why a job has no Framework; "" without one."""
    if not isinstance(status, Mapping):
        return ""
    conditions = [c for c in read_conditions(status) if c.get("status", _TRUE) == _TRUE]
    by_type = {c["type"]: c for c in conditions}
    fault = next((by_type[each] for each in _FAULTS if each in by_type), None)
    if fault is not None:
        return _join(fault)
    phase, reason = (str(status.get(key) or "") for key in ("phase", "reason"))
    if reason:  # of a TfJob
        return f"{phase}: {reason}" if phase else reason
    return _join(conditions[-1]) if conditions else phase


def _join(condition: Mapping[str, Any]) -> str:
    parts = (condition["type"], condition.get("reason"), condition.get("message"))
    return ": ".join(str(part) for part in parts if part)

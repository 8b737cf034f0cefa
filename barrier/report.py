"""The status lines (about the readiness of the gang), error lines and termination message.

All functions are pure; ``Reporter`` prints.
"""

from typing import Any

from barrier.decision import Fail, Wait
from framework.agent.report import LineReporter, render_missing
from framework.api.constants import READINESS_MAX_MISSING
from framework.api.gangreadiness import GangReadiness, Missing


class Reporter(LineReporter):
    """Prints lines; repeats an unchanged status line only after an interval."""

    def __init__(self, started_at: float, interval_seconds: float, *, is_json: bool) -> None:
        """Prepare; an unchanged status line is repeated after ``interval_seconds``."""
        super().__init__("barrier", is_json=is_json)
        self._started_at = started_at
        self._interval_seconds = interval_seconds
        self._shown: Wait | None = None
        self._shown_at = 0.0

    def show_wait(self, wait: Wait, now: float) -> None:
        """Print the readiness if it has changed or the interval is over."""
        shown = wait._replace(wake_at=None, grace_start=None)
        if shown == self._shown and now - self._shown_at < self._interval_seconds:
            return
        self._shown, self._shown_at = shown, now
        waited = now - self._started_at
        self.say(render_wait(wait, waited), reason=wait.reason, waitedSeconds=round(waited, 1))

    @property
    def next_line_at(self) -> float:
        """When an unchanged status line is printed again."""
        return self._shown_at + self._interval_seconds


def render_wait(wait: Wait, waited_seconds: float) -> str:
    """Render a status line: counts, missing Tasks and reasons."""
    after = f"after {waited_seconds:.0f} s"
    if wait.readiness is None:
        return f"waiting {after}; {wait.message or 'the state of the gang is not known yet'}"
    line = f"{wait.readiness.ready}/{wait.readiness.total} ready {after}"
    if wait.message:
        line += f"; {wait.message}"
    if wait.readiness.missing:
        line += f"; waiting for {render_missing(wait.readiness)}"
    return line


def build_termination_fields(
    exit_code: int, reason: str, message: str, waited_seconds: float, generation: int
) -> dict[str, Any]:
    """Build the fields of the termination message without the readiness."""
    return {
        "exitCode": exit_code,
        "reason": reason,
        "message": message,
        "waitedSeconds": round(waited_seconds, 1),
        "generation": generation,
    }


def add_readiness(fields: dict[str, Any], readiness: GangReadiness | None) -> dict[str, Any]:
    """Add counts and missing Tasks to the fields."""
    if readiness is None:
        return fields
    listed = readiness.missing[:READINESS_MAX_MISSING]
    return {
        **fields,
        "ready": readiness.ready,
        "total": readiness.total,
        "missing": [_missing_to_wire(m) for m in listed],
    }


def describe_failure(fail: Fail) -> str:
    """Describe a failure with its reason, counts and missing Tasks."""
    if fail.readiness is None:
        return fail.message
    counts = f"{fail.readiness.ready}/{fail.readiness.total} ready"
    missing = f"; missing: {render_missing(fail.readiness)}" if fail.readiness.missing else ""
    return f"{fail.message} ({counts}{missing})"


def _missing_to_wire(missing: Missing) -> dict[str, Any]:
    return {"role": missing.role, "index": missing.index, "reason": missing.reason}

"""What the barrier says: lines for people, and the termination message. Pure but for ``Reporter``.

Called by ``waiting`` and ``app``. Every line is whole and flushed, because the log of an init
container is read while it waits.
"""

import json
import sys
from typing import Any

from barrier.decision import Fail, Wait
from framework.agent.exitcodes import ExitCode
from framework.api.constants import PROGRESS_MAX_MISSING
from framework.api.roster import Missing, Progress


class Reporter:
    """Prints lines, as text or as JSON objects. Repeats a line of progress only when it is due."""

    def __init__(self, started_at: float, interval_seconds: float, *, is_json: bool) -> None:
        """Repeat an unchanged line of progress after ``interval_seconds``."""
        self._started_at = started_at
        self._interval_seconds = interval_seconds
        self._is_json = is_json
        self._shown: Wait | None = None
        self._shown_at = 0.0

    def say(self, message: str, level: str = "info", **fields: Any) -> None:
        """Print one line."""
        if self._is_json:
            line = json.dumps({"level": level, "message": message, **fields})
        else:
            prefix = "" if level == "info" else level + ": "
            line = f"barrier: {prefix}{make_printable(message)}"
        # A log that nobody reads any more must not stop the gang.
        try:
            sys.stderr.write(line + "\n")
            sys.stderr.flush()
        except OSError:
            return

    def show_wait(self, wait: Wait, now: float) -> None:
        """Print the progress if it changed, or if the last line is old enough."""
        is_same = self._shown is not None and self._shown._replace(wake_at=None) == wait._replace(
            wake_at=None
        )
        if is_same and now - self._shown_at < self._interval_seconds:
            return
        self._shown, self._shown_at = wait, now
        waited = now - self._started_at
        self.say(render_wait(wait, waited), reason=wait.reason, waitedSeconds=round(waited, 1))

    @property
    def next_line_at(self) -> float:
        """When an unchanged line of progress is due again."""
        return self._shown_at + self._interval_seconds


def render_wait(wait: Wait, waited_seconds: float) -> str:
    """Render a line of progress: how far the gang is, who is missing and why."""
    after = f"after {waited_seconds:.0f} s"
    if wait.progress is None:
        return f"waiting {after}; {wait.message or 'no progress is known yet'}"
    line = f"{wait.progress.ready}/{wait.progress.total} ready {after}"
    if wait.message:
        line += f"; {wait.message}"
    if wait.progress.missing:
        line += f"; waiting for {render_missing(wait.progress)}"
    return line


def render_missing(progress: Progress) -> str:
    """Render who is missing and why, at most ten by name."""
    listed = progress.missing[:PROGRESS_MAX_MISSING]
    text = ", ".join(f"{m.role}/{m.index} ({m.reason})" for m in listed)
    more = progress.total - progress.ready - len(listed)
    return f"{text} and {more} more" if more > 0 else text


def render_end(exit_code: ExitCode) -> str:
    """Render the last line: the exit code and what it makes the controller do."""
    return f"exit {exit_code.value}: {exit_code.consequence}"


def build_termination_fields(
    exit_code: int, reason: str, message: str, waited_seconds: float, generation: int
) -> dict[str, Any]:
    """Build the termination message's fields; who is missing is added by ``add_progress``."""
    return {
        "exitCode": exit_code,
        "reason": reason,
        "message": message,
        "waitedSeconds": round(waited_seconds, 1),
        "generation": generation,
    }


def add_progress(fields: dict[str, Any], progress: Progress | None) -> dict[str, Any]:
    """Add how far the gang came."""
    if progress is None:
        return fields
    listed = progress.missing[:PROGRESS_MAX_MISSING]
    return {
        **fields,
        "ready": progress.ready,
        "total": progress.total,
        "missing": [_missing_to_wire(m) for m in listed],
    }


def describe_failure(fail: Fail) -> str:
    """Say why the barrier failed and how far the gang had come."""
    if fail.progress is None:
        return fail.message
    counts = f"{fail.progress.ready}/{fail.progress.total} ready"
    missing = f"; missing: {render_missing(fail.progress)}" if fail.progress.missing else ""
    return f"{fail.message} ({counts}{missing})"


def make_printable(text: str) -> str:
    """Replace control characters: texts of the API server go to somebody's terminal."""
    return "".join(c if c.isprintable() else "?" for c in text)


def _missing_to_wire(missing: Missing) -> dict[str, Any]:
    return {"role": missing.role, "index": missing.index, "reason": missing.reason}

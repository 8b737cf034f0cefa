"""How a job of another kind and its Tasks failed, in words for its status. Pure.

The words are those of ``framework.api.endings``. They are followed by why the controller judged the
end so, and by the last line that the failed container left in its termination message.

Example: "launcher/0 exited with 3: last output: ValueError: no data".
"""

import json

from framework.api.completion import PERMANENT
from framework.api.endings import (
    describe_framework_end,
    describe_task_end,
    find_failed_container,
)
from framework.api.types import FrameworkStatus, TaskAttemptCompletionStatus

# In diagnostics, before the JSON of a Pod.
_POD_FAILED = "Pod failed: "


def describe_failure(status: FrameworkStatus | None, role: str) -> str:
    """Describe why the attempt of a Framework failed; "" if it has not failed.

    Args:
        status: of the Framework; None if it has none.
        role: the role of one Task whose end is that of the job.
    """
    completion = None if status is None else status.attempt_status.completion_status
    if status is None or completion is None or completion.type.is_succeeded:
        return ""
    permanent = ", which is permanent" if completion.type.has_attribute(PERMANENT) else ""
    end = f"{describe_framework_end(status)}{permanent}"
    return _join(end, completion.diagnostics, _find_output(status, role))


def describe_task_failure(name: str, end: TaskAttemptCompletionStatus) -> str:
    """Describe how the Task of this name failed."""
    return _join(f"{name} {describe_task_end(end)}", "", find_last_output(end))


def find_last_output(end: TaskAttemptCompletionStatus) -> str:
    """Find the last line that the failed container left; "" if there is none."""
    container = find_failed_container(end)
    text = "" if container is None else container.message.strip()
    try:
        # Agents leave an object.
        found = json.loads(text) if text.startswith("{") else None
    except (ValueError, RecursionError):
        found = None
    message = found.get("message") if isinstance(found, dict) else None
    lines = str(message or text).splitlines()
    return lines[-1].strip() if lines else ""


def _find_output(status: FrameworkStatus, role: str) -> str:
    found = status.attempt_status.find_role(role)
    end = found.tasks[0].attempt_status.completion_status if found and found.tasks else None
    return "" if end is None else find_last_output(end)


def _join(end: str, diagnostics: str, output: str) -> str:
    explanation = diagnostics.partition(_POD_FAILED)[0].rstrip(": ")
    details = "; ".join(filter(None, (explanation, output and f"last output: {output}")))
    return f"{end}: {details}" if details else end

"""The last restart in place of an attempt, for the table at the end of a run. Pure."""

from framework.api.endings import describe_process_end
from framework.api.naming import TaskKey
from framework.api.recovery import RESTARTED
from framework.api.types import FrameworkStatus


def describe_restart(status: FrameworkStatus) -> tuple[TaskKey, str] | None:
    """Describe whose process failed before the last restart in place; None without a restart."""
    recovery = status.attempt_status.recovery
    failed = recovery.first_failed if recovery is not None else None
    if recovery is None or failed is None or recovery.reason != RESTARTED:
        return None
    end = describe_process_end(failed.code)
    note = f"its process {end}; all restarted in place (epoch {recovery.epoch})"
    return TaskKey(failed.role, failed.index), note

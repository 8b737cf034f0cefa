"""Computes ``suspend`` and ``resume``, and judges whether a Framework is suspended. Pure.

Rules: docs/api.md, "Lifetime".
"""

from dataclasses import dataclass

from cli.exitcodes import CliError, ExitCode
from cli.invocation import build_command
from cli.steer.changes import Change, Gang, explain_again, explain_over, set_field
from cli.steer.effects import Verdict, explain_blocked, list_pods, name_some
from framework.api.constants import SUSPEND_FIELD, SUSPENDED_CONDITION
from framework.api.types import ExecutionType


def compute_suspend(gang: Gang) -> Change:
    """Compute the suspension of a Framework.

    Raises:
        CliError: it was stopped, or has ended.
    """
    _check_open(gang)
    if gang.spec.suspend:
        return Change("unchanged", notes=("it is suspended already",))
    resume = build_command("resume", gang.name)
    note = f"its Pods are deleted; `{resume}` starts all Tasks again, also those that have ended"
    return Change("suspended", set_field(gang, True, SUSPEND_FIELD), (note,))  # noqa: FBT003 a value of JSON


def compute_resume(gang: Gang) -> Change:
    """Compute the end of a suspension.

    Raises:
        CliError: the Framework was stopped, or has ended.
    """
    _check_open(gang)
    if not gang.spec.suspend:
        return Change("unchanged", notes=("it is not suspended",))
    notes: list[str] = []
    if gang.spec.execution_type is ExecutionType.CREATE:
        notes.append(f"it was never started: `{build_command('start', gang.name)}`")
    return Change("resumed", set_field(gang, False, SUSPEND_FIELD), tuple(notes))  # noqa: FBT003 a value of JSON


def _check_open(gang: Gang) -> None:
    over = explain_over(gang)
    if over:
        raise CliError(ExitCode.USAGE, f"{gang.name}: {over}; {explain_again(gang.name)}")


@dataclass(frozen=True, slots=True)
class Suspended:
    """A Framework that is to be suspended has no Pods any more."""

    name: str
    uid: str

    def judge(self, gang: Gang | None) -> Verdict:
        """Judge by the condition, which is True when no Pod is left."""
        if gang is None or gang.uid != self.uid:
            return Verdict(failure="was deleted")
        if gang.is_completed:
            return Verdict(failure=f"has ended ({gang.describe_end()})")
        if not gang.spec.suspend:
            return Verdict(failure="was resumed")
        conditions = () if gang.status is None else gang.status.conditions or ()
        is_suspended = any(c.type == SUSPENDED_CONDITION and c.status == "True" for c in conditions)
        if gang.is_current and is_suspended:
            return Verdict(is_reached=True, text="all of its Pods have ended")
        left = list_pods(gang)
        what = f"waits for {len(left)} Pods: {name_some(left)}" if left else "waits for the end"
        return Verdict(text="; ".join([what, *explain_blocked(gang)]))

"""The result of a run: the last views, the note about Pods that run on, the exit code. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from cli.exitcodes import ExitCode
from cli.invocation import build_command
from cli.running.ending import keep_waits
from cli.running.runlogs import ALL_ENDED_SECONDS, FINISH_SECONDS
from cli.running.views import LEFT_RUNNING, GangView

STOP_CAUSES = {
    ExitCode.TIMEOUT: "--timeout",
    ExitCode.INTERRUPTED: "Ctrl-C",
    ExitCode.TERMINATED: "SIGTERM",
    ExitCode.HUNG_UP: "SIGHUP",
}
"""The causes of a stop in the words of users."""


@dataclass(frozen=True, slots=True)
class RunEnd:
    """Why a run ended."""

    cause: ExitCode | None = None
    """The exit code of the stop or the lost server; None if the Frameworks ended by themselves."""
    before_stop: tuple[GangView, ...] = ()
    """The views just before the stop; empty without a stop."""
    elapsed_seconds: float = 0.0
    """Seconds from the start of the run to this end. The last output is printed later."""


def complete_views(views: Sequence[GangView], end: RunEnd) -> list[GangView]:
    """Add the reasons of the time before a stop, or the remark that the state may be old."""
    completed = list(views)
    if end.before_stop and end.cause in STOP_CAUSES:
        cause = STOP_CAUSES[end.cause]
        stopped = zip(end.before_stop, views, strict=True)
        completed = [keep_waits(before, after, cause) for before, after in stopped]
    if end.cause is ExitCode.UNREACHABLE:
        return [v if v.is_completed else replace(v, note="as last seen") for v in completed]
    return completed


def choose_log_seconds(views: Sequence[GangView], *, has_ended: bool) -> float:
    """Choose how long to wait for the ends of the logs; that of a Pod left running has no end."""
    is_any_left = any(_count_left_pods(view) for view in views)
    return ALL_ENDED_SECONDS if has_ended and not is_any_left else FINISH_SECONDS


def describe_left_pods(view: GangView, namespace: str) -> str:
    """Name the command that deletes the Pods that a Framework has left running; "" without them."""
    count = _count_left_pods(view)
    if not count:
        return ""
    pods, them = (
        ("Pod of 1 Task is", "it") if count == 1 else (f"Pods of {count} Tasks are", "them")
    )
    scope = () if namespace == "default" else ("-n", namespace)
    command = build_command("stop", view.name, *scope)
    return f"note: {view.name}: the {pods} left running; to delete {them}: {command}"


def _count_left_pods(view: GangView) -> int:
    return sum(line.state == LEFT_RUNNING for line in view.tasks)


def choose_exit_code(views: Sequence[GangView], end: RunEnd) -> ExitCode:
    """Choose the exit code: the cause of a stop comes before the result of the Frameworks."""
    if end.cause is not None:
        return end.cause
    is_success = all(view.is_succeeded for view in views)
    return ExitCode.SUCCEEDED if is_success else ExitCode.FAILED

"""The messages of agents about hangs: reports of processes, and the answers of rank 0. Pure.

``encode_...`` builds the JSON values of a line, ``decode_...`` reads them. A line comes from
another Pod, so each value and each count is bounded; other values are refused.

``judgement`` judges the reports.
"""

import json
from typing import Any, Dict, NamedTuple, Optional, Tuple

MAX_PROCESSES = 32
# The number of ranks that a verdict names.
MAX_NAMED = 10
# The run of processes that are not restarted in place.
NO_RUN = (0, 0)
# The time over which ``busy_seconds`` is measured; longer if only one step ended in it.
BUSY_WINDOW_SECONDS = 60.0
_MAX_STACK = 64
_MAX_REPORT_BYTES = 3500
_MAX_NUMBER = 2**62

Acting = Tuple[str, int, str]
"""The role and the index of a Task, and the fingerprint of its Pod."""


class ProcessReport(NamedTuple):
    """The report of a process. Durations are in seconds."""

    rank: int
    """Its rank among all processes; -1 if it has none."""
    step: Optional[int]
    """Its newest step; None before the first."""
    total: Optional[int]
    """The number of all steps; None if it is not known."""
    quiet_seconds: float
    """The time since its step increased, its last pause ended, or it was started."""
    pause_seconds: float = 0.0
    """The longest time for which its declared pause goes on; 0 without a pause."""
    is_stopped: bool = False
    """Whether it is stopped."""
    stack: str = ""
    """The stack of its main thread, in the form of ``hangs.progress``; "" if it is not known."""
    busy_seconds: float = 0.0
    """The recent time of a step without the wait for other ranks; 0 if it is not known."""
    moved_seconds: Optional[float] = None
    """The time since the step before its newest one was reported; None without such a step."""


class AgentReport(NamedTuple):
    """The report of an agent."""

    run: Tuple[int, int]
    """The run of the processes; a greater one is newer. ``NO_RUN`` without restart in place."""
    answered: int
    """The number of the last request for stacks that it has answered; 0 without a request."""
    processes: Tuple[ProcessReport, ...]
    """Its processes, at most 32; none if no command runs, or those that had reported have ended."""


class Verdict(NamedTuple):
    """The ranks that are behind in a gang that stands still, and the members that act."""

    number: int
    """The number of the request for stacks before it."""
    run: Tuple[int, int]
    """The run of the processes."""
    behind: Tuple[str, ...]
    """The names of the ranks that the others wait for, at most 10."""
    behind_count: int
    """The number of these ranks."""
    waiting: Tuple[str, ...]
    """The names of the ranks that wait for them, at most 10."""
    waiting_count: int
    """The number of these ranks."""
    step: int
    """The step of those that are behind; -1 before the first."""
    seconds: float
    """The time in which no rank was active."""
    acting: Tuple[Acting, ...]
    """The members that end their processes, at most 10; none if that would not help."""


class Answer(NamedTuple):
    """The answer to a report."""

    ask: int = 0
    """The number of the current request for stacks; 0 if there is none."""
    verdict: Optional[Verdict] = None
    """The verdict, if the gang stands still and is judged."""


def encode_report(report: AgentReport) -> Dict[str, Any]:
    """Encode a report as JSON values; processes that do not fit into a line are left out."""
    processes = [
        [
            p.rank,
            _encode_number(p.step),
            _encode_number(p.total),
            round(p.quiet_seconds, 3),
            round(p.pause_seconds, 3),
            int(p.is_stopped),
            p.stack,
            round(p.busy_seconds, 6),
            *([] if p.moved_seconds is None else [round(p.moved_seconds, 1)]),
        ]
        for p in report.processes[:MAX_PROCESSES]
    ]
    # All of them fit, unless a program has written huge numbers into its page.
    while len(json.dumps(processes)) > _MAX_REPORT_BYTES:
        processes.pop()
    return {"run": list(report.run), "answered": report.answered, "processes": processes}


def decode_report(wire: Any) -> AgentReport:
    """Decode a report.

    Raises:
        ValueError, TypeError, KeyError: It is invalid.
    """
    processes = wire["processes"]
    if not isinstance(processes, list) or len(processes) > MAX_PROCESSES:
        raise ValueError("too many processes")
    generation, epoch = wire["run"]
    return AgentReport(
        run=(_check_number(generation), _check_number(epoch)),
        answered=_check_number(wire["answered"]),
        processes=tuple(_decode_process(values) for values in processes),
    )


def _decode_process(values: Any) -> ProcessReport:
    rank, step, total, quiet, pause, stopped, stack, busy, *moved = values
    if len(moved) > 1:
        raise ValueError("too many values")
    if not isinstance(stack, str) or len(stack) > _MAX_STACK:
        raise ValueError("no stack")
    return ProcessReport(
        rank=_check_number(rank),
        step=_check_number(step) if step != -1 else None,
        total=_check_number(total) if total != -1 else None,
        quiet_seconds=_check_seconds(quiet),
        pause_seconds=_check_seconds(pause),
        is_stopped=bool(stopped),
        stack=stack,
        busy_seconds=_check_seconds(busy),
        moved_seconds=_check_seconds(moved[0]) if moved else None,
    )


def encode_answer(answer: Answer) -> Dict[str, Any]:
    """Encode an answer as JSON values."""
    verdict = answer.verdict
    return {"ask": answer.ask, "verdict": list(verdict) if verdict is not None else None}


def decode_answer(wire: Any) -> Answer:
    """Decode an answer.

    Raises:
        ValueError, TypeError, KeyError: It is invalid.
    """
    if wire["verdict"] is None:
        return Answer(_check_number(wire["ask"]))
    number, run, behind, behind_count, waiting, waiting_count, step, seconds, acting = wire[
        "verdict"
    ]
    generation, epoch = run
    if max(len(behind), len(waiting), len(acting)) > MAX_NAMED:
        raise ValueError("too many names")
    verdict = Verdict(
        number=_check_number(number),
        run=(_check_number(generation), _check_number(epoch)),
        behind=tuple(str(name) for name in behind),
        behind_count=_check_number(behind_count),
        waiting=tuple(str(name) for name in waiting),
        waiting_count=_check_number(waiting_count),
        step=_check_number(step),
        seconds=_check_seconds(seconds),
        acting=tuple((str(role), _check_number(index), str(pod)) for role, index, pod in acting),
    )
    return Answer(_check_number(wire["ask"]), verdict)


def _encode_number(value: Optional[int]) -> int:
    return -1 if value is None else value


def _check_number(value: Any) -> int:
    if type(value) is not int or not -1 <= value < _MAX_NUMBER:
        raise ValueError("no number")
    return value


def _check_seconds(value: Any) -> float:
    if (
        isinstance(value, bool)
        or not isinstance(value, (int, float))
        or not 0 <= value < _MAX_NUMBER
    ):
        raise ValueError("no seconds")
    return float(value)

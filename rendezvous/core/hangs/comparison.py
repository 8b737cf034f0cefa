"""Compares the ranks of a gang that trains: slow ranks, and ranks without reports. Pure."""

from typing import List, NamedTuple, Tuple

from rendezvous.core.hangs.observation import ObservedGang, describe_ranks, name_rank
from rendezvous.core.hangs.progress import (
    StandstillLimits,
    compute_active_until,
    find_stragglers,
)
from rendezvous.core.hangs.reports import BUSY_WINDOW_SECONDS, ProcessReport

_STRAGGLER_FACTOR = 1.5


class _ComparedRank(NamedTuple):
    """A rank, and whether its ``busy_seconds`` can be compared with those of other ranks."""

    name: str
    report: ProcessReport
    is_comparable: bool


def list_ranks(gang: ObservedGang) -> List[Tuple[str, ProcessReport]]:
    """List the names of the ranks, with their newest reports.

    ``busy_seconds`` is 0 for ranks that cannot be compared (``_compare``).
    """
    return [
        (name, report if is_comparable else report._replace(busy_seconds=0.0))
        for name, report, is_comparable in _compare(gang)
    ]


def list_stragglers(gang: ObservedGang) -> Tuple[str, ...]:
    """List the ranks whose own part of a step takes longer than 1.5 times the median's."""
    ranks = _compare(gang)
    busy = {
        i: [report.busy_seconds]
        for i, (_, report, is_comparable) in enumerate(ranks)
        if is_comparable and report.busy_seconds > 0
    }
    return tuple(ranks[i].name for i in find_stragglers(busy, _STRAGGLER_FACTOR))


def list_without_steps(gang: ObservedGang, limits: StandstillLimits, now: float) -> Tuple[str, ...]:
    """List the ranks that report no step, though others do, after the time for the first."""
    processes = gang.list_processes()
    return tuple(
        processes[rank.rank].name
        for rank in describe_ranks(processes, now)
        if rank.has_no_steps and now >= compute_active_until(rank, limits)
    )


def list_outdated(gang: ObservedGang, now: float) -> Tuple[str, ...]:
    """List the ranks whose agents are silent, and whose steps are outdated: others have gone on."""
    processes = gang.list_processes()
    ranks = describe_ranks(processes, now)
    return tuple(processes[rank.rank].name for rank in ranks if rank.is_outdated)


def list_without_processes(gang: ObservedGang, first_seconds: float, now: float) -> Tuple[str, ...]:
    """List the members that have reported no process for as long as the first step may take."""
    return tuple(
        name_rank(member, -1)
        for member, known in sorted(gang.reports.items())
        if known.empty_since is not None and now - known.empty_since >= first_seconds
    )


def _compare(gang: ObservedGang) -> List[_ComparedRank]:
    """List the ranks, each with whether its own part of a step can be compared.

    While ranks are in a declared pause, the others wait for them, and this wait counts as their own
    part of a step. If most ranks have waited, all can be compared. Otherwise, only the ranks that
    have paused can be.
    """
    processes = gang.list_processes()
    paused = [
        gang.reports[process.member].paused.get(process.report.rank, float("-inf"))
        >= process.at - max(BUSY_WINDOW_SECONDS, process.report.moved_seconds or 0.0)
        for process in processes
    ]
    is_usual = 2 * sum(paused) < len(paused)
    return [
        _ComparedRank(process.name, process.report, is_usual or has_paused)
        for process, has_paused in zip(processes, paused)
    ]

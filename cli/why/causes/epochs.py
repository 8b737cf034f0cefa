"""Processes that restart in place: their failures, and start barriers that take long. Pure."""

from collections.abc import Iterator
from datetime import datetime, timedelta

from cli.why.cause import Cause, Kind, Remedy
from cli.why.observation import Observation, TaskFacts, get_mapping
from cli.why.standstill import describe_standstill
from framework.api.constants import EPOCH_STARTED_ANNOTATION, HUNG_EXIT_CODE
from framework.api.endings import describe_epoch
from framework.api.epochreports import parse_start
from framework.api.naming import TaskKey
from framework.api.recovery import RESTARTED, RecoveryStatus
from framework.api.roster import fingerprint_uid

# Processes that have run for longer since their restart are not in a loop.
_CALM_SECONDS = 600
# The agents of a gang whose Pods run reach the start barrier within seconds.
_GATHERING_SECONDS = 60
_USUAL_SECONDS = 10

_SILENCE = (
    "its agents wait for one another at the start barrier; or they cannot report: they are of an "
    "older release, or their service account lacks the Role of deploy/agents/drain"
)


def find_epochs(observation: Observation) -> Iterator[Cause]:
    """Find processes that restarted in their Pods lately, or may not restart any more."""
    status = observation.status
    recovery = status.attempt_status.recovery if status is not None else None
    if recovery is None or recovery.first_failed is None or recovery.decided_time is None:
        return
    is_restarted = recovery.reason == RESTARTED
    is_calm = observation.now - recovery.decided_time >= timedelta(seconds=_CALM_SECONDS)
    end = status.attempt_status.completion_status if status is not None else None
    # After the end of the attempt, only a refused restart can be a part of the cause.
    if is_calm if end is None else is_restarted or end.type.is_succeeded:
        return
    key = TaskKey(recovery.first_failed.role, recovery.first_failed.index)
    effect = "so the gang restarted in place" if is_restarted else "and does not restart in place"
    is_hang = recovery.first_failed.code == HUNG_EXIT_CODE
    what = "the stacks before its restart in its log" if is_hang else "its log"
    counted = ", ".join(f"{len(entry.times)} of {entry.role}" for entry in recovery.restarts)
    counts = f"counted restarts: {counted}" if counted else ""
    yield Cause(
        Kind.EPOCHS,
        f"was the first whose process failed, {effect}: epoch {recovery.epoch}",
        tasks=(key,),
        since=recovery.decided_time,
        facts=tuple(
            filter(None, (describe_epoch(recovery), counts, describe_standstill(observation)))
        ),
        remedies=(_read_log(observation, key, f"read {what}, and correct the program"),),
    )


def find_start(observation: Observation) -> Iterator[Cause]:
    """Find a gang whose Pods run, and of which no agent has reported that its processes run."""
    status = observation.status
    attempt = status.attempt_status if status is not None else None
    recovery = attempt.recovery if attempt is not None else None
    since = _find_begin(recovery) if recovery is not None else None
    if attempt is None or recovery is None or since is None or attempt.completion_status:
        return
    if observation.now - since < timedelta(seconds=_GATHERING_SECONDS):
        return
    late = _list_late(observation, recovery)
    if late:
        yield Cause(
            Kind.START,
            f"has not come to the start barrier of epoch {recovery.epoch}, as an agent reports",
            tasks=tuple(late),
            since=since,
            facts=("the processes of the gang start when all its agents have come",),
            remedies=(_read_log(observation, late[0], "read the log of its agent"),),
        )
        return
    running = [
        task.key
        for task in observation.tasks
        if task.phase == "Running" and not task.is_terminating
    ]
    yield Cause(
        Kind.START,
        f"no agent has reported that the processes of epoch {recovery.epoch} run",
        since=since,
        facts=(_SILENCE,),
        remedies=tuple(
            _read_log(observation, key, "read the log of an agent") for key in running[:1]
        ),
    )


def describe_start(observation: Observation) -> str:
    """Describe a wait at the start barrier that is no cause yet; "" if there is none."""
    status = observation.status
    recovery = status.attempt_status.recovery if status is not None else None
    since = _find_begin(recovery) if recovery is not None else None
    if recovery is None or since is None:
        return ""
    seconds = int((observation.now - since).total_seconds())
    if seconds < _USUAL_SECONDS:
        return ""
    return f"no agent has reported for {seconds}s that the processes of epoch {recovery.epoch} run"


def _find_begin(recovery: RecoveryStatus) -> datetime | None:
    """Find when the wait at the start barrier began; None without a wait."""
    barrier = recovery.start_barrier
    if barrier is None or barrier.begin_time is None or barrier.started_epoch == recovery.epoch:
        return None
    return max(barrier.begin_time, recovery.decided_time or barrier.begin_time)


def _list_late(observation: Observation, recovery: RecoveryStatus) -> list[TaskKey]:
    """List the Tasks that agents name."""
    named: set[str] = set()
    since = recovery.start_barrier.since if recovery.start_barrier is not None else 0
    for task in observation.tasks:
        metadata = get_mapping(task.pod or {}, "metadata")
        text = get_mapping(metadata, "annotations").get(EPOCH_STARTED_ANNOTATION)
        start = parse_start(text) if isinstance(text, str) else None
        if start is not None and start[:2] == (since, recovery.epoch):
            named.update(start.missing)
    return [task.key for task in observation.tasks if _read_fingerprint(task) in named]


def _read_fingerprint(task: TaskFacts) -> str:
    return fingerprint_uid(str(get_mapping(task.pod or {}, "metadata").get("uid")))


def _read_log(observation: Observation, key: TaskKey, text: str) -> Remedy:
    return Remedy(text, (observation.commands.build_framework("logs", observation.name, str(key)),))

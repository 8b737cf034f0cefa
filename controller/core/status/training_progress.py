"""The progress of the training in the status, copied from the Pod of rank 0.

Steps of ``follow_training``:

1. Read the annotation of the first member of each role in the published roster, because only agents
   know which of them has rank 0. Ignore a generation that is not published, and take the report of
   the newest one.
2. Copy it if the status is written anyway, or if the last copy is 15 s old. So the status of the
   end of rank 0 contains the last report of its agent.

Invariants:

- No decision reads it, because any holder of the Pod's token can write it.
- A status has only numbers within the limits of the annotation, and names of members.
- Two writes of the status that only the progress needs are at least 15 s apart.

Example: worker/0 reports step 100 of generation 2, and the status has step 80, copied 5 s ago. The
decision asks for a wake in 10 s, and changes nothing. If worker/1 fails before that, the status of
its failure has step 100.

Rules: docs/design/recovery.md, "Progress in the status".
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import timedelta

from controller.core.draft import Draft
from framework.api.constants import TRAINING_PROGRESS_ANNOTATION
from framework.api.roster import Roster, fingerprint_uid
from framework.api.states import FrameworkState
from framework.api.trainingprogress import (
    TrainingProgress,
    parse_training_progress,
    render_rate,
)
from framework.api.trainingstatus import TrainingStatus
from framework.api.types import FrameworkStatus

PERIOD_SECONDS = 15
_RUNNING = (FrameworkState.ATTEMPT_PREPARING, FrameworkState.ATTEMPT_RUNNING)
_MAX_SECONDS = 10**9 - 1


def follow_training(draft: Draft, status: FrameworkStatus) -> FrameworkStatus:
    """Return the status with the newest progress of the training, if it is due."""
    published = draft.snapshot.published.roster
    # The stored state counts: the decision that ends the attempt copies the last report.
    if published is None or not draft.is_persisted(*_RUNNING):
        return status
    known = status.attempt_status.training
    reported = max(_walk_reports(draft, published), key=lambda each: each.generation, default=None)
    if reported is None or (known is not None and reported.generation < known.generation):
        return status
    training = _build(reported, published)
    if known is not None:
        training = replace(training, update_time=known.update_time, extra=known.extra)
        if training == known or not (status != draft.persisted or _is_due(draft, known)):
            return status
    training = replace(training, update_time=draft.now)
    return replace(status, attempt_status=replace(status.attempt_status, training=training))


def _is_due(draft: Draft, known: TrainingStatus) -> bool:
    since = known.update_time
    if since is None:
        return True
    return draft.is_wait_over(since, since + timedelta(seconds=PERIOD_SECONDS))


def _walk_reports(draft: Draft, published: Roster) -> Iterator[TrainingProgress]:
    """Walk the reports of the first members of the roles."""
    roles = {role.name: role for role in draft.roles}
    for role in published.roles:
        drafted = roles.get(role.name)
        for member in role.members[:1]:
            if drafted is None or member.index >= len(drafted.tasks):
                continue
            attempt = drafted.tasks[member.index].attempt_status
            pod = draft.snapshot.pods.get(attempt.pod_name)
            if pod is None or fingerprint_uid(pod.uid) != member.fingerprint:
                continue
            text = pod.annotations.get(TRAINING_PROGRESS_ANNOTATION, "")
            reported = parse_training_progress(text)
            # A greater generation is not from an agent, and would hide all later reports.
            if reported is not None and reported.generation <= published.generation:
                yield reported


def _build(reported: TrainingProgress, published: Roster) -> TrainingStatus:
    rate = reported.steps_per_second
    names = _keep_members([reported.slowest, *reported.stragglers], published)
    return TrainingStatus(
        step=reported.step,
        total_steps=reported.total,
        steps_per_second="" if rate is None else render_rate(rate),
        remaining_seconds=_compute_remaining(reported),
        slowest=reported.slowest if reported.slowest in names else "",
        straggler_count=reported.straggler_count,
        stragglers=tuple(name for name in reported.stragglers if name in names),
        generation=reported.generation,
    )


def _compute_remaining(reported: TrainingProgress) -> int | None:
    total, rate = reported.total, reported.steps_per_second
    if total is None or not rate or total < reported.step:
        return None
    return min(_MAX_SECONDS, round((total - reported.step) / rate))


def _keep_members(names: Iterable[str], published: Roster) -> frozenset[str]:
    """Keep the names of members and of their ranks."""
    named = {name: name.split(" ", 1)[0] for name in names if name}
    if not named:
        return frozenset()
    roles = {task.split("/")[0] for task in named.values()}
    tasks = {
        f"{role.name}/{member.index}"
        for role in published.roles
        if role.name in roles
        for member in role.members
    }
    return frozenset(name for name, task in named.items() if task in tasks)

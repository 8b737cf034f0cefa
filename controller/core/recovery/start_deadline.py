"""Pods that do not come to the start barrier of an epoch in time: their Tasks end.

1. The agent of one member serves the start barrier. It reports that the epoch has started; or,
   after its own deadline, which Pods have not come: these are late.
2. If no member reports anything about an epoch after a restart, the first member is late.

Invariants:

- Only a complete gang with the stored epoch in its roster has late Pods.
- Only reports of members about the stored epoch are read.

Example: epoch 5 is published, and worker 2 hangs in the kernel. The agent of worker 0 reports
``5 89abcdef``. The Task of worker 2 ends with -270, and its retry policy decides.

Rules: docs/design/recovery.md, "Steps".
"""

from collections.abc import Collection, Iterator
from datetime import datetime

from controller.core.draft import Draft
from controller.core.recovery.restartable_pods import find_live_pod
from framework.api.constants import EPOCH_STARTED_ANNOTATION, GANG_READY_CONDITION
from framework.api.epochreports import EpochStart, parse_start
from framework.api.pods import PodView
from framework.api.roster import Roster, fingerprint_uid

DIAGNOSTICS = "The Pod did not come to the start barrier of the epoch in time"
# Longer than the deadline of the agents: it applies only if the serving agent reports nothing.
DEADLINE_SECONDS = 600


def is_late(draft: Draft, pod: PodView) -> bool:
    """Return whether a live Pod is late for the current epoch."""
    if draft.late is None:
        draft.late = frozenset(_find_late(draft))
    return bool(draft.late) and fingerprint_uid(pod.uid) in draft.late


def _find_late(draft: Draft) -> Iterator[str]:
    published = draft.snapshot.published.roster
    if published is None or published.recovery is None or not published.complete:
        return
    if draft.is_completing:
        return
    status = draft.status.attempt_status.recovery
    epoch = status.epoch if status else 0
    if published.recovery.epoch != epoch:
        return
    members = _list_members(published)
    if not members:
        return
    reports = [start for start in _read_starts(draft, members) if start.epoch == epoch]
    missing = {fingerprint for start in reports for fingerprint in start.missing}
    if reports:
        yield from missing.intersection(members)
    elif status is not None and status.decided_time is not None:
        complete_since = _find_complete_since(draft)
        if complete_since is not None:
            since = max(status.decided_time, complete_since)
            if draft.has_elapsed(since, DEADLINE_SECONDS):
                yield members[0]


def _find_complete_since(draft: Draft) -> datetime | None:
    for condition in draft.status.conditions or ():
        if condition.type == GANG_READY_CONDITION and condition.status == "True":
            return condition.transition_time
    return None


def _list_members(published: Roster) -> list[str]:
    """List the fingerprints of the members that take part, in the order of the roster."""
    roles = published.recovery.roles if published.recovery else ()
    return [
        member.fingerprint
        for role in published.roles
        if role.name in roles
        for member in role.members
    ]


def _read_starts(draft: Draft, members: Collection[str]) -> Iterator[EpochStart]:
    known = set(members)
    for _, task in draft.walk_tasks():
        pod = find_live_pod(draft, task)
        text = pod.annotations.get(EPOCH_STARTED_ANNOTATION) if pod is not None else None
        if pod is None or text is None or fingerprint_uid(pod.uid) not in known:
            continue
        start = parse_start(text)
        if start is not None:
            yield start

"""Checks of restarts in place (I19) in a simulation: docs/design/recovery.md, "Invariants".

The auditor passes each Pod, each stored status, and each roster when it is sent.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from framework.api import constants
from framework.api.epochreports import parse_end, parse_start
from framework.api.pods import PodView
from framework.api.recovery import RecoveryStatus
from framework.api.roster import Roster, fingerprint_uid
from framework.api.types import Framework, FrameworkAttemptStatus

_NONE = RecoveryStatus()


@dataclass(slots=True)
class Epochs:
    """The reports and restarts so far; calls ``fail`` for violations."""

    fail: Callable[[str], None]
    """Records a violation."""
    is_time_steady: bool = True
    """False if clocks are set, so that times are no evidence."""
    reported: dict[tuple[str, int], set[str]] = field(default_factory=dict)
    """By UID of the ConfigMap and epoch: fingerprints of the Pods that reported."""
    owners: dict[str, str] = field(default_factory=dict)
    """By UID of a Pod: its ConfigMap, also after another client removed the owner."""
    named: set[str] = field(default_factory=set)
    """Fingerprints of Pods that an agent reported as missing."""
    started: set[tuple[str, int, int]] = field(default_factory=set)
    """Start barriers that agents reported as started: UID of the ConfigMap, since, epoch."""
    times: dict[tuple[str, str], list[datetime]] = field(default_factory=dict)
    """By UID of the ConfigMap and role: times of counted restarts."""

    def note_pod(self, pod: PodView) -> None:
        end = parse_end(pod.annotations.get(constants.PROCESS_ENDED_ANNOTATION, ""))
        if pod.owner is not None:
            self.owners.setdefault(pod.uid, pod.owner.uid)
        if end is not None and pod.uid in self.owners:
            fingerprints = self.reported.setdefault((self.owners[pod.uid], end.epoch), set())
            fingerprints.add(fingerprint_uid(pod.uid))
        start = parse_start(pod.annotations.get(constants.EPOCH_STARTED_ANNOTATION, ""))
        if start is not None:
            self.named.update(start.missing)
        if start is not None and not start.missing and pod.uid in self.owners:
            self.started.add((self.owners[pod.uid], start.since, start.epoch))

    def check(self, framework: Framework, before: FrameworkAttemptStatus | None) -> None:
        """Check a stored status against the one before."""
        assert framework.status is not None
        attempt = framework.status.attempt_status
        is_same = before is not None and before.id == attempt.id
        old = (before.recovery or _NONE) if before is not None and is_same else _NONE
        new = attempt.recovery or _NONE
        uid, barrier = attempt.configmap_uid or "", new.start_barrier
        if barrier is not None and barrier.started_epoch is not None:
            target = uid, barrier.since, barrier.started_epoch
            if target not in self.started:
                self.fail(f"I19: {target} is stored as started, and no agent reported it")
        if new.epoch == old.epoch:
            return
        if new.epoch != old.epoch + 1:
            self.fail(f"I19: epoch {new.epoch} after {old.epoch}")
        reported = self.reported.get((uid, old.epoch), set())
        if not reported - set(old.refused):
            self.fail(f"I19: epoch {new.epoch}, but no process of {old.epoch} failed")
        if not set(new.refused) - set(old.refused) <= reported:
            self.fail(f"I19: {new.refused} are refused without a report of {old.epoch}")
        self._check_budgets(framework, old, new, uid)

    def _check_budgets(
        self, framework: Framework, old: RecoveryStatus, new: RecoveryStatus, uid: str
    ) -> None:
        known = {entry.role: entry.times for entry in old.restarts}
        for entry in new.restarts:
            if entry.times == known.get(entry.role) or new.decided_time is None:
                continue
            counted = self.times.setdefault((uid, entry.role), [])
            counted.append(new.decided_time)
            spec = framework.spec.find_role(entry.role)
            policy = spec.recovery.in_place if spec and spec.recovery else None
            if policy is None or not self.is_time_steady:
                continue
            start = new.decided_time - timedelta(seconds=policy.within_seconds)
            if sum(time > start for time in counted) > policy.max_restarts:
                self.fail(f"I19: {entry.role} has more than {policy.max_restarts} restarts")

    def list_unanswered(
        self, attempt: FrameworkAttemptStatus, pods: dict[str, PodView]
    ) -> Iterator[str]:
        """List the reports of the attempt's live Pods that had no effect."""
        epoch = (attempt.recovery or _NONE).epoch
        for role, task in attempt.walk_tasks():
            pod = pods.get(task.attempt_status.pod_uid or "")
            text = pod.annotations.get(constants.PROCESS_ENDED_ANNOTATION, "") if pod else ""
            end = parse_end(text) if task.attempt_status.leaving is None else None
            if end is not None and end.epoch >= epoch and pod is not None and not pod.is_ended:
                yield f"I19: {role.name}/{task.index} reported {text}, and the epoch is {epoch}"


def compare_recovery(roster: Roster, attempt: FrameworkAttemptStatus) -> Iterator[str]:
    """Compare the epoch of a roster with the stored status."""
    if roster.recovery is None:
        return
    stored = attempt.recovery or _NONE
    if (roster.recovery.epoch, roster.recovery.refused) != (stored.epoch, stored.refused):
        yield f"epoch {roster.recovery}, but {stored.epoch} is stored, with {stored.refused}"

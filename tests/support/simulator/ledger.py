"""The ledger of a simulation: checks ends and retries against the policies.

The auditor passes each status that is stored. The ledger has the ends of Pods and the refusals of
the server, and computes the policies itself, without code of the controller. I6 is about counts, I9
about the completion policy, I13 about reasons (docs/design/invariants.md).

A status write has its base as precondition, so the spec that is stored beside a status is the spec
of its decision.
"""

from collections.abc import Callable, Iterator
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from framework.api.pods import PodView
from framework.api.roster import fingerprint_uid
from framework.api.states import FrameworkState, TaskState
from framework.api.types import (
    CompletionType,
    ExecutionType,
    Framework,
    FrameworkAttemptCompletionStatus,
    FrameworkAttemptStatus,
    FrameworkSpec,
    FrameworkStatus,
    RetryPolicySpec,
    RetryPolicyStatus,
    TaskRoleSpec,
    TaskRoleStatus,
    TaskStatus,
)

TRANSIENT, PERMANENT, CONFLICT = "Transient", "Permanent", "Conflict"
# code -> attributes of the failure; other codes have none.
_ATTRIBUTES: dict[int, tuple[str, ...]] = {
    -100: (TRANSIENT,),
    -101: (TRANSIENT,),
    -200: (PERMANENT,),
    -210: (PERMANENT,),
    -220: (PERMANENT,),
    -221: (PERMANENT,),
    -230: (PERMANENT,),
    -240: (PERMANENT,),
    -250: (TRANSIENT,),
    -260: (TRANSIENT,),
    -270: (TRANSIENT,),
    -280: (TRANSIENT,),
    200: (TRANSIENT,),
    201: (TRANSIENT, CONFLICT),
    210: (PERMANENT,),
}
_FINAL = (-210, -220, -221, -230, -240)
_ENDED = (FrameworkState.ATTEMPT_COMPLETED, FrameworkState.COMPLETED)

Key = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Trigger:
    """A fulfilled completion policy, with the time."""

    role: str
    word: str
    at: datetime | None


@dataclass(slots=True)
class Ledger:
    """How Pods ended; calls ``fail`` for ends and retries that no policy allows."""

    fail: Callable[[str], None]
    """Records a violation."""
    late: AbstractSet[str] = frozenset()
    """Fingerprints of Pods that did not come to a start barrier."""
    is_time_steady: bool = True
    """False if clocks are set, so that times are no evidence."""
    conflict_delay_seconds: tuple[int, int] = (0, 0)
    """Minimum and maximum of the delay of a retry after a conflict of resources."""
    ends: dict[str, int] = field(default_factory=dict)
    """By UID: the exit code of a Pod."""
    left: set[str] = field(default_factory=set)
    """UIDs of Pods and ConfigMaps that were seen terminating, or gone."""
    refused: dict[str, set[int]] = field(default_factory=dict)
    """By identity of the Task attempt: codes of the refusals of its Pod."""
    requested: set[str] = field(default_factory=set)
    """UIDs of Pods whose Tasks a user requested to retry."""
    disrupted: set[str] = field(default_factory=set)
    """UIDs of Pods that had the condition DisruptionTarget."""
    cordoned: AbstractSet[str] = frozenset()
    """Nodes that were ever cordoned."""
    placed: dict[tuple[str, str], set[str]] = field(default_factory=dict)
    """By UID of a Task and node: UIDs of the Pods that ran there."""

    # --- observations

    def note_pod(self, pod: PodView) -> None:
        if pod.node_name:
            self.placed.setdefault((pod.task_uid, pod.node_name), set()).add(pod.uid)
        if pod.disruption:
            self.disrupted.add(pod.uid)
        if pod.is_terminating:
            self.left.add(pod.uid)
        if not pod.is_ended or pod.uid in self.ends:
            return
        codes = [c.terminated.code for c in pod.containers if c.terminated is not None]
        failed = next((code for code in codes if code), -300)
        self.ends[pod.uid] = 0 if pod.phase == "Succeeded" else failed

    def note_refusal(self, pod: PodView, code: int) -> None:
        """Record that the server refused a Pod for good, with the HTTP status."""
        kind = -200 if code in {413, 422} else -310
        self.refused.setdefault(f"{pod.task_uid}/{pod.task_attempt_id}", set()).add(kind)

    # --- checks of a stored status

    def check(self, framework: Framework, before: FrameworkStatus | None) -> None:
        after = framework.status
        assert after is not None
        self._check_framework_end(framework, before, after)
        if before is None:
            return
        spec = framework.spec
        is_retried = before.attempt_status.id != after.attempt_status.id
        self._check_retry("the Framework", spec.retry_policy, before, after, is_retried=is_retried)
        if is_retried:
            self._check_delay(framework, before, after)
            self._check_new_roles(after.attempt_status)
        known = {} if is_retried else index_tasks(before.attempt_status)
        for role in after.attempt_status.task_roles:
            wanted = spec.find_role(role.name)
            policy = wanted.task.retry_policy if wanted else None
            for task in role.tasks:
                old = known.get((role.name, task.index))
                if old is not None and old.instance_uid != task.instance_uid:
                    old = None
                self._check_task_end(after, role.name, old, task)
                self._check_leaving(f"{role.name}/{task.index}", wanted, old, task)
                self._check_avoiding(f"{role.name}/{task.index}", wanted, old, task)
                if old is not None and after.state not in _ENDED:
                    self._check_task(f"{role.name}/{task.index}", policy, old, task)

    def _check_new_roles(self, attempt: FrameworkAttemptStatus) -> None:
        for key, task in index_tasks(attempt).items():
            if task.retry_policy_status != RetryPolicyStatus():
                self.fail(f"I6: {key} of a new attempt begins with {task.retry_policy_status}")

    def _check_task(
        self, name: str, policy: RetryPolicySpec | None, before: TaskStatus, after: TaskStatus
    ) -> None:
        is_retried = before.attempt_status.id != after.attempt_status.id
        self._check_retry(name, policy, before, after, is_retried=is_retried)

    def _check_leaving(
        self, name: str, role: TaskRoleSpec | None, before: TaskStatus | None, after: TaskStatus
    ) -> None:
        """Check that a Task leaves for a reason, and within its budget (I21)."""
        mark, old = after.attempt_status.leaving, before.attempt_status if before else None
        if mark is None or (old and old.id == after.attempt_status.id and old.leaving is not None):
            return
        spec = role.recovery.leave_nodes if role is not None and role.recovery else None
        uid, node = after.attempt_status.pod_uid or "", after.attempt_status.pod_node_name or ""
        is_founded = (
            uid in self.disrupted if mark.reason == "PodDisrupted" else (node in self.cordoned)
        )
        if spec is None or not is_founded:
            self.fail(f"I21: {name} leaves without a reason: {mark} with {spec}")
            return
        known = before.leaves if before is not None else None
        leaves = after.leaves
        if leaves is None or leaves.count > spec.max_leaves:
            self.fail(f"I21: {name} leaves beyond its budget: {leaves}")
        elif known is not None and leaves.since_time == known.since_time:
            if leaves.count != known.count + 1:
                self.fail(f"I21: {name} has left {leaves.count} times after {known.count}")
        elif leaves.count != 1:
            self.fail(f"I21: {name} begins a window with {leaves.count}")
        elif self.is_time_steady and known is not None and known.since_time is not None:
            window = timedelta(seconds=spec.within_seconds)
            if leaves.since_time is None or leaves.since_time < known.since_time + window:
                self.fail(f"I21: {name} begins a window within another one")

    def _check_avoiding(
        self, name: str, role: TaskRoleSpec | None, before: TaskStatus | None, after: TaskStatus
    ) -> None:
        """A new attempt avoids only nodes on which enough Pods of the Task failed (I22)."""
        nodes = after.attempt_status.avoided_nodes
        is_same = before is not None and before.attempt_status.id == after.attempt_status.id
        if is_same or not nodes:
            return
        spec = role.recovery.avoid_nodes if role is not None and role.recovery else None
        if spec is None or len(nodes) > spec.max_nodes:
            self.fail(f"I22: {name} avoids {nodes} with {spec}")
            return
        for node in nodes:
            pods = self.placed.get((after.instance_uid, node), set())
            failed = sum(1 for u in pods if self.ends.get(u) or fingerprint_uid(u) in self.late)
            if failed < spec.failures:
                self.fail(f"I22: {name} avoids {node} after {failed} failures there")

    def _check_retry(
        self,
        name: str,
        policy: RetryPolicySpec | None,
        before: FrameworkStatus | TaskStatus,
        after: FrameworkStatus | TaskStatus,
        *,
        is_retried: bool,
    ) -> None:
        """Check that a retry, an end, or a wait for a retry follows the policy."""
        state, was = str(after.state), str(before.state)
        if not is_retried and (state == was or state not in ("AttemptCompleted", "Completed")):
            return
        of = before if is_retried else after
        completion = of.attempt_status.completion_status
        assert completion is not None
        counted = before.retry_policy_status.accountable_retried_count
        is_wanted, is_counted = decide_retry(policy, counted, completion.code, completion.type)
        is_due = is_wanted or before.retry_policy_status.retry_delay_seconds is not None
        if is_retried and isinstance(before, TaskStatus):
            self._check_pause(name, before, after)
        if is_retried:
            if not is_due:
                self.fail(f"I6: {name} is retried after {completion.code}, against {policy}")
            now = after.retry_policy_status.accountable_retried_count
            if now != counted + is_counted:
                self.fail(f"I6: {name} has {now} accountable retries, {counted} + {is_counted}")
        elif is_due is (state == "Completed"):
            self.fail(f"I6: {name} is {state} after {completion.code} x {counted} with {policy}")

    def _check_pause(
        self, name: str, before: TaskStatus, after: FrameworkStatus | TaskStatus
    ) -> None:
        """Check that the retry of a Task waits only after quick ends in a row."""
        delay = before.retry_policy_status.retry_delay_seconds
        if delay is None:
            return
        if delay != _find_pause(before):
            self.fail(f"I13: {name} has a delay of {delay} s: {before.retry_policy_status}")
        due = before.transition_time + timedelta(seconds=delay)
        is_over = before.deletion_pending or getattr(after, "deletion_pending", False)
        is_over = is_over or before.attempt_status.pod_uid in self.requested
        if self.is_time_steady and not is_over and after.attempt_status.start_time < due:
            self.fail(f"I13: {name} retried before {due}")

    def _check_delay(
        self, framework: Framework, before: FrameworkStatus, after: FrameworkStatus
    ) -> None:
        """Check that the retry of a Framework waits only after a conflict or quick ends."""
        completion, policy = before.attempt_status.completion_status, framework.spec.retry_policy
        delay = before.retry_policy_status.retry_delay_seconds
        if delay is not None:
            low, high = self.conflict_delay_seconds
            is_due = framework.spec.execution_type is ExecutionType.STOP or _is_deadline_over(
                framework.spec, after, after.attempt_status.start_time
            )
            due = before.transition_time + timedelta(seconds=delay)
            if not low <= delay <= high and delay != _find_pause(before):
                self.fail(f"I13: a delay of {delay} s, not within {low} and {high}")
            if self.is_time_steady and not is_due and after.attempt_status.start_time < due:
                self.fail(f"I13: retried before {due}")
        elif policy.fancy_retry_policy and completion and completion.code == 201:
            self._note_undelayed(framework, before)

    def _note_undelayed(self, framework: Framework, before: FrameworkStatus) -> None:
        # The policy may have become fancy since the attempt was completed.
        if before.observed_generation == framework.metadata.generation:
            self.fail("I13: retried after a conflict without a delay")

    # --- reasons of ends

    def _check_framework_end(
        self, framework: Framework, before: FrameworkStatus | None, after: FrameworkStatus
    ) -> None:
        completion = after.attempt_status.completion_status
        is_same = before is not None and before.attempt_status.id == after.attempt_status.id
        known = before.attempt_status.completion_status if before and is_same else None
        if completion is None or known is not None:
            return
        if completion.trigger is not None:
            self._check_trigger(framework.spec, after.attempt_status, completion)
            return
        spec, at = framework.spec, max(after.transition_time, after.attempt_status.start_time)
        is_late = not self.is_time_steady or _is_deadline_over(spec, after, at)
        reasons = {
            -210: spec.execution_type is ExecutionType.STOP,
            -240: spec.active_deadline_seconds is not None and is_late,
            -250: is_suspended(spec),
            -100: after.attempt_status.configmap_uid in self.left,
        }
        if not reasons.get(completion.code):
            self.fail(f"I13: the attempt ended with {completion.code} without a reason")

    def _check_trigger(
        self,
        spec: FrameworkSpec,
        attempt: FrameworkAttemptStatus,
        completion: FrameworkAttemptCompletionStatus,
    ) -> None:
        trigger = completion.trigger
        assert trigger is not None
        fulfilled = list(find_triggers(spec, attempt))
        task = index_tasks(attempt).get((trigger.task_role_name or "", trigger.task_index or 0))
        if task is None or not task.is_completed:
            self.fail(f"I9: {trigger} names no completed Task")
            return
        if not fulfilled:
            if completion.code != 0 or not is_all_completed(spec, attempt):
                self.fail(f"I9: {trigger}, but no policy is fulfilled")
            return
        own = task.attempt_status.completion_status
        if own is None or own.code != completion.code or own.type != completion.type:
            self.fail(f"I9: {trigger}: the attempt has {completion.code}, its Task {own}")
        words = {
            (t.role, t.word)
            for t in fulfilled
            if not self.is_time_steady or _is_first(t, fulfilled)
        }
        if not any(
            trigger.task_role_name == role and trigger.message.startswith(f"{word}TaskCount")
            for role, word in words
        ):
            self.fail(f"I9: {trigger}, but fulfilled are {fulfilled}")

    def _check_task_end(
        self, status: FrameworkStatus, role: str, before: TaskStatus | None, after: TaskStatus
    ) -> None:
        old, new = before.attempt_status if before else None, after.attempt_status
        completion = new.completion_status
        if completion is None or (old and old.id == new.id and old.completion_status is not None):
            return
        name, code, uid = f"{role}/{after.index}", completion.code, new.pod_uid or ""
        kind = completion.type
        attributes = _ATTRIBUTES.get(code, ())
        expected = CompletionType("Succeeded" if code == 0 else "Failed", attributes)
        if kind != expected:
            self.fail(f"I13: {name} ended with {code} of type {kind}, not {expected}")
        whole = status.attempt_status.completion_status
        is_lost = whole is not None and whole.code == -100
        identity = f"{after.instance_uid}/{new.id}"
        reasons = {
            -230: after.deletion_pending,
            -220: whole is not None,
            -221: whole is not None and not is_lost,
            -260: uid in self.requested,
            -270: fingerprint_uid(uid) in self.late or not self.is_time_steady,
            -280: new.leaving is not None,
            -101: uid in self.left or (is_lost and new.pod_uid is not None),
            -200: -200 in self.refused.get(identity, ()),
            -310: -310 in self.refused.get(identity, ()),
        }
        if not reasons.get(code, self.ends.get(uid) == code):
            self.fail(f"I13: {name} ended with {code}, but its Pod {uid} with {self.ends.get(uid)}")


def decide_retry(
    policy: RetryPolicySpec | None, counted: int, code: int, kind: CompletionType
) -> tuple[bool, bool]:
    """Return whether an attempt is retried, and whether the retry counts."""
    if policy is None or code in _FINAL:
        return False, True
    if code in (-250, -260, -280):
        return True, False
    attributes = kind.attributes or ()
    if policy.fancy_retry_policy and kind.name == "Failed":
        if TRANSIENT in attributes:
            return True, False
        if PERMANENT in attributes:
            return False, True
    limit, is_failed = policy.max_retry_count, kind.name == "Failed"
    return limit == -2 or (is_failed and (limit == -1 or counted < limit)), True


def is_suspended(spec: FrameworkSpec) -> bool:
    """Return whether the Framework must have no Pods."""
    return spec.suspend and spec.execution_type is not ExecutionType.STOP


def _is_deadline_over(spec: FrameworkSpec, status: FrameworkStatus, at: datetime) -> bool:
    start, seconds = status.active_start_time, spec.active_deadline_seconds
    if start is None or seconds is None:
        return False
    return at >= start + timedelta(seconds=seconds)


def find_triggers(spec: FrameworkSpec, attempt: FrameworkAttemptStatus) -> Iterator[Trigger]:
    """Find every policy that the completed Tasks fulfil."""
    for wanted in spec.task_roles:
        role = attempt.find_role(wanted.name)
        policy = wanted.completion_policy
        for word, least in (
            ("Failed", policy.min_failed_task_count),
            ("Succeeded", policy.min_succeeded_task_count),
        ):
            ends = sorted(_list_ends(role, word)) if role else []
            if 1 <= least <= len(ends):
                yield Trigger(wanted.name, word, ends[least - 1])


def is_all_completed(spec: FrameworkSpec, attempt: FrameworkAttemptStatus) -> bool:
    """Return whether there are wanted Tasks, and all of them are completed."""
    known = index_tasks(attempt)
    wanted = [
        (role.name, index)
        for role in spec.task_roles
        for index in range(role.task_number)
        if index not in role.absent_task_indices
    ]
    return bool(wanted) and all(key in known and known[key].is_completed for key in wanted)


def _list_ends(role: TaskRoleStatus, word: str) -> Iterator[datetime]:
    for task in role.tasks:
        completion = task.attempt_status.completion_status
        if task.state is not TaskState.COMPLETED or task.deletion_pending:
            continue
        if completion is not None and completion.type.name == word:
            assert task.completion_time is not None
            yield task.completion_time


def _is_first(trigger: Trigger, fulfilled: list[Trigger]) -> bool:
    return trigger.at == min(t.at for t in fulfilled if t.at is not None)


def index_tasks(attempt: FrameworkAttemptStatus) -> dict[Key, TaskStatus]:
    return {(role.name, task.index): task for role, task in attempt.walk_tasks()}


def _find_pause(status: FrameworkStatus | TaskStatus) -> int:
    """The pause of docs/api.md before a retry: none, then 1, 2, 4 and at last 300 s."""
    row = status.retry_policy_status.quick_end_count + 1
    return min(300, 2 ** (row - 3)) if row >= 3 else 0

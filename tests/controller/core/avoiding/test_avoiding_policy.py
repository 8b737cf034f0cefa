"""Tasks avoid nodes on which they failed: docs/design/avoiding.md."""

from collections import Counter
from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.core.actions import CreatePod
from controller.core.avoiding import avoiding_policy
from controller.core.decision import Decision, Event
from controller.core.draft import Draft
from controller.core.objects.object_templates import build_pod
from framework.api import codec, constants
from framework.api.avoiding import AvoidNodesSpec, NodeFailure
from framework.api.completion import (
    CONTAINER_PERMANENT_FAILED,
    CONTAINER_TRANSIENT_CONFLICT_FAILED,
    CONTAINER_TRANSIENT_FAILED,
    EPOCH_START_TIMEOUT,
    POD_EXTERNAL_DELETED,
    POD_FAILED_WITHOUT_FAILED_CONTAINER,
    PREDEFINED,
    TASK_LEFT_NODE,
    complete_task,
)
from framework.api.constants import HUNG_EXIT_CODE
from framework.api.endings import INHERITED_CODES
from framework.api.leaving import LeaveNodesSpec
from framework.api.naming import TaskKey
from framework.api.recovery import RecoverySpec
from framework.api.states import TaskState
from framework.api.types import CompletionPolicySpec, RetryPolicySpec, TaskStatus
from tests.controller.core.avoiding.avoidinggangs import AVOID, LIFE_SECONDS, Gang, name
from tests.support.builders import (
    at,
    build_role,
    build_role_status,
    build_spec,
    build_status,
)
from tests.support.builders.nodes import build_cordon
from tests.support.builders.worlds import build_draft, get_code, get_task


def begin(avoid: AvoidNodesSpec | None, failures: tuple[NodeFailure, ...]) -> TaskStatus:
    """Let a new attempt of a Task with these failures begin at ``at(0)``."""
    role = build_role(recovery=RecoverySpec(avoid_nodes=avoid))
    status = build_status(build_role_status())
    draft = build_draft(build_spec(role), status, now=at(0))
    (drafted,) = draft.roles
    task = replace(drafted.tasks[0], node_failures=failures)
    return avoiding_policy.begin_attempt(draft, drafted, task)


# --- what is avoided ----------------------------------------------------------------------------


def test_task_avoids_a_node_from_the_number_of_failures_on() -> None:
    gang = Gang()
    gang.fail("n1")
    assert (gang.list_failures(), gang.list_avoided()) == (["n1"], [])
    gang.fail("n1")
    assert (gang.list_failures(), gang.list_avoided()) == (["n1", "n1"], ["n1"])
    assert get_task(gang.status, 0).node_failures == ()


def test_failures_on_several_nodes_are_counted_by_node() -> None:
    gang = Gang()
    for node in ("n1", "n2", "n1"):
        gang.fail(node)
    assert gang.list_avoided() == ["n1"]
    gang.fail("n2")
    assert gang.list_avoided() == ["n2", "n1"]


def test_most_nodes_that_are_allowed_are_those_of_the_latest_failures() -> None:
    gang = Gang(replace(AVOID, failures=1))
    for node in ("n1", "n2", "n3"):
        gang.fail(node)
    assert gang.list_avoided() == ["n3", "n2"]


def test_node_leaves_the_list_when_a_failure_is_older_than_the_window() -> None:
    gang = Gang(replace(AVOID, within_seconds=5 * LIFE_SECONDS))
    gang.fail("n1")
    gang.fail("n1")
    assert gang.list_avoided() == ["n1"]
    gang.run_worker("n2", 4 * LIFE_SECONDS)
    assert gang.list_avoided() == ["n1"], "the list of an attempt does not change"
    gang.fail("n2")
    assert (gang.list_failures(), gang.list_avoided()) == (["n2"], [])


@pytest.mark.parametrize(
    ("seconds", "nodes"), [(3000, ("n1",)), (-3599, ("n1",)), (-3600, ()), (None, ())]
)
def test_failures_of_the_window_count_also_if_the_clock_was_set_back(
    seconds: float | None, nodes: tuple[str, ...]
) -> None:
    failure = NodeFailure("n1", None if seconds is None else at(seconds))
    task = begin(AVOID, (failure, failure))
    assert task.attempt_status.avoided_nodes == nodes
    assert len(task.node_failures) == 2 * len(nodes)


def test_example_of_the_docstring() -> None:
    gang = Gang(replace(AVOID, within_seconds=10 * LIFE_SECONDS))
    gang.fail("n1")
    gang.fail("n1")
    gang.fail("n2")
    assert (get_task(gang.status, 1).attempt_status.id, gang.list_avoided()) == (3, ["n1"])


# --- the Pod ------------------------------------------------------------------------------------


def test_stored_attempt_names_the_nodes_before_its_pod_is_created() -> None:
    gang = Gang()
    gang.fail("n1")
    gang.run_worker("n1")
    gang.end_pod(name(1), 1)
    gang.settle()
    gang.remove_pod(name(1))
    creates = []
    for _ in range(5):
        decision = gang.decide()
        creates += [action for action in decision.actions if isinstance(action, CreatePod)]
        if creates:
            break
        gang.carry_out(decision)
    (create,) = creates
    assert create.framework.status is not None
    stored = get_task(create.framework.status, 1)
    assert stored.state is TaskState.ATTEMPT_CREATION_PENDING
    assert stored.attempt_status.avoided_nodes == ("n1",)
    pod = build_pod(create.framework, TaskKey("worker", 1))
    (term,) = pod["spec"]["affinity"]["nodeAffinity"][
        "requiredDuringSchedulingIgnoredDuringExecution"
    ]["nodeSelectorTerms"]
    assert term == {
        "matchFields": [{"key": "metadata.name", "operator": "NotIn", "values": ["n1"]}]
    }
    other = build_pod(create.framework, TaskKey("worker", 0))
    assert "affinity" not in other["spec"]


def test_controller_that_starts_creates_the_same_pod() -> None:
    """All that the Pod needs is in the stored status."""
    gang = Gang()
    gang.fail("n1")
    gang.fail("n1")
    stored = codec.decode_framework(codec.encode_framework(gang.framework))
    assert stored == gang.framework
    key = TaskKey("worker", 1)
    assert build_pod(stored, key) == build_pod(gang.framework, key)


# --- what counts --------------------------------------------------------------------------------

UNDEFINED = complete_task(POD_FAILED_WITHOUT_FAILED_CONTAINER, "")


def record(code: int) -> list[str]:
    """Record an end of worker 0 on its node; return the nodes of its failures."""
    gang = Gang()
    draft = Draft(gang.observe(), gang.settings, gang.status)
    (role,) = draft.roles
    end = complete_task(code, "") if code in PREDEFINED else replace(UNDEFINED, code=code)
    pod = gang.pods[name(0)]
    task = avoiding_policy.record_failure(draft, role, role.tasks[0], pod, end)
    return [failure.node for failure in task.node_failures]


@pytest.mark.parametrize(
    "code", [1, 137, HUNG_EXIT_CODE, CONTAINER_TRANSIENT_FAILED, -300, EPOCH_START_TIMEOUT]
)
def test_failure_on_a_node_counts(code: int) -> None:
    assert record(code) == ["n9"]


@pytest.mark.parametrize(
    "code",
    [0, CONTAINER_PERMANENT_FAILED, CONTAINER_TRANSIENT_CONFLICT_FAILED, *sorted(INHERITED_CODES)],
)
def test_end_that_is_not_due_to_the_node_does_not_count(code: int) -> None:
    assert record(code) == []


def test_failure_of_an_evicted_pod_does_not_count() -> None:
    gang = Gang()
    gang.run_worker("n1")
    gang.disrupt_pod(name(1), "TerminationByKubelet")
    gang.end_pod(name(1), 137)
    gang.replace()
    assert get_task(gang.status, 1).attempt_status.id == 1
    assert gang.list_failures() == []


def test_pod_that_a_user_deletes_does_not_count() -> None:
    gang = Gang()
    gang.run_worker("n1")
    gang.terminate_pod(name(1))
    gang.settle()
    assert get_code(get_task(gang.status, 1)) == POD_EXTERNAL_DELETED
    gang.replace()
    assert gang.list_failures() == []


def test_task_that_leaves_its_node_does_not_count() -> None:
    recovery = RecoverySpec(leave_nodes=LeaveNodesSpec(), avoid_nodes=AVOID)
    gang = Gang(recovery=recovery)
    gang.run_worker("n1")
    gang.nodes["n1"] = (build_cordon(gang.now),)
    gang.settle()
    assert get_code(get_task(gang.status, 1)) == TASK_LEFT_NODE
    gang.replace()
    assert gang.list_failures() == []


def test_pod_without_a_node_does_not_count() -> None:
    gang = Gang()
    gang.end_pod(name(1), 1)
    gang.replace()
    assert get_task(gang.status, 1).attempt_status.id == 1
    assert gang.list_failures() == []


def test_failure_of_a_task_that_is_scaled_down_does_not_count() -> None:
    gang = Gang()
    gang.run_worker("n1")
    gang.edit(build_spec(replace(gang.framework.spec.task_roles[0], absent_task_indices=(1,))))
    gang.end_pod(name(1), 1)
    gang.settle()
    assert gang.list_failures() == []


def test_failure_counts_once_however_often_its_pod_is_seen() -> None:
    gang = Gang()
    gang.run_worker("n1")
    gang.end_pod(name(1), 1)
    for _ in range(3):
        gang.pause(1)
    assert gang.list_failures() == ["n1"]


# --- the field and the attempts of the Framework ------------------------------------------------


def test_without_the_field_nothing_is_stored() -> None:
    gang = Gang(None)
    gang.fail("n1")
    gang.fail("n1")
    wire = codec.encode_status(gang.status)
    assert constants.NODE_FAILURES_FIELD not in str(wire)
    assert constants.AVOIDED_NODES_FIELD not in str(wire)


def test_field_that_is_removed_ends_the_avoidance_with_the_next_attempt() -> None:
    gang = Gang()
    gang.fail("n1")
    gang.fail("n1")
    gang.edit(build_spec(replace(gang.framework.spec.task_roles[0], recovery=None)))
    gang.settle()
    assert gang.list_avoided() == ["n1"]
    gang.fail("n2")
    assert (gang.list_failures(), gang.list_avoided()) == ([], [])


def test_attempt_of_the_framework_begins_without_failures() -> None:
    policy = RetryPolicySpec(max_retry_count=1)
    gang = Gang(replace(AVOID, failures=1), completion_policy=CompletionPolicySpec(1))
    role = gang.framework.spec.task_roles[0]
    gang.fail("n1")
    assert gang.list_avoided() == ["n1"]
    final = replace(role, task=replace(role.task, retry_policy=RetryPolicySpec()))
    gang.edit(replace(build_spec(final), retry_policy=policy))
    gang.run_worker("n2")
    gang.end_pod(name(1), 1)
    for _ in range(4):
        gang.settle()
        for pod in sorted(gang.pods):
            if gang.pods[pod].is_terminating:
                gang.remove_pod(pod)
        gang.collect_garbage()
        gang.now += timedelta(seconds=LIFE_SECONDS)
    gang.settle()
    assert gang.status.attempt_status.id == 1
    assert (gang.list_failures(), gang.list_avoided()) == ([], [])


# --- Events -------------------------------------------------------------------------------------


def test_event_names_a_node_when_it_is_first_avoided() -> None:
    gang = Gang()
    events: list[Event] = []
    carry_out = gang.carry_out

    def listen(decision: Decision) -> None:
        events.extend(event for event in decision.events if event.reason == "NodeAvoided")
        carry_out(decision)

    gang.carry_out = listen  # type: ignore[method-assign]  # this world listens
    for node in ("n1", "n1", "n2", "n2"):
        gang.fail(node)
    assert [event.message for event in events] == [
        "worker/1 avoids node n1, on which it failed",
        "worker/1 avoids node n2, on which it failed",
    ]


# --- bounds -------------------------------------------------------------------------------------

_specs = st.builds(AvoidNodesSpec, st.integers(1, 10), st.integers(1, 1000), st.integers(1, 16))
_failures = st.lists(
    st.builds(
        NodeFailure, st.sampled_from([f"n{i}" for i in range(40)]), st.integers(-50, 0).map(at)
    ),
    max_size=400,
).map(lambda failures: tuple(sorted(failures, key=lambda f: f.time or at(0))))


@given(_specs, _failures)
def test_avoided_nodes_are_bounded_and_have_their_failures_in_the_window(
    avoid: AvoidNodesSpec, failures: tuple[NodeFailure, ...]
) -> None:
    task = begin(avoid, failures)
    nodes = task.attempt_status.avoided_nodes
    opening = at(-avoid.within_seconds)
    recent = Counter(f.node for f in failures if f.time is not None and f.time > opening)
    assert len(nodes) <= avoid.max_nodes
    assert len(set(nodes)) == len(nodes)
    assert all(recent[node] >= avoid.failures for node in nodes)
    kept = Counter(failure.node for failure in task.node_failures)
    assert all(count <= avoid.failures for count in kept.values())
    assert len(task.node_failures) <= 64
    assert not Counter(map(repr, task.node_failures)) - Counter(map(repr, failures))


@given(_failures)
def test_without_the_field_failures_are_dropped_and_no_node_is_avoided(
    failures: tuple[NodeFailure, ...],
) -> None:
    task = begin(None, failures)
    assert (task.node_failures, task.attempt_status.avoided_nodes) == ((), ())


@given(_specs, _failures)
def test_selection_of_a_selection_is_the_same(
    avoid: AvoidNodesSpec, failures: tuple[NodeFailure, ...]
) -> None:
    task = begin(avoid, failures)
    assert begin(avoid, task.node_failures).node_failures == task.node_failures

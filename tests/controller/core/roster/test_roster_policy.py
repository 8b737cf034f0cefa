"""Which generation the attempt's ConfigMap shall carry: docs/design/roster.md, "Generations"."""

from collections.abc import Iterable
from dataclasses import replace
from datetime import timedelta
from typing import Any

from controller.core.draft import Draft
from controller.core.roster.roster_policy import RosterOutcome, decide_roster
from controller.core.snapshot import PublishedRoster
from framework.api.pods import PodView
from framework.api.roster import Roster
from framework.api.states import FrameworkState, TaskState
from framework.api.types import TaskRoleSpec, TaskStatus
from tests.support.builders import (
    AT,
    CONFIGMAP_UID,
    at,
    build_configmap,
    build_pod,
    build_pods,
    build_role,
    build_role_roster,
    build_role_status,
    build_roster,
    build_spec,
    build_status,
    build_task,
    build_unaddressed_task,
    end_task,
)
from tests.support.builders.cases import cases
from tests.support.builders.worlds import NOW, build_draft, build_published

ANNOUNCED = PublishedRoster(has_version_annotation=True, progress_checked_at=NOW)


def completed(index: int, code: int = 0) -> TaskStatus:
    return end_task(build_task(TaskState.COMPLETED, index=index), code)


def gang(
    *tasks: TaskStatus,
    spec: TaskRoleSpec | None = None,
    published: PublishedRoster = ANNOUNCED,
    pods: Iterable[PodView] | None = None,
    state: FrameworkState = FrameworkState.ATTEMPT_PREPARING,
    **fields: Any,
) -> Draft:
    """A gang of two, each with its Pod, unless said otherwise."""
    tasks = tasks or (build_task(), build_task(index=1))
    if pods is None:
        pods = build_pods("Running", "Running")
    status = build_status(build_role_status(tasks=tasks), state=state)
    role = spec or build_role(number=len(tasks))
    fields.setdefault("configmap", replace(build_configmap(), creation_time=AT))
    return build_draft(build_spec(role), status, pods=pods, published=published, **fields)


def published(generation: int = 1, seconds: float = 50) -> PublishedRoster:
    """What was published of the whole gang ``seconds`` after AT."""
    roster = build_roster(build_role_roster(number=2, running=True), generation=generation)
    return build_published(roster, seconds)


def get_roster(outcome: RosterOutcome) -> Roster:
    assert outcome.publication is not None, "nothing is published"
    assert outcome.publication.roster is not None, "no roster is published"
    return outcome.publication.roster


def test_complete_gang_gets_its_first_generation() -> None:
    outcome = decide_roster(gang())
    roster = get_roster(outcome)
    assert (roster.generation, roster.complete, roster.ready, roster.wanted) == (1, True, 2, 2)
    assert roster.instance_uid == f"0_{CONFIGMAP_UID}"
    assert [m.addresses for m in roster.roles[0].members] == [("10.0.0.2",), ("10.0.0.3",)]
    assert outcome.publication is not None
    assert (outcome.publication.configmap_uid, outcome.publication.progress) == (CONFIGMAP_UID, "")


def test_equal_gang_is_not_published_again() -> None:
    outcome = decide_roster(gang(published=published()))
    assert outcome.publication is None


@cases(
    "tasks pods",
    a_member_without_an_address=((build_task(), build_unaddressed_task(1)), None),
    a_member_without_a_pod=(
        (build_task(), build_task(TaskState.ATTEMPT_CREATION_PENDING, index=1)),
        (build_pod(),),
    ),
    a_member_that_ended=(None, build_pods("Running", "Failed")),
    a_member_that_terminates=(
        None,
        (build_pod(), build_pod(index=1, metadata={"deletionTimestamp": "2026-01-01T00:03:00Z"})),
    ),
    a_pod_of_another_uid=(None, (build_pod(), replace(build_pod(index=1), uid="past"))),
)
def test_incomplete_gang_gets_no_first_roster(tasks: Any, pods: Any) -> None:
    outcome = decide_roster(gang(*(tasks or ()), pods=pods))
    assert outcome.publication is None or outcome.publication.roster is None


def test_incomplete_gang_is_a_new_generation_once_there_is_one() -> None:
    roster = get_roster(decide_roster(gang(published=published(3), pods=(build_pod(),))))
    assert (roster.generation, roster.complete) == (4, False)


def test_progress_stays_while_the_gang_is_incomplete_and_goes_with_a_complete_one() -> None:
    known = replace(published(3), progress="how far")
    incomplete = decide_roster(gang(published=known, pods=(build_pod(),)))
    assert incomplete.publication is not None
    assert incomplete.publication.progress == "how far"
    complete = decide_roster(gang(published=replace(known, roster=build_roster())))
    assert complete.publication is not None
    assert complete.publication.progress == ""


def test_quorum_is_enough() -> None:
    spec = build_role(number=2, min_member_count=1)
    roster = get_roster(decide_roster(gang(spec=spec, pods=(build_pod(),))))
    assert (roster.complete, roster.ready, roster.roles[0].minimum) == (True, 1, 1)


def test_completed_tasks_satisfy_and_are_never_members() -> None:
    roster = get_roster(decide_roster(gang(build_task(), completed(1), pods=(build_pod(),))))
    assert roster.complete
    assert [m.index for m in roster.roles[0].members] == [0]
    assert [(c.index, c.state) for c in roster.roles[0].completed] == [(1, "Succeeded")]
    failed = get_roster(decide_roster(gang(build_task(), completed(1, -300), pods=(build_pod(),))))
    assert failed.roles[0].completed[0].state == "Failed"


def test_tasks_that_go_are_no_members() -> None:
    going = build_task(index=1, deletion_pending=True)
    draft = gang(build_task(), going, spec=build_role(number=1))
    roster = get_roster(decide_roster(draft))
    assert [m.index for m in roster.roles[0].members] == [0]
    assert roster.wanted == 1


def test_absent_indexes_are_told_and_not_waited_for() -> None:
    tombstone = replace(completed(1), deletion_pending=True)
    spec = build_role(number=2, absent_task_indices=(1, 9))
    roster = get_roster(decide_roster(gang(build_task(), tombstone, spec=spec)))
    assert (roster.wanted, roster.roles[0].absent, roster.complete) == (1, (1,), True)


@cases(
    "phases expected",
    all_run=(("Running", "Running"), True),
    one_is_pending=(("Running", "Pending"), False),
)
def test_running_is_one_flag_a_role(phases: tuple[str, ...], *, expected: bool) -> None:
    roster = get_roster(decide_roster(gang(pods=build_pods(*phases))))
    assert roster.roles[0].running is expected


def test_role_that_left_the_spec_is_not_in_the_roster() -> None:
    status = build_status(build_role_status(), build_role_status("old"))
    pods = (build_pod(), build_pod("old"))
    draft = build_draft(build_spec(), status, pods=pods, published=ANNOUNCED)
    assert [role.name for role in get_roster(decide_roster(draft)).roles] == ["worker"]


def test_further_addresses_come_from_the_cache() -> None:
    pod = build_pod(podIPs=[{"ip": "10.0.0.2"}, {"ip": "fd00::2"}])
    draft = gang(build_task(), pods=(pod,))
    assert get_roster(decide_roster(draft)).roles[0].members[0].addresses == ("10.0.0.2", "fd00::2")


def test_generations_keep_their_distance() -> None:
    known = published(2, 99.9)
    draft = gang(published=known, pods=(build_pod(),))
    outcome = decide_roster(draft)
    assert (outcome.publication, outcome.progress_checked_at) == (None, None)
    assert draft.wake_at == at(99.9) + timedelta(seconds=0.2)
    late = gang(published=published(2, 99.8), pods=(build_pod(),))
    assert get_roster(decide_roster(late)).generation == 3


@cases(
    "fields",
    there_is_no_configmap={"configmap": None},
    it_terminates={"configmap": replace(build_configmap(), deletion_time=at(9))},
    it_is_another={"configmap": replace(build_configmap(), uid="x")},
    the_attempt_is_deleting={"state": FrameworkState.ATTEMPT_DELETING},
    the_framework_is_completed={"state": FrameworkState.COMPLETED},
    the_attempt_ends={"state": FrameworkState.ATTEMPT_DELETION_PENDING},
)
def test_nothing_is_published_when(fields: dict[str, Any]) -> None:
    assert decide_roster(gang(**fields)) == RosterOutcome()


def test_attempt_taken_over_is_announced() -> None:
    """A ConfigMap of another controller has no annotation: agents would look elsewhere."""
    quiet = replace(published(), has_version_annotation=False)
    outcome = decide_roster(gang(published=quiet))
    assert outcome.publication is not None
    assert (outcome.publication.roster, outcome.publication.progress) == (None, "")
    waiting = decide_roster(gang(published=PublishedRoster(progress_checked_at=NOW), pods=()))
    assert waiting.publication is not None


# --- progress ------------------------------------------------------------------------------------


def test_progress_is_told_when_the_ladder_says_so() -> None:
    draft = gang(published=PublishedRoster(has_version_annotation=True), pods=(build_pod(),))
    outcome = decide_roster(draft)
    assert outcome.progress_checked_at == NOW
    assert outcome.publication is not None
    assert '"ready":1,"total":2' in outcome.publication.progress
    assert outcome.publication.roster is None
    assert draft.wake_at == at(110)


def test_progress_that_did_not_change_is_looked_at_but_not_told() -> None:
    first = decide_roster(
        gang(published=PublishedRoster(has_version_annotation=True), pods=(build_pod(),))
    )
    assert first.publication is not None
    known = PublishedRoster(
        has_version_annotation=True, progress=first.publication.progress, progress_checked_at=at(5)
    )
    again = decide_roster(gang(published=known, pods=(build_pod(),)))
    assert (again.publication, again.progress_checked_at) == (None, NOW)


def test_progress_is_looked_at_once_a_step_of_the_ladder() -> None:
    draft = gang(pods=(build_pod(),))
    outcome = decide_roster(draft)
    assert (outcome.publication, outcome.progress_checked_at) == (None, None)
    assert draft.wake_at == at(110)


def test_progress_ladder_begins_anew_when_a_published_gang_turns_incomplete() -> None:
    role = build_role_roster(number=2, members=build_role_roster(number=1).members)
    known = build_published(build_roster(role, generation=2, complete=False), seconds=97)
    draft = gang(published=known, pods=(build_pod(),))
    outcome = decide_roster(draft)
    assert outcome.progress_checked_at == NOW
    assert draft.wake_at == at(102)


def test_progress_without_a_creation_time_counts_from_now() -> None:
    configmap = replace(build_configmap(), creation_time=None)
    draft = gang(pods=(), configmap=configmap)
    outcome = decide_roster(draft)
    assert (outcome.publication, outcome.progress_checked_at) == (None, None)
    assert draft.wake_at == at(102)

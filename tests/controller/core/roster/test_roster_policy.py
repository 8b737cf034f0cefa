"""Which generation the attempt's ConfigMap shall carry: docs/design/roster.md, "Generations"."""

from collections.abc import Iterable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

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

ANNOTATED = PublishedRoster(has_version_annotation=True)
CHECKED = replace(ANNOTATED, readiness_checked_at=NOW)
FIRST, LAST = build_task(), build_task(index=1)
FIRST_POD, LAST_POD = build_pods("Running", "Running")
CONFIGMAP = replace(build_configmap(), creation_time=AT)


def complete(code: int = 0, **fields: Any) -> TaskStatus:
    return end_task(build_task(TaskState.COMPLETED, index=1, **fields), code)


def gang(
    *tasks: TaskStatus,
    spec: TaskRoleSpec | None = None,
    published: PublishedRoster = CHECKED,
    pods: Iterable[PodView] = (FIRST_POD, LAST_POD),
    state: FrameworkState = FrameworkState.ATTEMPT_PREPARING,
    **fields: Any,
) -> Draft:
    """A gang of two, each with its Pod, unless said otherwise."""
    tasks = tasks or (FIRST, LAST)
    status = build_status(build_role_status(tasks=tasks), state=state)
    fields.setdefault("configmap", CONFIGMAP)
    role = spec or build_role(number=len(tasks))
    return build_draft(build_spec(role), status, pods=pods, published=published, **fields)


def publish(generation: int = 1, seconds: float = 50) -> PublishedRoster:
    """A roster of the whole gang, published ``seconds`` after AT."""
    roster = build_roster(build_role_roster(number=2, running=True), generation=generation)
    return build_published(roster, seconds)


def get_roster(draft: Draft) -> Roster:
    publication = decide_roster(draft).publication
    assert publication is not None, "nothing is published"
    assert publication.roster is not None, "no roster is published"
    return publication.roster


def list_members(draft: Draft) -> list[int]:
    return [member.index for member in get_roster(draft).roles[0].members]


def test_complete_gang_gets_its_first_generation() -> None:
    outcome = decide_roster(gang())
    roster = get_roster(gang())
    assert (roster.generation, roster.complete, roster.ready, roster.wanted) == (1, True, 2, 2)
    assert roster.instance_uid == f"0_{CONFIGMAP_UID}"
    assert [m.addresses for m in roster.roles[0].members] == [("10.0.0.2",), ("10.0.0.3",)]
    assert outcome.publication is not None
    assert (outcome.publication.configmap_uid, outcome.publication.readiness) == (CONFIGMAP_UID, "")


def test_equal_gang_is_not_published_again() -> None:
    assert decide_roster(gang(published=publish())).publication is None


@cases(
    "last pod",
    without_an_address=(build_unaddressed_task(1), LAST_POD),
    without_a_pod=(build_task(TaskState.ATTEMPT_CREATION_PENDING, index=1), None),
    that_ended=(LAST, build_pod(index=1, phase="Failed")),
    that_a_user_retries=(build_task(TaskState.ATTEMPT_DELETION_PENDING, index=1), LAST_POD),
    that_terminates=(LAST, replace(LAST_POD, deletion_time=at(180))),
    with_a_pod_of_another_uid=(LAST, replace(LAST_POD, uid="past")),
)
def test_gang_gets_no_first_roster_with_a_member(last: TaskStatus, pod: PodView | None) -> None:
    pods = (FIRST_POD, pod) if pod else (FIRST_POD,)
    publication = decide_roster(gang(FIRST, last, pods=pods)).publication
    assert publication is None or publication.roster is None


def test_incomplete_gang_is_a_new_generation_after_the_first_generation() -> None:
    roster = get_roster(gang(published=publish(3), pods=(FIRST_POD,)))
    assert (roster.generation, roster.complete) == (4, False)


def test_readiness_stays_until_the_gang_is_complete() -> None:
    known = replace(publish(3), readiness="readiness")
    complete_again = replace(known, roster=build_roster())
    for published, pods, expected in (
        (known, (FIRST_POD,), "readiness"),
        (complete_again, (FIRST_POD, LAST_POD), ""),
    ):
        publication = decide_roster(gang(published=published, pods=pods)).publication
        assert publication is not None
        assert publication.readiness == expected


def test_quorum_is_enough() -> None:
    roster = get_roster(gang(spec=build_role(number=2, min_member_count=1), pods=(FIRST_POD,)))
    assert (roster.complete, roster.ready, roster.roles[0].minimum) == (True, 1, 1)


@pytest.mark.parametrize(("code", "state"), [(0, "Succeeded"), (-300, "Failed")])
def test_completed_task_counts_as_ready_and_is_never_a_member(code: int, state: str) -> None:
    draft = gang(FIRST, complete(code), pods=(FIRST_POD,))
    roster = get_roster(draft)
    assert roster.complete
    assert list_members(draft) == [0]
    assert [(c.index, c.state) for c in roster.roles[0].completed] == [(1, state)]


@cases(
    "spec last absent",
    scaled_down=(build_role(), build_task(index=1, deletion_pending=True), ()),
    absent=(
        build_role(number=2, absent_task_indices=(1, 9)),
        complete(deletion_pending=True),
        (1,),
    ),
)
def test_unwanted_task_is_no_member_and_not_waited_for(
    spec: TaskRoleSpec, last: TaskStatus, absent: tuple[int, ...]
) -> None:
    draft = gang(FIRST, last, spec=spec)
    roster = get_roster(draft)
    assert list_members(draft) == [0]
    assert (roster.wanted, roster.roles[0].absent, roster.complete) == (1, absent, True)


@pytest.mark.parametrize("last", ["Running", "Pending"])
def test_role_is_running_when_all_its_members_run(last: str) -> None:
    roster = get_roster(gang(pods=build_pods("Running", last)))
    assert roster.roles[0].running is (last == "Running")


def test_role_that_left_the_spec_is_not_in_the_roster() -> None:
    status = build_status(build_role_status(), build_role_status("old"))
    pods = (FIRST_POD, build_pod("old"))
    draft = build_draft(build_spec(), status, pods=pods, published=CHECKED)
    assert [role.name for role in get_roster(draft).roles] == ["worker"]


def test_further_addresses_are_those_of_the_cached_pod() -> None:
    pod = build_pod(podIPs=[{"ip": "10.0.0.2"}, {"ip": "fd00::2"}])
    (member,) = get_roster(gang(FIRST, pods=(pod,))).roles[0].members
    assert member.addresses == ("10.0.0.2", "fd00::2")


def test_generations_are_published_at_least_200_ms_apart() -> None:
    draft = gang(published=publish(2, 99.9), pods=(FIRST_POD,))
    outcome = decide_roster(draft)
    assert (outcome.publication, outcome.readiness_checked_at) == (None, None)
    assert draft.wake_at == at(99.9) + timedelta(seconds=0.2)
    assert get_roster(gang(published=publish(2, 99.8), pods=(FIRST_POD,))).generation == 3


@cases(
    "fields",
    no_configmap_exists={"configmap": None},
    it_terminates={"configmap": replace(build_configmap(), deletion_time=at(9))},
    it_is_another={"configmap": replace(build_configmap(), uid="x")},
    the_attempt_is_deleting={"state": FrameworkState.ATTEMPT_DELETING},
    the_framework_is_completed={"state": FrameworkState.COMPLETED},
    the_attempt_ends={"state": FrameworkState.ATTEMPT_DELETION_PENDING},
)
def test_nothing_is_published_when(fields: dict[str, Any]) -> None:
    assert decide_roster(gang(**fields)) == RosterOutcome()


def test_configmap_without_the_version_annotation_is_annotated() -> None:
    """It is of another controller: without the annotation, agents read another source."""
    quiet = replace(publish(), has_version_annotation=False)
    publication = decide_roster(gang(published=quiet)).publication
    assert publication is not None
    assert (publication.roster, publication.readiness) == (None, "")
    waiting = decide_roster(gang(published=PublishedRoster(readiness_checked_at=NOW), pods=()))
    assert waiting.publication is not None


def test_readiness_is_published_at_a_check_time_if_it_changed() -> None:
    draft = gang(published=ANNOTATED, pods=(FIRST_POD,))
    outcome = decide_roster(draft)
    assert outcome.readiness_checked_at == NOW
    assert outcome.publication is not None
    assert '"ready":1,"total":2' in outcome.publication.readiness
    assert outcome.publication.roster is None
    assert draft.wake_at == at(110)
    readiness = outcome.publication.readiness
    known = replace(ANNOTATED, readiness=readiness, readiness_checked_at=at(5))
    again = decide_roster(gang(published=known, pods=(FIRST_POD,)))
    assert (again.publication, again.readiness_checked_at) == (None, NOW)


@cases(
    "configmap wake_at",
    once_a_step=(CONFIGMAP, at(110)),
    from_now_without_a_creation_time=(replace(CONFIGMAP, creation_time=None), at(102)),
)
def test_readiness_is_checked(configmap: Any, wake_at: Any) -> None:
    draft = gang(pods=(FIRST_POD,), configmap=configmap)
    outcome = decide_roster(draft)
    assert (outcome.publication, outcome.readiness_checked_at) == (None, None)
    assert draft.wake_at == wake_at


def test_check_times_begin_anew_when_a_published_gang_is_incomplete_again() -> None:
    role = build_role_roster(number=2, members=build_role_roster(number=1).members)
    known = build_published(build_roster(role, generation=2, complete=False), seconds=97)
    draft = gang(published=known, pods=(FIRST_POD,))
    assert decide_roster(draft).readiness_checked_at == NOW
    assert draft.wake_at == at(102)

"""Which failed members a generation lists: docs/design/roster.md, "Failed members"."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from controller.core.roster.roster_policy import decide_roster
from framework.api.completion import (
    CONTAINER_TRANSIENT_FAILED,
    POD_EXTERNAL_DELETED,
    SUCCEEDED,
)
from framework.api.pods import PodView
from framework.api.roster import FailedMember, Leaving, Roster, cut_reason, fingerprint_uid
from framework.api.states import FrameworkState, TaskState
from framework.api.types import TaskStatus
from tests.support.builders import (
    at,
    build_configmap,
    build_pods,
    build_role,
    build_role_roster,
    build_role_status,
    build_roster,
    build_spec,
    build_status,
    build_task,
    end_task,
)
from tests.support.builders.cases import cases
from tests.support.builders.worlds import build_draft, build_published

FIRST, LAST = build_task(), build_task(index=1)
FIRST_POD, LAST_POD = build_pods("Running", "Running")
LAST_PRINT = fingerprint_uid(LAST_POD.uid)
KILLED = FailedMember("worker", 1, LAST_PRINT, 0, 4, 137, "ContainerSigKillReceived")


def publish(*failed: FailedMember, generation: int = 3, members: int = 2) -> Roster:
    role = build_role_roster(number=members, wanted=2, minimum=2, running=members == 2)
    return build_roster(role, generation=generation, failed=failed, complete=members == 2)


def retry(task: TaskStatus, **fields: Any) -> TaskStatus:
    """The Task in its second attempt."""
    state = fields.pop("state", TaskState.ATTEMPT_CREATION_PENDING)
    built = build_task(state, index=task.index)
    return replace(built, attempt_status=replace(built.attempt_status, id=1, **fields))


def look(
    last: TaskStatus,
    published: Roster,
    pods: Iterable[PodView] = (FIRST_POD,),
    number: int = 2,
) -> Roster | None:
    """The roster that is published for worker 0, which runs, and this worker 1."""
    status = build_status(
        build_role_status(tasks=(FIRST, last)), state=FrameworkState.ATTEMPT_RUNNING
    )
    draft = build_draft(
        build_spec(build_role(number=number)),
        status,
        pods=pods,
        published=build_published(published, 50),
        configmap=build_configmap(),
    )
    publication = decide_roster(draft).publication
    return None if publication is None else publication.roster


def list_failed(*arguments: Any, **fields: Any) -> tuple[FailedMember, ...]:
    roster = look(*arguments, **fields)
    assert roster is not None, "nothing is published"
    return roster.failed


@cases(
    "state code",
    killed=(TaskState.ATTEMPT_DELETION_PENDING, CONTAINER_TRANSIENT_FAILED),
    deleted=(TaskState.ATTEMPT_DELETING, POD_EXTERNAL_DELETED),
    waits_for_its_retry=(TaskState.ATTEMPT_COMPLETED, CONTAINER_TRANSIENT_FAILED),
    tolerated=(TaskState.COMPLETED, CONTAINER_TRANSIENT_FAILED),
)
def test_next_generation_names_a_member_that_failed(state: TaskState, code: int) -> None:
    task = end_task(build_task(state, index=1), code)
    (failed,) = list_failed(task, publish())
    assert (failed.role, failed.index, failed.fingerprint) == ("worker", 1, LAST_PRINT)
    assert (failed.attempt_id, failed.since, failed.code) == (0, 4, code)
    completion = task.attempt_status.completion_status
    assert completion is not None
    assert failed.reason == completion.phrase != ""


def test_failure_stays_listed_under_its_generation_until_the_successor_is_a_member() -> None:
    listed = publish(KILLED, generation=4, members=1)
    pending = retry(LAST)
    assert look(pending, listed) is None, "the same gang"
    preparing = retry(LAST, state=TaskState.ATTEMPT_PREPARING, pod_uid="next", pod_ip="10.0.0.9")
    pod = replace(LAST_POD, uid="next")
    roster = look(preparing, listed, pods=(FIRST_POD, pod))
    assert roster is not None
    assert (roster.generation, roster.complete, roster.failed) == (5, True, ())


def test_successor_that_fails_without_an_address_changes_nothing() -> None:
    listed = publish(KILLED, generation=4, members=1)
    failing = end_task(retry(LAST, state=TaskState.ATTEMPT_DELETING, pod_uid="next", pod_ip=None))
    failing = end_task(failing, POD_EXTERNAL_DELETED)
    assert look(failing, listed) is None


def test_successor_that_fails_is_a_failure_of_its_own() -> None:
    listed = publish(KILLED, generation=4, members=1)
    failing = retry(LAST, state=TaskState.ATTEMPT_DELETING, pod_uid="next", pod_ip="10.0.0.9")
    (failed,) = list_failed(end_task(failing, POD_EXTERNAL_DELETED), listed)
    assert (failed.fingerprint, failed.attempt_id, failed.since) == (fingerprint_uid("next"), 1, 5)


def test_retry_before_a_publication_loses_only_the_code() -> None:
    """The controller was killed between the write of the status and that of the roster."""
    expected = FailedMember("worker", 1, LAST_PRINT, 0, 4)
    published = publish()
    (role,) = published.roles
    last = role.members[1]._replace(fingerprint=LAST_PRINT)
    role = role._replace(members=(role.members[0], last))
    assert list_failed(retry(LAST), published._replace(roles=(role,))) == (expected,)


def test_task_that_left_and_is_retried_before_a_publication_is_listed() -> None:
    """A roster that lists neither would tell agents that nothing left."""
    entry = Leaving("worker", 1, LAST_PRINT, 3, "2026-01-01T00:00:00Z")
    incomplete = publish(members=1)._replace(leaving=(entry,))
    assert list_failed(retry(LAST), incomplete) == (FailedMember("worker", 1, LAST_PRINT, 0, 4),)
    complete = incomplete._replace(complete=True)
    assert list_failed(retry(LAST), complete) == (), "the gang went on without it"
    removed = replace(retry(LAST), deletion_pending=True)
    assert list_failed(removed, incomplete, number=1) == ()
    assert list_failed(LAST, incomplete) == (), "another Task of the same index drained"


def test_member_that_succeeded_or_is_scaled_down_or_only_unseen_did_not_fail() -> None:
    done = end_task(build_task(TaskState.COMPLETED, index=1), SUCCEEDED)
    scaled_down = replace(
        end_task(build_task(TaskState.ATTEMPT_DELETING, index=1), POD_EXTERNAL_DELETED),
        deletion_pending=True,
    )
    assert list_failed(done, publish(KILLED, generation=4, members=1)) == ()
    assert list_failed(scaled_down, publish(), number=1) == ()
    assert list_failed(LAST, publish()) == (), "its Pod is not in the cache"


def test_terminating_member_is_listed_in_the_generation_that_drops_it() -> None:
    pod = replace(LAST_POD, deletion_time=at(180))
    task = end_task(build_task(TaskState.ATTEMPT_DELETING, index=1), POD_EXTERNAL_DELETED)
    roster = look(task, publish(), pods=(FIRST_POD, pod))
    assert roster is not None
    assert [member.index for member in roster.roles[0].members] == [0]
    assert [failed.index for failed in roster.failed] == [1]
    assert not roster.complete


def test_reason_is_short_printable_ascii() -> None:
    assert cut_reason("Out\x1b[31mOfMemoryé" + "x" * 100) == "Out[31mOfMemory" + "x" * 49

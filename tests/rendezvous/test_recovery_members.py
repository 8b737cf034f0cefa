"""The members with which the processes of one Pod restart in place, in virtual time.

``test_recovery_turns`` has its deadlines.
"""

import pytest

from framework.agent.exitcodes import ExitCode
from framework.api.roster import FailedMember, RosterRecovery, fingerprint_uid
from rendezvous.core.recovery import BarrierKey
from rendezvous.recovery import recovery as module
from rendezvous.recovery.startbarrier import UNKNOWN_MEMBERS
from rendezvous.site.peers.barriers.protocol import mark_members
from tests.rendezvous.gangs import build_role, build_roster, get_uid
from tests.rendezvous.recoverypods import GRACE_SECONDS, LATE, RESTART_SECONDS, Barrier, Pod


@pytest.fixture
def pod(monkeypatch: pytest.MonkeyPatch) -> Pod:
    monkeypatch.setattr(module, "StartBarrier", Barrier)
    return Pod()


def publish_success(pod: Pod, since: int, members: int, *, is_ready: bool = True) -> None:
    """Publish that members have succeeded, which begins a new generation."""
    recovery = RosterRecovery(1, since, ("worker",), waits_since=1)
    role = build_role("worker", members)
    roster = build_roster(role, generation=since)._replace(recovery=recovery)
    pod.recovery.observe(roster, is_ready)


def test_success_of_another_member_postpones_no_deadline_of_an_agent_that_waits(pod: Pod) -> None:
    pod.start_epoch(0)
    pod.publish(1)
    pod.barrier.missing = (LATE,)
    pod.turn()
    pod.turn(GRACE_SECONDS + RESTART_SECONDS - 2.0)
    publish_success(pod, 3, 2, is_ready=False)
    pod.turn(100.0)
    publish_success(pod, 3, 2)
    pod.turn(1.9)
    assert pod.barrier.target == BarrierKey(3, 1)
    assert pod.start_reports == ["1 0"]
    pod.turn(0.2)
    assert pod.start_reports == ["1 0", f"3 1 {LATE}"]


def test_agent_that_a_success_restarts_counts_anew(pod: Pod) -> None:
    """The start barrier had released it: its peers may still end their processes."""
    pod.start_epoch(0)
    pod.publish(1)
    pod.turn(GRACE_SECONDS + RESTART_SECONDS - 1.0)
    pod.barrier.release(BarrierKey(1, 1), is_serving=True)
    pod.turn()
    publish_success(pod, 3, 2)
    pod.barrier.missing = (LATE,)
    pod.turn(2.0)
    assert pod.barrier.target == BarrierKey(3, 1)
    assert pod.start_reports == ["1 0", "1 1"]


def test_process_starts_with_the_members_of_the_release_though_others_are_shown_meanwhile(
    pod: Pod,
) -> None:
    """Worker 2 has succeeded: it was released with the others, before this Pod showed its end."""
    for count in (3, 2):
        pod.env = {"FB_SIZE": str(count)}
        pod.publish(0, members=count)
    mark = mark_members(("worker", i, fingerprint_uid(get_uid("worker", i))) for i in range(3))
    pod.turn()
    pod.barrier.release(BarrierKey(1, 0), is_serving=False, mark=mark)
    pod.turn()
    assert (pod.started, pod.sizes) == (["0"], ["3"])


def test_pod_ends_if_the_start_barrier_has_released_members_that_it_never_showed(
    pod: Pod, capsys: pytest.CaptureFixture[str]
) -> None:
    pod.publish(0)
    pod.turn()
    pod.barrier.release(BarrierKey(1, 0), is_serving=False, mark="89abcdef")
    pod.turn()
    assert (pod.started, pod.code) == ([], ExitCode.TRANSIENT_CONFLICT)
    assert UNKNOWN_MEMBERS in "".join(capsys.readouterr())


def publish_tolerated(
    pod: Pod, since: int, members: int, *, complete: bool, failed_since: int = 3
) -> None:
    """Publish a gang that goes on without worker 2, whose failure its role tolerates."""
    recovery = RosterRecovery(0, since, ("worker",))
    failed = FailedMember("worker", 2, LATE, 0, failed_since, 1)
    roster = build_roster(build_role("worker", members), generation=since)
    roster = roster._replace(complete=complete, failed=(failed,), recovery=recovery)
    pod.recovery.observe(roster, complete)
    pod.turn()


def test_failure_before_the_start_does_not_end_the_process_when_another_peer_leaves(
    pod: Pod,
) -> None:
    """A failure that its role tolerates is listed until the end of the attempt."""
    pod.start_epoch(0)
    publish_tolerated(pod, 3, 2, complete=True)
    assert pod.ends == 1
    pod.barrier.release(BarrierKey(3, 0), is_serving=False)
    pod.turn()
    assert pod.started == ["0", "0"]
    publish_tolerated(pod, 5, 1, complete=False)
    assert pod.ends == 1, "the gang is not complete, and no Pod has failed since the start"


def test_failure_of_a_task_that_was_no_member_at_the_start_does_not_end_the_process(
    pod: Pod,
) -> None:
    """The next Pod of worker 2 fails, too, before a roster lists it: it is listed anew."""
    pod.start_epoch(0)
    publish_tolerated(pod, 3, 2, complete=True)
    pod.barrier.release(BarrierKey(3, 0), is_serving=False)
    pod.turn()
    publish_tolerated(pod, 3, 2, complete=True, failed_since=4)
    publish_tolerated(pod, 5, 1, complete=False, failed_since=4)
    assert pod.ends == 1, "the gang is not complete, and no Pod has failed since the start"


def test_failure_of_a_member_ends_the_process_though_its_next_pod_has_failed_meanwhile(
    pod: Pod,
) -> None:
    pod.publish(0, members=3)
    pod.turn()
    pod.barrier.release(BarrierKey(1, 0), is_serving=False)
    pod.turn()
    publish_tolerated(pod, 3, 2, complete=False, failed_since=4)
    assert pod.ends == 1

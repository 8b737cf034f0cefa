"""The agent's part of a restart in place, alone: docs/design/recovery.md."""

from rendezvous.core.recovery import (
    NO_MEMBER,
    REFUSED,
    UNANSWERED,
    BarrierKey,
    EndProcess,
    Event,
    Exit,
    Gather,
    KillProcess,
    Phase,
    ProcessEnded,
    ProcessGone,
    ProcessHung,
    RecoveryMemory,
    Released,
    RosterSeen,
    StartProcess,
    Tick,
    WriteReport,
    step,
)

RUNNING = RecoveryMemory(
    Phase.RUNNING, newest=BarrierKey(7, 4), is_ready=True, running=BarrierKey(7, 4)
)


def follow(memory: RecoveryMemory, *events: Event) -> tuple[list[object], RecoveryMemory]:
    """Take events; return their actions."""
    actions: list[object] = []
    for event in events:
        steps = step(memory, event, 10.0)
        actions += steps.actions
        memory = steps.memory
    return actions, memory


def test_failed_process_starts_again_in_the_next_epoch() -> None:
    actions, memory = step(RUNNING, ProcessEnded(137), 10.0)
    assert actions == (WriteReport(4, 137),)
    assert step(memory, Tick(), 69.9).actions == (WriteReport(4, 137),), "until it is answered"
    actions, memory = step(memory, RosterSeen(BarrierKey(7, 5)), 11.0)
    assert actions == (), "processes are left"
    actions, memory = step(memory, ProcessGone(), 11.0)
    assert actions == (Gather(BarrierKey(7, 5)),)
    assert step(memory, Released(BarrierKey(7, 4)), 12.0).actions == ()
    actions, memory = step(memory, Released(BarrierKey(7, 5)), 12.0)
    assert (actions, memory.phase) == ((StartProcess(5),), Phase.RUNNING)


def test_survivor_ends_its_process_before_it_gathers() -> None:
    actions, memory = step(RUNNING, RosterSeen(BarrierKey(7, 5)), 10.0)
    assert actions == (EndProcess(),)
    assert step(memory, Released(BarrierKey(7, 5)), 10.0).actions == ()
    assert step(memory, RosterSeen(BarrierKey(8, 5)), 10.0).actions == ()
    _, memory = step(memory, RosterSeen(BarrierKey(8, 5)), 10.0)
    actions, memory = step(memory, ProcessEnded(143), 10.0)
    assert actions == (), "processes are left"
    assert step(memory, ProcessGone(), 10.0).actions == (Gather(BarrierKey(8, 5)),)


def test_failed_peer_ends_the_process_until_the_next_complete_generation() -> None:
    incomplete = RosterSeen(BarrierKey(8, 4), is_ready=False, has_failed_peer=True)
    actions, memory = follow(RUNNING, incomplete)
    assert actions == [EndProcess()]
    actions, memory = follow(memory, incomplete, ProcessEnded(143), ProcessGone(), incomplete)
    assert actions == []
    assert step(memory, RosterSeen(BarrierKey(9, 4)), 11.0).actions == (Gather(BarrierKey(9, 4)),)


def test_failed_pod_of_another_generation_is_not_gathered_for_again() -> None:
    """Others do not come to a start barrier that has released this agent."""
    same = RosterSeen(BarrierKey(7, 4), has_failed_peer=True)
    assert step(RUNNING, same, 10.0).actions == ()
    incomplete = RosterSeen(BarrierKey(8, 4), is_ready=False)
    assert step(RUNNING, incomplete, 10.0).actions == (), "a Pod left, and none failed"


WAITING = RosterSeen(BarrierKey(8, 4), is_ready=False)
LEAVING = RosterSeen(BarrierKey(8, 4), is_ready=False, has_leaving_peer=True)
UNSHOWN = RosterSeen(BarrierKey(9, 4), is_ready=False, is_complete=True)


def test_process_that_fails_while_the_gang_waits_for_another_pod_is_reported() -> None:
    """For example while a Pod of a scale-up is Pending."""
    actions, memory = follow(RUNNING, WAITING, ProcessEnded(137), ProcessGone())
    assert actions == [WriteReport(4, 137)]
    refused = WAITING._replace(is_refused=True)
    assert step(memory, refused, 11.0).actions == (Exit(137, REFUSED),)
    assert step(memory, Tick(), 70.0).actions == (Exit(137, UNANSWERED),)
    _, memory = step(memory, RosterSeen(BarrierKey(8, 5), is_ready=False), 11.0)
    assert step(memory, RosterSeen(BarrierKey(9, 5)), 12.0).actions == (Gather(BarrierKey(9, 5)),)


def test_process_that_fails_while_a_peer_leaves_starts_again_without_a_report() -> None:
    """It may have lost its connection to the Pod that leaves."""
    actions, memory = follow(RUNNING, LEAVING, ProcessEnded(1), ProcessGone(), Tick())
    assert (actions, memory.phase) == ([], Phase.HELD)
    left = LEAVING._replace(has_leaving_peer=False, has_failed_peer=True)
    for seen in (LEAVING._replace(barrier=BarrierKey(9, 4)), left):
        done, later = follow(memory, seen, Tick(), RosterSeen(BarrierKey(10, 4)))
        assert done == [Gather(BarrierKey(10, 4))]
    assert step(memory, RosterSeen(BarrierKey(9, 4)), 11.0).actions == (Gather(BarrierKey(9, 4)),)
    done, later = follow(memory, RosterSeen(BarrierKey(8, 5), is_ready=False), Tick())
    assert (done, later.phase) == ([], Phase.GATHERING), "the next epoch answers"


def test_failure_is_reported_when_no_peer_leaves_any_more_and_the_gang_still_waits() -> None:
    _, memory = follow(RUNNING, LEAVING, ProcessEnded(1), ProcessGone())
    actions, memory = step(memory, WAITING, 50.0)
    assert actions == (WriteReport(4, 1),)
    assert step(memory, Tick(), 109.9).actions == (WriteReport(4, 1),), "60 s from now"
    assert step(memory, Tick(), 110.0).actions == (Exit(1, UNANSWERED),)


def test_report_is_held_back_also_while_the_complete_generation_is_not_shown_yet() -> None:
    for events in ((LEAVING, ProcessEnded(1), UNSHOWN), (LEAVING, UNSHOWN, ProcessEnded(1))):
        actions, memory = follow(RUNNING, *events, ProcessGone(), Tick())
        assert (actions, memory.phase) == ([], Phase.HELD)
        assert step(memory, WAITING._replace(barrier=BarrierKey(10, 4)), 11.0).actions == (
            WriteReport(4, 1),
        )
        assert step(memory, RosterSeen(BarrierKey(9, 4)), 11.0).actions == (
            Gather(BarrierKey(9, 4)),
        )
    actions, _ = follow(RUNNING, UNSHOWN, ProcessEnded(1))
    assert actions == [WriteReport(4, 1)], "no peer has left"


def test_pod_that_leaves_ends_also_if_its_report_was_held_back() -> None:
    _, memory = follow(RUNNING, LEAVING, ProcessEnded(1), ProcessGone())
    own = LEAVING._replace(barrier=BarrierKey(9, 4), is_member=False)
    assert step(memory, own, 11.0).actions == (Exit(1, NO_MEMBER),)


def test_epoch_of_an_incomplete_generation_answers_and_is_gathered_for_later() -> None:
    reported = step(RUNNING, ProcessEnded(137), 10.0).memory
    incomplete = RosterSeen(BarrierKey(8, 5), is_ready=False, has_failed_peer=True)
    actions, memory = follow(reported, ProcessGone(), incomplete)
    assert actions == []
    assert step(memory, Tick(), 999.0).actions == (), "it is answered"
    actions, memory = follow(memory, Released(BarrierKey(7, 4)), RosterSeen(BarrierKey(9, 5)))
    assert actions == [Gather(BarrierKey(9, 5))]
    refused = incomplete._replace(is_refused=True)
    assert step(reported, refused, 10.0).actions == (Exit(137, REFUSED),)
    assert step(RUNNING, incomplete, 10.0).actions == (EndProcess(),)


def test_agent_leaves_the_start_barrier_of_a_generation_that_is_over() -> None:
    actions, memory = follow(
        RUNNING, RosterSeen(BarrierKey(7, 5)), ProcessEnded(143), ProcessGone()
    )
    assert actions == [EndProcess(), Gather(BarrierKey(7, 5))]
    _, memory = step(memory, RosterSeen(BarrierKey(8, 5), is_ready=False), 10.0)
    assert step(memory, Released(BarrierKey(7, 5)), 10.0).actions == ()
    assert step(memory, RosterSeen(BarrierKey(8, 5)), 10.0).actions == (Gather(BarrierKey(8, 5)),)


def test_pod_that_leaves_ends_and_starts_no_process() -> None:
    leaving = RosterSeen(BarrierKey(8, 5), is_member=False)
    actions, memory = step(RUNNING, leaving, 10.0)
    assert actions == ()
    assert step(memory, ProcessEnded(1), 10.0).actions == (Exit(1, NO_MEMBER),)
    assert step(memory, ProcessEnded(0), 10.0).actions == (Exit(0),)
    reported = step(RUNNING, ProcessEnded(137), 10.0).memory
    assert step(reported, leaving, 10.0).actions == (Exit(137, NO_MEMBER),)
    for events in (
        (RosterSeen(BarrierKey(7, 5)), leaving, ProcessEnded(143), ProcessGone()),
        (RosterSeen(BarrierKey(7, 5)), ProcessEnded(143), ProcessGone(), leaving),
    ):
        _, memory = follow(RUNNING, *events)
        ends = (Released(BarrierKey(7, 5)), Released(BarrierKey(8, 5)), Tick())
        assert follow(memory, *ends)[0] == []


def test_hung_process_is_killed_and_reported_with_the_code_of_a_hang() -> None:
    hung = ProcessHung(BarrierKey(7, 4), 202)
    actions, memory = step(RUNNING, hung, 10.0)
    assert actions == (KillProcess(),)
    assert step(memory, hung, 10.0).actions == (), "once"
    actions, reported = step(memory, ProcessEnded(137), 10.0)
    assert actions == (WriteReport(4, 202),)
    answered = follow(reported, RosterSeen(BarrierKey(7, 5)), ProcessGone())
    assert answered[0] == [Gather(BarrierKey(7, 5))]
    assert step(reported, Tick(), 70.0).actions == (Exit(202, UNANSWERED),)


def test_hung_process_that_does_not_end_is_reported_after_10_seconds() -> None:
    _, memory = step(RUNNING, ProcessHung(BarrierKey(7, 4), 202), 10.0)
    assert step(memory, Tick(), 19.0) == ((), memory)
    actions, memory = step(memory, Tick(), 20.0)
    assert actions == (WriteReport(4, 202),)
    waiting, memory = follow(memory, RosterSeen(BarrierKey(7, 5)))
    assert waiting == [], "the next epoch waits until the process is gone"
    assert follow(memory, ProcessEnded(137), ProcessGone())[0] == [Gather(BarrierKey(7, 5))]


def test_hung_process_is_not_reported_when_another_one_has_failed_meanwhile() -> None:
    _, memory = step(RUNNING, ProcessHung(BarrierKey(7, 4), 202), 10.0)
    actions, memory = step(memory, RosterSeen(BarrierKey(7, 5)), 10.0)
    assert actions == (), "it ends already"
    assert follow(memory, ProcessEnded(137), ProcessGone())[0] == [Gather(BarrierKey(7, 5))]


def test_hung_process_is_reported_also_while_the_gang_waits_for_another_pod() -> None:
    """For example while a Pod of a scale-up is Pending: its peers may hang until they end."""
    hung = ProcessHung(BarrierKey(7, 4), 202)
    for events in ((WAITING, hung), (hung, WAITING)):
        actions, memory = follow(RUNNING, *events, ProcessEnded(137), ProcessGone())
        assert actions == [KillProcess(), WriteReport(4, 202)]
        refused = WAITING._replace(is_refused=True)
        assert step(memory, refused, 11.0).actions == (Exit(202, REFUSED),)
        _, memory = step(memory, RosterSeen(BarrierKey(8, 5), is_ready=False), 11.0)
        assert step(memory, RosterSeen(BarrierKey(9, 5)), 12.0).actions == (
            Gather(BarrierKey(9, 5)),
        )


def test_hung_process_starts_again_without_a_report_if_a_peer_leaves_or_its_pod_fails() -> None:
    hung = ProcessHung(BarrierKey(7, 4), 202)
    failed = WAITING._replace(has_failed_peer=True)
    for seen in (LEAVING, failed):
        actions, memory = follow(RUNNING, hung, seen, ProcessEnded(137), ProcessGone(), Tick())
        assert actions == [KillProcess()]
        assert step(memory, RosterSeen(BarrierKey(9, 4)), 11.0).actions == (
            Gather(BarrierKey(9, 4)),
        )


def test_hung_process_of_a_pod_that_leaves_ends_the_pod() -> None:
    leaving = RosterSeen(BarrierKey(8, 4), is_member=False)
    hung = ProcessHung(BarrierKey(7, 4), 202)
    assert follow(RUNNING, leaving, hung)[0] == [], "its peers do not wait for it"
    actions, _ = follow(RUNNING, hung, leaving, ProcessEnded(137))
    assert actions == [KillProcess(), Exit(202, NO_MEMBER)]


def test_hang_of_another_run_or_of_no_process_is_ignored() -> None:
    assert step(RUNNING, ProcessHung(BarrierKey(7, 3), 202), 10.0) == ((), RUNNING)
    for phase in (Phase.GATHERING, Phase.REPORTED, Phase.STOPPING, Phase.LEFT):
        memory = RUNNING._replace(phase=phase, reported_at=10.0)
        assert step(memory, ProcessHung(BarrierKey(7, 4), 202), 10.0) == ((), memory)


def test_older_start_barrier_is_ignored() -> None:
    for target in (BarrierKey(7, 4), BarrierKey(6, 5), BarrierKey(8, 3)):
        assert step(RUNNING, RosterSeen(target), 10.0) == ((), RUNNING)


def test_agent_leaves_with_the_code_of_its_process() -> None:
    assert step(RUNNING, ProcessEnded(0), 10.0).actions == (Exit(0),)
    reported = step(RUNNING, ProcessEnded(137), 10.0).memory
    refused = step(reported, RosterSeen(BarrierKey(7, 5), is_refused=True), 11.0)
    assert refused.actions == (Exit(137, REFUSED),)
    assert step(reported, Tick(), 70.0).actions == (Exit(137, UNANSWERED),)
    for event in (
        Tick(),
        RosterSeen(BarrierKey(9, 9)),
        Released(BarrierKey(7, 5)),
        ProcessEnded(1),
    ):
        assert step(refused.memory, event, 99.0) == ((), refused.memory)


def test_process_that_succeeds_before_it_is_killed_did_not_hang() -> None:
    target = BarrierKey(1, 0)
    memory = RecoveryMemory(phase=Phase.RUNNING, newest=target, running=target, is_ready=True)
    _, memory = step(memory, ProcessHung(target, 202), 0.0)
    assert step(memory, ProcessEnded(0), 0.1).actions == (Exit(0),)
    assert step(memory, ProcessEnded(137), 0.1).actions == (WriteReport(0, 202),)

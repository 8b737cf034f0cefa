"""The decision about the command of ``run``, alone: ``rendezvous.core.command``."""

import itertools
import signal

import pytest

from framework.agent.exitcodes import ExitCode
from rendezvous.core.command import (
    Action,
    AtEnd,
    CommandMemory,
    CommandSettings,
    Ended,
    Event,
    FailTimeOver,
    Finish,
    ForcedExit,
    Gone,
    GraceOver,
    KillLeftovers,
    KillSession,
    LeavingPod,
    Order,
    OrderKind,
    Process,
    ReportEnd,
    ReportGone,
    Say,
    SendSignal,
    Signalled,
    StartCommand,
    StartFailed,
    choose_order,
    compute_wait,
    decide,
)
from rendezvous.core.notifying.diff import Diff, PeerChange
from rendezvous.core.notifying.notification import (
    CHANGED,
    COMPLETING,
    FAILED,
    LEAVING,
    PEER_LEAVING,
    Notify,
)

NOW, GRACE_SECONDS, FAIL_SECONDS = 100.0, 30.0, 10.0
KILL_AT = NOW + GRACE_SECONDS
ON_CHANGE, IN_PLACE = (
    CommandSettings(GRACE_SECONDS),
    CommandSettings(GRACE_SECONDS, restarts_in_place=True),
)
TERM, TERMINATED = SendSignal(signal.SIGTERM), 128 + signal.SIGTERM
OLD, NEW = {"FB_GENERATION": "1"}, {"FB_GENERATION": "2"}
IDLE = CommandMemory()
RUNNING = CommandMemory(Process.RUNNING)
ASKED = RUNNING._replace(kill_at=KILL_AT)
PAUSED = CommandMemory(at_end=AtEnd.PAUSE)
RESTART = Order(OrderKind.RESTART, NEW, number=5)
KILLED = RUNNING._replace(forced_exit=ForcedExit(202, NOW + FAIL_SECONDS))


def follow(
    memory: CommandMemory, *events: Event, settings: CommandSettings = ON_CHANGE
) -> tuple[list[Action], CommandMemory]:
    """Take events; return their actions, without lines of the log."""
    actions: list[Action] = []
    for event in events:
        steps = decide(memory, event, settings, NOW)
        actions += [action for action in steps.actions if not isinstance(action, Say)]
        memory = steps.memory
    return actions, memory


def assert_steps(
    found: tuple[list[Action], CommandMemory], actions: list[Action], memory: CommandMemory
) -> None:
    # Actions without fields are equal tuples; their names are not.
    assert repr(found[0]) == repr(actions)
    assert found[1] == memory


ORDERS = {
    "the first start": (
        IDLE,
        Order(OrderKind.START, OLD),
        [StartCommand(OLD)],
        RUNNING,
    ),
    "pause": (
        RUNNING,
        Order(OrderKind.PAUSE),
        [TERM],
        ASKED._replace(at_end=AtEnd.PAUSE),
    ),
    "restart of a paused command": (
        PAUSED,
        Order(OrderKind.RESTART, NEW),
        [StartCommand(NEW)],
        RUNNING,
    ),
    "restart without a command": (IDLE, Order(OrderKind.RESTART, NEW), [], IDLE),
    "end": (RUNNING, Order(OrderKind.END), [TERM], ASKED),
    "end without a command": (IDLE, Order(OrderKind.END), [], IDLE),
    "kill": (RUNNING, Order(OrderKind.KILL), [KillSession()], RUNNING),
    "fail": (RUNNING, Order(OrderKind.FAIL, exit_code=202), [KillSession()], KILLED),
    "fail without a command": (IDLE, Order(OrderKind.FAIL, exit_code=202), [], IDLE),
    "leave while the command runs": (RUNNING, Order(OrderKind.LEAVE), [], RUNNING),
    "leave before the command": (IDLE, Order(OrderKind.LEAVE), [], IDLE),
    "leave while it is paused": (
        PAUSED,
        Order(OrderKind.LEAVE),
        [],
        PAUSED._replace(exit_code=TERMINATED),
    ),
    "stop": (RUNNING, Order(OrderKind.STOP), [TERM], ASKED._replace(at_end=AtEnd.ENDING)),
    "stop without a command": (
        PAUSED,
        Order(OrderKind.STOP),
        [],
        CommandMemory(at_end=AtEnd.ENDING, exit_code=TERMINATED),
    ),
    "exit": (IDLE, Order(OrderKind.EXIT, exit_code=210), [], IDLE._replace(exit_code=210)),
}


@pytest.mark.parametrize(("memory", "order", "actions", "after"), ORDERS.values(), ids=ORDERS)
def test_order_is_carried_out_and_finished(
    memory: CommandMemory, order: Order, actions: list[Action], after: CommandMemory
) -> None:
    found = follow(memory, order._replace(number=3))
    assert_steps(found, [*actions, Finish(3)], after)


def test_restart_is_finished_at_the_end_of_the_command() -> None:
    actions, memory = follow(RUNNING, RESTART)
    assert actions == [TERM]
    found = follow(memory, Ended(143))
    restarted: list[Action] = [Finish(5), KillSession(), KillLeftovers(), StartCommand(NEW)]
    assert_steps(found, restarted, RUNNING)


def test_newer_restart_replaces_the_one_before() -> None:
    newest = {"FB_GENERATION": "3"}
    actions, memory = follow(RUNNING, RESTART, RESTART._replace(env=newest, number=6))
    assert actions == [TERM, Finish(5)], "one SIGTERM"
    actions, _ = follow(memory, Ended(143))
    assert actions[0] == Finish(6)
    assert actions[-1] == StartCommand(newest)


END_STATES = {
    "without an order": (RUNNING, 3, 3),
    "while the program ends": (ASKED._replace(at_end=AtEnd.ENDING), 7, 7),
    "with a restart, while the program ends": (
        ASKED._replace(at_end=AtEnd.ENDING, restart=RESTART),
        7,
        7,
    ),
    "of a paused command": (ASKED._replace(at_end=AtEnd.PAUSE), 143, None),
    "with a restart": (ASKED._replace(restart=RESTART), 143, None),
    "that failed while a peer leaves": (RUNNING._replace(leaving=LeavingPod.PEER), 1, None),
    "that succeeded while a peer leaves": (RUNNING._replace(leaving=LeavingPod.PEER), 0, 0),
    "that failed while the own Pod leaves": (RUNNING._replace(leaving=LeavingPod.OWN), 1, 1),
    "of a killed command": (KILLED, 137, 202),
    "of a killed command that has succeeded": (KILLED, 0, 0),
    "of a killed command, while the program ends": (KILLED._replace(at_end=AtEnd.ENDING), 137, 202),
}


@pytest.mark.parametrize(("memory", "code", "exit_code"), END_STATES.values(), ids=END_STATES)
def test_end_of_the_command_ends_the_program(
    memory: CommandMemory, code: int, exit_code: int | None
) -> None:
    _, after = follow(memory, Ended(code))
    assert after.exit_code == exit_code
    assert after.kill_at is None


def test_end_of_a_killed_command_kills_what_it_left() -> None:
    actions, _ = follow(KILLED, Ended(137))
    assert repr(actions) == repr([KillLeftovers()])


def test_command_that_failed_while_a_peer_leaves_waits_for_a_restart() -> None:
    memory = RUNNING._replace(leaving=LeavingPod.PEER)
    actions, memory = follow(memory, Ended(1))
    assert repr(actions) == repr([KillSession(), KillLeftovers()])
    found = follow(memory, RESTART)
    assert_steps(found, [StartCommand(NEW), Finish(5)], RUNNING)


def test_end_is_reported_before_leftovers_are_gone_where_it_restarts_in_place() -> None:
    actions, memory = follow(RUNNING, Ended(9), settings=IN_PLACE)
    assert repr(actions) == repr([KillSession(), ReportEnd(9)])
    assert memory == CommandMemory(Process.LEFT)
    found = follow(memory, Gone(), settings=IN_PLACE)
    assert_steps(found, [ReportGone()], IDLE)


def test_end_is_reported_before_it_is_logged_where_it_restarts_in_place() -> None:
    """The reader of the log may be slow."""
    actions = decide(RUNNING, Ended(9), IN_PLACE, NOW).actions
    assert [type(action) for action in actions] == [KillSession, ReportEnd, Say]


def test_own_code_202_is_logged_as_a_hang() -> None:
    steps = decide(RUNNING, Ended(ExitCode.HUNG), ON_CHANGE, NOW)
    assert [action.level for action in steps.actions if isinstance(action, Say)] == ["warning"]


@pytest.mark.parametrize("number", [signal.SIGUSR1, signal.SIGHUP, signal.SIGINT, signal.SIGTERM])
def test_signal_is_forwarded_to_the_running_command(number: int) -> None:
    actions, memory = follow(RUNNING, Signalled(number))
    assert actions == [SendSignal(number)]
    assert memory.exit_code is None
    assert (memory.at_end is AtEnd.ENDING) == (number in {signal.SIGINT, signal.SIGTERM})


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGTERM, 143), (signal.SIGHUP, 129), (signal.SIGUSR1, None)]
)
@pytest.mark.parametrize("memory", [IDLE, PAUSED, CommandMemory(Process.LEFT)])
def test_signal_without_a_command_ends_the_program_if_it_would_end_one(
    memory: CommandMemory, number: int, code: int | None
) -> None:
    actions, after = follow(memory, Signalled(number))
    assert actions == []
    assert after.exit_code == code


ASKING: list[Event] = [
    Signalled(signal.SIGTERM),
    Order(OrderKind.STOP),
    Order(OrderKind.PAUSE),
    Order(OrderKind.END),
    RESTART,
]


@pytest.mark.parametrize("events", list(itertools.permutations(ASKING, 3)), ids=repr)
def test_command_gets_sigterm_once(events: tuple[Event, ...]) -> None:
    actions, _ = follow(RUNNING, *events)
    assert actions.count(TERM) == 1


@pytest.mark.parametrize(
    "first", [Signalled(signal.SIGTERM), Signalled(signal.SIGINT), Order(OrderKind.STOP)], ids=repr
)
@pytest.mark.parametrize(
    "memory", [RUNNING, ASKED._replace(restart=RESTART), ASKED._replace(at_end=AtEnd.PAUSE)]
)
def test_no_command_starts_after_the_program_was_asked_to_end(
    memory: CommandMemory, first: Event
) -> None:
    actions, memory = follow(memory, first, RESTART, Order(OrderKind.START, NEW), Ended(143))
    assert not [action for action in actions if isinstance(action, StartCommand)]
    assert memory.exit_code == 143


def test_command_is_killed_after_the_grace_period_once() -> None:
    found = follow(ASKED, GraceOver())
    assert_steps(found, [KillSession()], RUNNING)


def test_fail_ends_the_program_though_the_command_does_not_end() -> None:
    actions, memory = follow(KILLED, FailTimeOver())
    assert (actions, memory.exit_code) == ([], 202)


def test_second_fail_does_not_move_the_end_of_the_program() -> None:
    later = decide(KILLED, Order(OrderKind.FAIL, exit_code=202), ON_CHANGE, NOW + 5.0).memory
    assert later.forced_exit == KILLED.forced_exit


def test_command_that_cannot_be_started_ends_the_program() -> None:
    _, memory = follow(IDLE, Order(OrderKind.START), StartFailed(127))
    assert memory == IDLE._replace(exit_code=127)


WAITS = {
    "nothing to wait for": (RUNNING, None),
    "the grace period": (ASKED, GRACE_SECONDS),
    "a grace period that is over": (ASKED._replace(kill_at=NOW - 1.0), 0.0),
    "leftovers": (CommandMemory(Process.LEFT), 0.5),
    "a killed command": (KILLED, 0.5),
    "a killed command after SIGTERM": (KILLED._replace(kill_at=KILL_AT), 0.5),
}


@pytest.mark.parametrize(("memory", "seconds"), WAITS.values(), ids=WAITS)
def test_wait_ends_at_the_next_time_limit(memory: CommandMemory, seconds: float | None) -> None:
    assert compute_wait(memory, NOW) == seconds


def build_notification(
    event: str, *, added: int = 0, removed: tuple[PeerChange, ...] = ()
) -> Notify:
    peers = tuple(PeerChange("worker", 7 + index, "10.0.0.9") for index in range(added))
    return Notify(event, Diff(2, 1, peers, removed, ()))


OWN = ("worker", 0)
GREW = build_notification(CHANGED, added=1)
SAME = build_notification(CHANGED)
SUCCEEDED = build_notification(
    CHANGED, removed=(PeerChange("worker", 1, "10.0.0.3", "", "Succeeded"),)
)
REMOVED = build_notification(CHANGED, removed=(PeerChange(*OWN, "10.0.0.2"),))
LEAVES = RUNNING._replace(leaving=LeavingPod.OWN)
PEER_LEAVES = RUNNING._replace(leaving=LeavingPod.PEER)
NOTIFICATIONS = {
    "the gang grows": (RUNNING, GREW, OrderKind.RESTART, RUNNING),
    "the gang grows while a peer leaves": (PEER_LEAVES, GREW, OrderKind.RESTART, PEER_LEAVES),
    "the members are the same": (PEER_LEAVES, SAME, None, RUNNING),
    "a member has succeeded": (PEER_LEAVES, SUCCEEDED, None, RUNNING),
    "a member has succeeded, and the command is paused": (
        PAUSED,
        SUCCEEDED,
        OrderKind.RESTART,
        PAUSED,
    ),
    "a peer has failed": (RUNNING, build_notification(FAILED), OrderKind.PAUSE, RUNNING),
    "a peer leaves": (RUNNING, build_notification(PEER_LEAVING), None, PEER_LEAVES),
    "the own Pod leaves": (RUNNING, build_notification(LEAVING), OrderKind.LEAVE, LEAVES),
    "the own Pod is removed": (RUNNING, REMOVED, OrderKind.LEAVE, LEAVES),
    "a peer has failed after the own Pod left": (LEAVES, build_notification(FAILED), None, LEAVES),
    "a peer leaves after the own Pod": (LEAVES, build_notification(PEER_LEAVING), None, LEAVES),
    "the gang grows after the own Pod left": (LEAVES, GREW, None, LEAVES),
    "the attempt completes": (RUNNING, build_notification(COMPLETING), None, RUNNING),
}


@pytest.mark.parametrize(
    ("memory", "notification", "kind", "after"), NOTIFICATIONS.values(), ids=NOTIFICATIONS
)
def test_notification_leads_to_an_order(
    memory: CommandMemory, notification: Notify, kind: OrderKind | None, after: CommandMemory
) -> None:
    assert choose_order(memory, notification, OWN) == (kind, after)

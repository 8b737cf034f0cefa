"""The agents' part of a restart in place, alone and with a controller: docs/design/recovery.md.

``Model`` has a gang of agents, a store with what the controller persists, and a network that loses,
repeats and delays. Pods fail, too, and their successors come later. Each failure has one outcome;
no process starts beside one of another epoch.
"""

from datetime import UTC, datetime, timedelta

from hypothesis import given, settings
from hypothesis import strategies as st

from controller.core.recovery.epochs import EpochState, Report, decide_epoch
from framework.api.naming import TaskKey
from framework.api.recovery import InPlaceSpec
from rendezvous.core.recovery import (
    NO_MEMBER,
    REFUSED,
    UNANSWERED,
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
    Target,
    Tick,
    WriteReport,
    step,
)

MEMBERS = 3
START = datetime(2026, 1, 1, tzinfo=UTC)
RUNNING = RecoveryMemory(Phase.RUNNING, newest=Target(7, 4), is_ready=True, running=Target(7, 4))


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
    actions, memory = step(memory, RosterSeen(Target(7, 5)), 11.0)
    assert actions == (), "processes are left"
    actions, memory = step(memory, ProcessGone(), 11.0)
    assert actions == (Gather(Target(7, 5)),)
    assert step(memory, Released(Target(7, 4)), 12.0).actions == ()
    actions, memory = step(memory, Released(Target(7, 5)), 12.0)
    assert (actions, memory.phase) == ((StartProcess(5),), Phase.RUNNING)


def test_survivor_ends_its_process_before_it_gathers() -> None:
    actions, memory = step(RUNNING, RosterSeen(Target(7, 5)), 10.0)
    assert actions == (EndProcess(),)
    assert step(memory, Released(Target(7, 5)), 10.0).actions == ()
    assert step(memory, RosterSeen(Target(8, 5)), 10.0).actions == ()
    _, memory = step(memory, RosterSeen(Target(8, 5)), 10.0)
    actions, memory = step(memory, ProcessEnded(143), 10.0)
    assert actions == (), "processes are left"
    assert step(memory, ProcessGone(), 10.0).actions == (Gather(Target(8, 5)),)


def test_failed_peer_ends_the_process_until_the_next_complete_generation() -> None:
    incomplete = RosterSeen(Target(8, 4), is_ready=False, has_failed_peer=True)
    actions, memory = follow(RUNNING, incomplete)
    assert actions == [EndProcess()]
    actions, memory = follow(memory, incomplete, ProcessEnded(143), ProcessGone(), incomplete)
    assert actions == []
    assert step(memory, RosterSeen(Target(9, 4)), 11.0).actions == (Gather(Target(9, 4)),)


def test_failed_pod_of_another_generation_is_not_gathered_for_again() -> None:
    """Others do not come to a start barrier that has released this agent."""
    same = RosterSeen(Target(7, 4), has_failed_peer=True)
    assert step(RUNNING, same, 10.0).actions == ()
    incomplete = RosterSeen(Target(8, 4), is_ready=False)
    assert step(RUNNING, incomplete, 10.0).actions == (), "a Pod left, and none failed"


WAITING = RosterSeen(Target(8, 4), is_ready=False)
LEAVING = RosterSeen(Target(8, 4), is_ready=False, has_leaving_peer=True)
UNSHOWN = RosterSeen(Target(9, 4), is_ready=False, is_complete=True)


def test_process_that_fails_while_the_gang_waits_for_another_pod_is_reported() -> None:
    """For example while a Pod of a scale-up is Pending."""
    actions, memory = follow(RUNNING, WAITING, ProcessEnded(137), ProcessGone())
    assert actions == [WriteReport(4, 137)]
    refused = WAITING._replace(is_refused=True)
    assert step(memory, refused, 11.0).actions == (Exit(137, REFUSED),)
    assert step(memory, Tick(), 70.0).actions == (Exit(137, UNANSWERED),)
    _, memory = step(memory, RosterSeen(Target(8, 5), is_ready=False), 11.0)
    assert step(memory, RosterSeen(Target(9, 5)), 12.0).actions == (Gather(Target(9, 5)),)


def test_process_that_fails_while_a_peer_leaves_starts_again_without_a_report() -> None:
    """It may have lost its connection to the Pod that leaves."""
    actions, memory = follow(RUNNING, LEAVING, ProcessEnded(1), ProcessGone(), Tick())
    assert (actions, memory.phase) == ([], Phase.HELD)
    left = LEAVING._replace(has_leaving_peer=False, has_failed_peer=True)
    for seen in (LEAVING._replace(target=Target(9, 4)), left):
        done, later = follow(memory, seen, Tick(), RosterSeen(Target(10, 4)))
        assert done == [Gather(Target(10, 4))]
    assert step(memory, RosterSeen(Target(9, 4)), 11.0).actions == (Gather(Target(9, 4)),)
    done, later = follow(memory, RosterSeen(Target(8, 5), is_ready=False), Tick())
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
        assert step(memory, WAITING._replace(target=Target(10, 4)), 11.0).actions == (
            WriteReport(4, 1),
        )
        assert step(memory, RosterSeen(Target(9, 4)), 11.0).actions == (Gather(Target(9, 4)),)
    actions, _ = follow(RUNNING, UNSHOWN, ProcessEnded(1))
    assert actions == [WriteReport(4, 1)], "no peer has left"


def test_pod_that_leaves_ends_also_if_its_report_was_held_back() -> None:
    _, memory = follow(RUNNING, LEAVING, ProcessEnded(1), ProcessGone())
    own = LEAVING._replace(target=Target(9, 4), is_member=False)
    assert step(memory, own, 11.0).actions == (Exit(1, NO_MEMBER),)


def test_epoch_of_an_incomplete_generation_answers_and_is_gathered_for_later() -> None:
    reported = step(RUNNING, ProcessEnded(137), 10.0).memory
    incomplete = RosterSeen(Target(8, 5), is_ready=False, has_failed_peer=True)
    actions, memory = follow(reported, ProcessGone(), incomplete)
    assert actions == []
    assert step(memory, Tick(), 999.0).actions == (), "it is answered"
    actions, memory = follow(memory, Released(Target(7, 4)), RosterSeen(Target(9, 5)))
    assert actions == [Gather(Target(9, 5))]
    refused = incomplete._replace(is_refused=True)
    assert step(reported, refused, 10.0).actions == (Exit(137, REFUSED),)
    assert step(RUNNING, incomplete, 10.0).actions == (EndProcess(),)


def test_agent_leaves_the_start_barrier_of_a_generation_that_is_over() -> None:
    actions, memory = follow(RUNNING, RosterSeen(Target(7, 5)), ProcessEnded(143), ProcessGone())
    assert actions == [EndProcess(), Gather(Target(7, 5))]
    _, memory = step(memory, RosterSeen(Target(8, 5), is_ready=False), 10.0)
    assert step(memory, Released(Target(7, 5)), 10.0).actions == ()
    assert step(memory, RosterSeen(Target(8, 5)), 10.0).actions == (Gather(Target(8, 5)),)


def test_pod_that_leaves_ends_and_starts_no_process() -> None:
    leaving = RosterSeen(Target(8, 5), is_member=False)
    actions, memory = step(RUNNING, leaving, 10.0)
    assert actions == ()
    assert step(memory, ProcessEnded(1), 10.0).actions == (Exit(1, NO_MEMBER),)
    assert step(memory, ProcessEnded(0), 10.0).actions == (Exit(0),)
    reported = step(RUNNING, ProcessEnded(137), 10.0).memory
    assert step(reported, leaving, 10.0).actions == (Exit(137, NO_MEMBER),)
    for events in (
        (RosterSeen(Target(7, 5)), leaving, ProcessEnded(143), ProcessGone()),
        (RosterSeen(Target(7, 5)), ProcessEnded(143), ProcessGone(), leaving),
    ):
        _, memory = follow(RUNNING, *events)
        ends = (Released(Target(7, 5)), Released(Target(8, 5)), Tick())
        assert follow(memory, *ends)[0] == []


def test_hung_process_is_killed_and_reported_with_the_code_of_a_hang() -> None:
    hung = ProcessHung(Target(7, 4), 202)
    actions, memory = step(RUNNING, hung, 10.0)
    assert actions == (KillProcess(),)
    assert step(memory, hung, 10.0).actions == (), "once"
    actions, reported = step(memory, ProcessEnded(137), 10.0)
    assert actions == (WriteReport(4, 202),)
    answered = follow(reported, RosterSeen(Target(7, 5)), ProcessGone())
    assert answered[0] == [Gather(Target(7, 5))]
    assert step(reported, Tick(), 70.0).actions == (Exit(202, UNANSWERED),)


def test_hung_process_that_does_not_end_is_reported_after_10_seconds() -> None:
    _, memory = step(RUNNING, ProcessHung(Target(7, 4), 202), 10.0)
    assert step(memory, Tick(), 19.0) == ((), memory)
    actions, memory = step(memory, Tick(), 20.0)
    assert actions == (WriteReport(4, 202),)
    waiting, memory = follow(memory, RosterSeen(Target(7, 5)))
    assert waiting == [], "the next epoch waits until the process is gone"
    assert follow(memory, ProcessEnded(137), ProcessGone())[0] == [Gather(Target(7, 5))]


def test_hung_process_is_not_reported_when_another_one_has_failed_meanwhile() -> None:
    _, memory = step(RUNNING, ProcessHung(Target(7, 4), 202), 10.0)
    actions, memory = step(memory, RosterSeen(Target(7, 5)), 10.0)
    assert actions == (), "it ends already"
    assert follow(memory, ProcessEnded(137), ProcessGone())[0] == [Gather(Target(7, 5))]


def test_hung_process_is_reported_also_while_the_gang_waits_for_another_pod() -> None:
    """For example while a Pod of a scale-up is Pending: its peers may hang until they end."""
    hung = ProcessHung(Target(7, 4), 202)
    for events in ((WAITING, hung), (hung, WAITING)):
        actions, memory = follow(RUNNING, *events, ProcessEnded(137), ProcessGone())
        assert actions == [KillProcess(), WriteReport(4, 202)]
        refused = WAITING._replace(is_refused=True)
        assert step(memory, refused, 11.0).actions == (Exit(202, REFUSED),)
        _, memory = step(memory, RosterSeen(Target(8, 5), is_ready=False), 11.0)
        assert step(memory, RosterSeen(Target(9, 5)), 12.0).actions == (Gather(Target(9, 5)),)


def test_hung_process_starts_again_without_a_report_if_a_peer_leaves_or_its_pod_fails() -> None:
    hung = ProcessHung(Target(7, 4), 202)
    failed = WAITING._replace(has_failed_peer=True)
    for seen in (LEAVING, failed):
        actions, memory = follow(RUNNING, hung, seen, ProcessEnded(137), ProcessGone(), Tick())
        assert actions == [KillProcess()]
        assert step(memory, RosterSeen(Target(9, 4)), 11.0).actions == (Gather(Target(9, 4)),)


def test_hung_process_of_a_pod_that_leaves_ends_the_pod() -> None:
    leaving = RosterSeen(Target(8, 4), is_member=False)
    hung = ProcessHung(Target(7, 4), 202)
    assert follow(RUNNING, leaving, hung)[0] == [], "its peers do not wait for it"
    actions, _ = follow(RUNNING, hung, leaving, ProcessEnded(137))
    assert actions == [KillProcess(), Exit(202, NO_MEMBER)]


def test_hang_of_another_run_or_of_no_process_is_ignored() -> None:
    assert step(RUNNING, ProcessHung(Target(7, 3), 202), 10.0) == ((), RUNNING)
    for phase in (Phase.GATHERING, Phase.REPORTED, Phase.STOPPING, Phase.LEFT):
        memory = RUNNING._replace(phase=phase, reported_at=10.0)
        assert step(memory, ProcessHung(Target(7, 4), 202), 10.0) == ((), memory)


def test_older_target_is_ignored() -> None:
    for target in (Target(7, 4), Target(6, 5), Target(8, 3)):
        assert step(RUNNING, RosterSeen(target), 10.0) == ((), RUNNING)


def test_agent_leaves_with_the_code_of_its_process() -> None:
    assert step(RUNNING, ProcessEnded(0), 10.0).actions == (Exit(0),)
    reported = step(RUNNING, ProcessEnded(137), 10.0).memory
    refused = step(reported, RosterSeen(Target(7, 5), is_refused=True), 11.0)
    assert refused.actions == (Exit(137, REFUSED),)
    assert step(reported, Tick(), 70.0).actions == (Exit(137, UNANSWERED),)
    for event in (Tick(), RosterSeen(Target(9, 9)), Released(Target(7, 5)), ProcessEnded(1)):
        assert step(refused.memory, event, 99.0) == ((), refused.memory)


class Agent:
    """An agent and its process."""

    def __init__(self, pod: int) -> None:
        self.pod = pod
        self.memory = RecoveryMemory()
        self.report: tuple[int, int] | None = None
        self.process: int | None = None
        self.is_ending = False
        self.has_leftovers = False
        self.failed: int | None = None
        """Epoch of a failure without an outcome."""
        self.outcomes: list[tuple[int, str]] = []


class Model:
    """Agents, and the controller with its store."""

    def __init__(self, max_restarts: int) -> None:
        self.policies = {"worker": InPlaceSpec(max_restarts, 3600)}
        self.now = 0.0
        self.pods = 0
        self.generation = 1
        self.stored = EpochState()
        self.awaited = ""
        """Why the gang waits although no member failed: "", "new Pod" or "leaving"."""
        self.published = (Target(1, 0), frozenset[str](), frozenset[int](), "")
        self.lost: frozenset[int] = frozenset()
        """Members of which the Pod failed, and that have no successor."""
        self.agents = [self.create() for _ in range(MEMBERS)]
        self.seen_reports: list[Report] = []
        self.failed_epochs: set[int] = set()
        self.released: list[Target] = []

    def create(self) -> Agent:
        self.pods += 1
        return Agent(self.pods)

    def send(self, agent: Agent, event: Event) -> None:
        before = agent.memory
        actions, agent.memory = step(before, event, self.now)
        for action in actions:
            if isinstance(action, WriteReport):
                agent.report = (action.epoch, action.code)
                # SIGKILL does not end it, or the report was held back.
                if agent.process is not None or before.phase is Phase.HELD:
                    self.failed_epochs.add(action.epoch)
                    agent.failed = action.epoch
            elif isinstance(action, EndProcess | KillProcess):
                agent.is_ending = True
            elif isinstance(action, StartProcess):
                self.check_start(agent, action.epoch)
            elif isinstance(action, Exit):
                if before.phase is Phase.HELD:
                    agent.failed = before.running.epoch
                self.leave(agent)

    def check_start(self, agent: Agent, epoch: int) -> None:
        assert agent.process is None
        assert not agent.has_leftovers
        running = {other.process for other in self.agents} - {None}
        assert running <= {epoch}, "a process of another epoch runs"
        assert epoch <= self.stored.epoch, "the epoch is not stored"
        assert str(agent.pod) not in self.stored.refused, "its report is refused"
        if agent.failed is not None:
            assert epoch > agent.failed
            agent.outcomes.append((agent.failed, "restart"))
            agent.failed = None
        agent.process = epoch

    def leave(self, agent: Agent) -> None:
        """The Pod ends: a new generation without it."""
        assert agent.failed is not None, "a Pod ends only because of its own process"
        outcomes = [*agent.outcomes, (agent.failed, "end")]
        assert len({epoch for epoch, _ in outcomes}) == len(outcomes), "two outcomes"
        self.lose(self.agents.index(agent))

    # --- What may happen

    def lose(self, number: int) -> None:
        """A Pod fails, whatever its process does."""
        self.agents[number] = self.create()
        self.lost |= {number}
        self.generation += 1

    def replace(self, number: int) -> None:
        """The next Pod of a Task has an address: a new generation."""
        if number in self.lost:
            self.lost -= {number}
            self.generation += 1

    def expect(self, number: int) -> None:
        """Another Pod leaves, or is new and Pending; or the gang is whole again."""
        self.awaited = ("", "new Pod", "leaving")[number]
        self.generation += 1

    def fail(self, number: int) -> None:
        agent = self.agents[number]
        if agent.process is not None and not agent.is_ending:
            memory = agent.memory
            is_held = memory.newest > memory.running and memory.has_leaving_peer
            if not (is_held and memory.is_member):
                self.failed_epochs.add(agent.process)
                agent.failed = agent.process
            agent.process = None
            agent.has_leftovers = True
            self.send(agent, ProcessEnded(137))

    def hang(self, number: int) -> None:
        """The verdict of rank 0 arrives, in time or late."""
        targets = [agent.memory.running for agent in self.agents]
        self.send(self.agents[number], ProcessHung(targets[0], 202))

    def end(self, number: int) -> None:
        agent = self.agents[number]
        if agent.is_ending:
            memory = agent.memory
            is_held = memory.newest > memory.running and memory.has_leaving_peer
            if memory.phase is Phase.HUNG and not (is_held and memory.is_member):
                assert agent.process is not None
                self.failed_epochs.add(agent.process)
                agent.failed = agent.process
            agent.is_ending, agent.process, agent.has_leftovers = False, None, True
            self.send(agent, ProcessEnded(143))

    def clear(self, number: int) -> None:
        """All that a process left is gone."""
        agent = self.agents[number]
        if agent.has_leftovers:
            agent.has_leftovers = False
            self.send(agent, ProcessGone())

    def observe(self, number: int) -> None:
        """A watch event: the controller may keep an old one."""
        agent = self.agents[number]
        self.seen_reports = [r for r in self.seen_reports if r.key.index != number]
        if agent.report is not None:
            self.seen_reports.append(
                Report(TaskKey("worker", number), str(agent.pod), *agent.report)
            )

    def decide(self, number: int) -> None:
        """Decide; with 0 the controller is killed before it has stored the status."""
        live = {str(agent.pod) for agent in self.agents}
        moment = START + timedelta(seconds=self.now)
        decided = decide_epoch(self.stored, self.seen_reports, self.policies, live, moment)
        if decided.epoch != self.stored.epoch:
            assert decided.epoch == self.stored.epoch + 1
            assert self.stored.epoch in self.failed_epochs, "a restart is repeated"
        if number:
            self.stored = decided

    def publish(self, _number: int = 0) -> None:
        target = Target(self.generation, self.stored.epoch)
        self.published = (target, self.stored.refused, self.lost, self.awaited)

    def show(self, number: int) -> None:
        if number in self.lost:
            return
        agent, (target, refused, lost, awaited) = self.agents[number], self.published
        seen = RosterSeen(
            target,
            is_refused=str(agent.pod) in refused,
            is_ready=not lost and not awaited,
            is_member=number not in lost,
            has_failed_peer=bool(lost),
            has_leaving_peer=awaited == "leaving",
        )
        self.send(agent, seen)

    def release(self, number: int) -> None:
        """The start barrier: it may reach one member before the others, or more than once."""
        target = self.agents[number].memory.newest
        has_come = all(
            agent.memory.newest == target
            and (agent.memory.phase is Phase.GATHERING or agent.memory.running == target)
            for agent in self.agents
        )
        if target.generation and has_come:
            self.released.append(target)
            self.send(self.agents[number], Released(target))

    def repeat(self, number: int) -> None:
        """An answer of a start barrier arrives late."""
        if self.released:
            self.send(self.agents[number], Released(self.released[-1 - number :][0]))

    def wait(self, number: int) -> None:
        self.now += 10.0 * number
        for agent in list(self.agents):
            self.send(agent, Tick())

    def answer(self, _number: int) -> None:
        """A round of the controller without faults."""
        for number in range(MEMBERS):
            self.observe(number)
        self.decide(1)
        self.publish()

    def settle(self, _number: int = 0) -> None:
        """Without faults, the gang runs again."""
        self.expect(0)
        for _ in range(12):
            self.answer(0)
            for act in (self.show, self.end, self.clear, self.replace, self.release):
                for number in range(MEMBERS):
                    act(number)


MOVES = (
    "fail",
    "hang",
    "end",
    "clear",
    "lose",
    "replace",
    "expect",
    "observe",
    "decide",
    "publish",
    "answer",
    "show",
    "release",
    "repeat",
    "wait",
    "settle",
)


@settings(max_examples=300)
@given(
    st.integers(1, 2),
    st.lists(st.tuples(st.sampled_from(MOVES), st.integers(0, MEMBERS - 1)), max_size=80),
)
def test_no_failure_is_lost_or_has_two_restarts(
    max_restarts: int, moves: list[tuple[str, int]]
) -> None:
    model = Model(max_restarts)
    model.settle()
    assert {agent.process for agent in model.agents} == {0}
    for name, number in moves:
        getattr(model, name)(number)
    model.settle()
    assert {agent.process for agent in model.agents} == {model.stored.epoch}
    assert all(agent.failed is None for agent in model.agents), "a failure is lost"


def test_process_that_succeeds_before_it_is_killed_did_not_hang() -> None:
    target = Target(1, 0)
    memory = RecoveryMemory(phase=Phase.RUNNING, newest=target, running=target, is_ready=True)
    _, memory = step(memory, ProcessHung(target, 202), 0.0)
    assert step(memory, ProcessEnded(0), 0.1).actions == (Exit(0),)
    assert step(memory, ProcessEnded(137), 0.1).actions == (WriteReport(0, 202),)

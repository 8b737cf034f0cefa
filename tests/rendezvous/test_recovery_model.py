"""A gang of agents with restart in place and their controller: docs/design/recovery.md.

``Model`` has a gang of agents, a store with what the controller persists, and a network that loses,
repeats and delays. Pods fail, too, and their successors come later. Each failure has one outcome;
no process starts beside one of another epoch.
"""

from datetime import UTC, datetime, timedelta

from hypothesis import given, settings
from hypothesis import strategies as st

from controller.core.recovery.epochs import EpochState, ProcessReport, decide_epoch
from framework.api.naming import TaskKey
from framework.api.recovery import InPlaceSpec
from rendezvous.core.recovery import (
    BarrierKey,
    EndProcess,
    Event,
    Exit,
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

MEMBERS = 3
START = datetime(2026, 1, 1, tzinfo=UTC)


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
        self.published = (BarrierKey(1, 0), frozenset[str](), frozenset[int](), "")
        self.lost: frozenset[int] = frozenset()
        """Members of which the Pod failed, and that have no successor."""
        self.agents = [self.create() for _ in range(MEMBERS)]
        self.seen_reports: list[ProcessReport] = []
        self.failed_epochs: set[int] = set()
        self.released: list[BarrierKey] = []

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

    # --- Events

    def lose(self, number: int) -> None:
        """A Pod fails, in any state of its process."""
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
                ProcessReport(TaskKey("worker", number), str(agent.pod), *agent.report)
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
        target = BarrierKey(self.generation, self.stored.epoch)
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

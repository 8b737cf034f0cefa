"""Parts of the decision that time or probes change; test_agent.py has the rest, by an agent."""

from typing import Any

import pytest

from framework.agent.gang import SOURCE_CONFIGMAP, Identity, SelectedRoster
from framework.agent.probes import Probe
from framework.api.roster import Roster, RosterRecovery
from rendezvous.core.decision import decide
from rendezvous.core.generations import compute_poll_seconds
from rendezvous.core.newcomers import list_probes
from rendezvous.core.notifying.notification import Notified
from rendezvous.core.plan import (
    Acknowledge,
    Context,
    GenerationMemory,
    Log,
    Memory,
    NotificationMemory,
    Observation,
    Plan,
    Warn,
)
from rendezvous.core.selection import Generation, NoRoster
from rendezvous.settings.options import Options
from rendezvous.settings.values import RolePort
from tests.rendezvous.gangs import INSTANCE, build_gang, build_role, build_roster, get_uid

OWN = Identity("worker", 0, get_uid("worker", 0), INSTANCE)
CONTEXT = Context(OWN)
CAREFUL = Context(OWN, Options(reach={"": RolePort(2222)}, reach_seconds=30.0))


def gang(count: int, generation: int, **changes: Any) -> Roster:
    return build_gang(count)._replace(generation=generation, **changes)


# An agent that has shown a generation, and notified of it.
SHOWN = Memory(
    GenerationMemory(Generation(gang(2, 1), SOURCE_CONFIGMAP, 1), is_applied=True),
    NotificationMemory(Notified(1), gang(2, 1)),
)


def look(
    seen: Roster | None,
    memory: Memory = SHOWN,
    *,
    context: Context = CONTEXT,
    reached: frozenset[Probe] = frozenset(),
    now: float = 100.0,
) -> Plan:
    current = memory.generations.current
    candidate = NoRoster("unreachable") if seen is None else SelectedRoster(seen, SOURCE_CONFIGMAP)
    observation = Observation(candidate, current.number if current else 0, current, reached)
    return decide(observation, memory, context, now)


def test_decide_holds_new_members_until_they_answer_or_for_so_long() -> None:
    probes = list_probes(gang(2, 1), gang(4, 2), OWN, CAREFUL.options)
    assert [(p.number, p.port) for p in probes] == [(2, 2222), (3, 2222)]
    plan = look(gang(4, 2), context=CAREFUL)
    assert (plan.show, plan.probes) == (None, probes)
    assert [type(action) for action in plan.then.actions] == [Log]
    memory = plan.then.memory
    assert (memory.generations.waiting_since, memory.generations.is_waiting) == (100.0, True)
    one = look(gang(4, 2), memory, context=CAREFUL, reached=frozenset(probes[:1]), now=129.9)
    (report,) = one.then.actions
    assert isinstance(report, Log)
    assert "1 new members do not answer yet: worker/3 (10.0.0.5:2222)" in report.text
    answered = look(gang(4, 2), memory, context=CAREFUL, reached=frozenset(probes))
    late = look(gang(4, 2), memory, context=CAREFUL, now=130.0)
    for plan in (answered, late):
        assert plan.show is not None
        assert plan.then.memory.generations.waiting_since is None
    assert look(gang(2, 2), memory, context=CAREFUL).then.memory.generations.waiting_since is None


def test_decide_never_holds_back_a_generation_that_takes_members_away() -> None:
    swapped = build_roster(build_role("worker", [0, 2]), generation=2)
    assert look(swapped, context=CAREFUL).show is not None


@pytest.mark.parametrize(
    ("ports", "expected"),
    [
        ({}, []),
        ({"ps": RolePort(1)}, [("ps", 0, 1)]),
        ({"": RolePort(7, per_index=True)}, [("ps", 0, 7), ("worker", 2, 9)]),
        ({"": RolePort(65534, per_index=True)}, [("ps", 0, 65534)]),
    ],
)
def test_list_probes_asks_new_members_on_the_port_of_their_role(
    ports: dict[str, RolePort], expected: list[tuple[str, int, int]]
) -> None:
    after = build_roster(build_role("ps", 1), build_role("worker", 3))
    probes = list_probes(gang(2, 1), after, OWN, Options(reach=ports))
    assert [(p.role, p.number, p.port) for p in probes] == expected
    moved = build_roster(build_role("worker", 2, first=9))
    assert [p.number for p in list_probes(gang(2, 1), moved, OWN, CAREFUL.options)] == [1], (
        "not the own one"
    )


def test_decide_reports_a_wait_when_it_changes_and_before_the_first_generation_again() -> None:
    def report(memory: Memory, now: float) -> tuple[list[str], Memory]:
        steps = look(None, memory, now=now).then
        return [action.text for action in steps.actions if isinstance(action, Log)], steps.memory

    lines, memory = report(Memory(), 0.0)
    assert lines == ["waiting: unreachable"]
    assert report(memory, 9.9)[0] == []
    assert report(memory, 10.0)[0] == lines
    lines, memory = report(SHOWN, 0.0)
    assert lines == ["waiting: unreachable; the last complete list of members is kept"]
    assert report(memory, 60.0)[0] == []


def test_decide_warns_of_roles_that_the_gang_lacks() -> None:
    context = CONTEXT._replace(named_roles={"FB_PORTS": ["worker", "wurker"]})
    (warning,) = look(gang(2, 1), context=context).then.actions
    assert warning == Warn("FB_PORTS: the gang has no role 'wurker'; it has worker")


def test_wait_for_new_members_is_for_one_generation_though_it_cannot_be_rendered() -> None:
    held = look(gang(3, 2), context=CAREFUL, now=100.0)
    reached = frozenset(held.probes)
    refused = look(gang(3, 2), held.then.memory, context=CAREFUL, reached=reached, now=105.0)
    assert refused.show is not None
    next_one = refused.otherwise.memory
    plan = look(gang(4, 3), next_one, context=CAREFUL, reached=reached, now=200.0)
    assert plan.show is None
    assert plan.probes


def test_compute_poll_seconds_ends_when_time_alone_may_change_the_decision() -> None:
    assert compute_poll_seconds(Memory(), 1.0, 100.0) == 1.0
    assert compute_poll_seconds(Memory(GenerationMemory(next_show_at=100.25)), 1.0, 100.0) == 0.25
    assert compute_poll_seconds(Memory(GenerationMemory(next_show_at=103.0)), 1.0, 100.0) == 1.0
    assert compute_poll_seconds(Memory(GenerationMemory(is_waiting=True)), 1.0, 100.0) == 0.2
    assert compute_poll_seconds(Memory(GenerationMemory(is_waiting=True)), 0.1, 100.0) == 0.1


def test_decide_holds_new_members_of_a_role_until_all_its_pods_run() -> None:
    context = Context(OWN, Options(reach_running=("worker",), reach_seconds=30.0))
    starting = build_roster(build_role("worker", 3)._replace(running=False), generation=2)
    running = build_roster(build_role("worker", 3), generation=3)
    held = look(starting, context=context)
    assert (held.show, held.probes, held.then.memory.generations.is_waiting) == (None, (), True)
    (report,) = held.then.actions
    assert isinstance(report, Log)
    assert "not all Pods of these roles with new members run yet: worker" in report.text
    assert look(running, held.then.memory, context=context).show is not None
    assert look(starting, held.then.memory, context=context, now=130.0).show is not None
    # Members that are known do not wait, nor does a generation that takes members away.
    restarting = build_roster(build_role("worker", 2)._replace(running=False), generation=2)
    swapped = build_roster(build_role("worker", [0, 2])._replace(running=False), generation=2)
    assert look(restarting, context=context).then.memory.generations.waiting_since is None
    assert look(swapped, context=context).show is not None


def test_epoch_alone_is_not_acknowledged_so_that_it_takes_no_write_per_member() -> None:
    def is_acknowledged(seen: Roster, memory: Memory) -> bool:
        return any(isinstance(action, Acknowledge) for action in look(seen, memory).then.actions)

    recovery = RosterRecovery(epoch=5, since=1, roles=("worker",))
    epoch = gang(2, 2, recovery=recovery)
    assert look(epoch).show is not None
    assert not is_acknowledged(epoch, SHOWN)
    started = SHOWN._replace(generations=SHOWN.generations._replace(is_applied=False))
    assert is_acknowledged(epoch, started), "an agent that starts"
    assert is_acknowledged(gang(1, 3, recovery=recovery), SHOWN), "a generation was missed"

"""BARRIER_REQUIRE: its levels, and the circles that are refused."""

from typing import Any

import pytest

from barrier.config import ConfigError, load_config
from barrier.decision import Decision, Fail, Observation, Pass, Wait, decide
from barrier.requirements import (
    Level,
    RequireError,
    Requirement,
    find_cycle,
    find_own_cycle,
    find_unmet,
    parse_requirements,
)
from framework.agent.dns_source import DEFAULT_NAME
from framework.agent.exitcodes import ExitCode
from framework.agent.framework_roster import build_view
from framework.agent.gang import SOURCE_CONFIGMAP
from framework.agent.probes import Probe
from framework.api.roster import CompletedTask, Roster
from tests.barrier.api_server import make_framework, make_member, make_role, make_roster, make_task
from tests.barrier.test_decision import ENV, make_configmap, observe

PS = make_role("ps", make_member(0, "10.0.0.9"), make_member(1, "fd00::9"))
WORKER = make_roster().roles[0]
GANG = make_roster(roles=(PS, WORKER))
TCP = (Probe("ps", 0, "10.0.0.9", 2222, ""), Probe("ps", 1, "fd00::9", 2222, ""))


def test_parse_requirements_all_levels() -> None:
    assert parse_requirements("ps=tcp:2222, worker=running,chief=dns,ps=dns,evaluator=address") == (
        Requirement("ps", Level.TCP, 2222),
        Requirement("worker", Level.RUNNING),
        Requirement("chief", Level.DNS),
        Requirement("ps", Level.DNS),
        Requirement("evaluator", Level.ADDRESS),
    )
    assert parse_requirements("") == ()


@pytest.mark.parametrize(
    "text",
    [
        *("ps", "ps=", "ps=ready", "ps=tcp", "ps=tcp:", "ps=tcp:0", "ps=tcp:65536", "ps=tcp:²"),
        *("ps=running:1", "Ps=dns", "ps=dns,ps=dns", "ps=dns,"),
    ],
)
def test_parse_requirements_other_text_is_refused(text: str) -> None:
    with pytest.raises(RequireError):
        parse_requirements(text)


@pytest.mark.parametrize("level", ["running", "all-running", "tcp:1"])
def test_own_role_after_its_start_is_refused(level: str) -> None:
    with pytest.raises(ConfigError, match="waits for itself") as caught:
        load_config({**ENV, "BARRIER_REQUIRE": f"worker={level}"})
    assert "worker=dns" in str(caught.value), "the remedy is named"


@pytest.mark.parametrize("level", ["dns", "address"])
def test_own_role_before_its_start_is_no_circle(level: str) -> None:
    assert load_config({**ENV, "BARRIER_REQUIRE": f"worker={level}"}).requirements
    assert not find_own_cycle(parse_requirements(f"worker={level}"), "worker")


def make_waiting_framework(**requires: str) -> dict[str, Any]:
    framework = make_framework()
    role = framework["spec"]["taskRoles"][0]
    framework["spec"]["taskRoles"] = []
    for name, text in requires.items():
        container = {"name": "barrier", "env": [{"name": "BARRIER_REQUIRE", "value": text}]}
        pod = {"spec": {"initContainers": [{"name": "first"}, container], "containers": []}}
        task = {**role["task"], "pod": pod}
        framework["spec"]["taskRoles"].append({**role, "name": name, "task": task})
    return framework


CYCLES = {
    "mutual": ({"ps": "worker=running"}, "ps waits for worker=running"),
    "three": ({"ps": "chief=tcp:1", "chief": "worker=tcp:2"}, "chief waits for worker=tcp:2"),
    "address-is-no-wait": ({"ps": "worker=address"}, ""),
    "dns-is-no-wait": ({"ps": "worker=dns"}, ""),
    "not-through-this-role": ({"ps": "chief=running", "chief": "ps=running"}, ""),
    "unreadable": ({"ps": "nonsense"}, ""),
    "no-others": ({}, ""),
}


@pytest.mark.parametrize(("requires", "expected"), CYCLES.values(), ids=CYCLES)
def test_find_cycle_through_the_other_roles(requires: dict[str, str], expected: str) -> None:
    framework = make_waiting_framework(**requires)
    found = find_cycle(framework, "worker", parse_requirements("ps=running"))
    assert expected in found
    assert bool(found) == bool(expected)


@pytest.mark.parametrize(
    "framework", [{}, {"spec": None}, {"spec": {"taskRoles": [{"name": "x"}]}}]
)
def test_find_cycle_unreadable_framework_finds_none(framework: dict[str, Any]) -> None:
    assert find_cycle(framework, "worker", parse_requirements("ps=running")) == ""


def decide_for(roster: Roster, require: str, *reached: Probe, cycle: str = "") -> Any:
    config = load_config({**ENV, "BARRIER_REQUIRE": require})
    seen = observe(make_configmap(roster))
    observation = Observation(seen.knowledge, None, frozenset(reached), cycle)
    return decide(observation, config, 1.0)


def test_decide_running_waits_for_the_roles_flag() -> None:
    waiting = decide_for(GANG, "ps=running")
    assert isinstance(waiting, Wait)
    assert (waiting.reason, waiting.message) == ("RequirementUnmet", "ps is not running yet")
    running = GANG._replace(roles=(PS._replace(running=True), WORKER))
    assert decide_for(running, "ps=running") == Pass(running, SOURCE_CONFIGMAP)


def test_decide_all_running_fails_when_a_task_has_ended() -> None:
    running = GANG._replace(roles=(PS._replace(running=True), WORKER))
    assert decide_for(running, "ps=all-running") == Pass(running, SOURCE_CONFIGMAP)
    waiting = decide_for(GANG, "ps=all-running")
    assert isinstance(waiting, Wait)
    assert waiting.message == "ps is not running yet"
    for states in (("Failed",), ("Succeeded", "Failed")):
        ended = tuple(CompletedTask(index, state, "") for index, state in enumerate(states))
        role = PS._replace(running=True, members=PS.members[len(ended) :], completed=ended)
        failed = decide_for(GANG._replace(roles=(role, WORKER)), "ps=all-running")
        assert isinstance(failed, Fail)
        assert (failed.exit_code, failed.reason) == (ExitCode.UNKNOWN, "MemberEnded")
        assert f"ps=all-running cannot be met: ps/0 has {states[0].lower()}" in failed.message
        passed = decide_for(GANG._replace(roles=(role, WORKER)), "ps=running")
        assert isinstance(passed, Pass)


def test_decide_tcp_waits_for_every_member() -> None:
    waiting = decide_for(GANG, "ps=tcp:2222", TCP[0])
    assert isinstance(waiting, Wait)
    assert waiting.probes == TCP[1:]
    assert "ps/1 ([fd00::9]:2222)" in waiting.message
    assert decide_for(GANG, "ps=tcp:2222", *TCP) == Pass(GANG, SOURCE_CONFIGMAP)


def test_decide_moved_member_is_tried_at_its_new_address() -> None:
    moved = make_role("ps", make_member(0, "10.0.0.8"), make_member(1, "fd00::9"))
    waiting = decide_for(make_roster(roles=(moved, WORKER)), "ps=tcp:2222", *TCP)
    assert isinstance(waiting, Wait)
    assert [probe.address for probe in waiting.probes] == ["10.0.0.8"]


def check_permanent(decision: Decision, message: str) -> None:
    assert isinstance(decision, Fail)
    assert decision.exit_code is ExitCode.PERMANENT
    assert message in decision.message


def test_decide_unknown_role_is_a_fault_that_names_the_known() -> None:
    check_permanent(decide_for(GANG, "sp=running"), "the roles of the gang are: ps, worker")


def test_decide_circle_is_a_permanent_fault() -> None:
    failed = decide_for(GANG, "ps=running", cycle="each waits for the other")
    check_permanent(failed, "each waits for the other")


def test_find_unmet_dns_names_follow_the_pattern_and_the_index() -> None:
    unmet = find_unmet(GANG, parse_requirements("ps=dns"), frozenset(), DEFAULT_NAME)
    assert unmet is not None
    assert [probe.name for probe in unmet.probes] == ["f-ps-0.f", "f-ps-1.f"]


def test_find_unmet_many_names_three() -> None:
    role = make_role("ps", *(make_member(i, f"10.0.1.{i}") for i in range(5)))
    unmet = find_unmet(
        make_roster(roles=(role,)), parse_requirements("ps=tcp:1"), frozenset(), DEFAULT_NAME
    )
    assert unmet is not None
    assert unmet.message.endswith("and 2 more")


@pytest.mark.parametrize(
    ("states", "is_running"),
    [
        (("AttemptRunning", "AttemptRunning"), True),
        (("AttemptRunning", "AttemptPreparing"), False),
        (("AttemptRunning", "Completed"), True),
        (("AttemptRunning", "AttemptCompleted"), False),
    ],
)
def test_framework_tells_running_by_the_states(
    states: tuple[str, ...], *, is_running: bool
) -> None:
    tasks = [make_task(i, f"10.0.0.{i + 2}", state=state) for i, state in enumerate(states)]
    view = build_view(make_framework(*tasks), is_attempt_aware=True)
    assert view.roster.roles[0].running is is_running

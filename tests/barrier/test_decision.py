"""The decision as a table, and property P11 of docs/design/invariants.md."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barrier.config import Config, load_config
from barrier.decision import (
    Decision,
    Fail,
    GraceStart,
    Observation,
    Pass,
    Wait,
    decide,
)
from framework.agent.exitcodes import ExitCode
from framework.agent.framework_roster import FrameworkView, build_view
from framework.agent.gang import SOURCE_CONFIGMAP, SOURCE_FRAMEWORK, Knowledge, needs_framework
from framework.agent.health import Health, SourceState
from framework.agent.sources import AttemptConfigMap
from framework.api.gangreadiness import GangReadiness, Missing
from framework.api.roster import CompletedTask, Member, RoleRoster, Roster, fingerprint_uid
from tests.barrier.api_server import make_framework, make_member, make_role, make_roster, make_task
from tests.barrier.fast import IDENTITY, NAMES

ENV = NAMES | IDENTITY
CONFIG = load_config(ENV)
STRANGER = load_config(NAMES)
FULL = make_roster()


def state(health: Health, since: float = 0.0) -> SourceState:
    return SourceState(health, since, health.value)


def make_configmap(
    roster: Roster | None = FULL,
    *,
    uid: str = "cm-uid",
    is_terminating: bool = False,
    carries_roster: bool = True,
    readiness: GangReadiness | None = None,
    problem: str = "",
) -> AttemptConfigMap:
    return AttemptConfigMap(uid, is_terminating, carries_roster, roster, readiness, problem)


def observe(
    configmap: AttemptConfigMap | None = None,
    *,
    configmap_state: SourceState | None = None,
    view: FrameworkView | None = None,
    framework_state: SourceState | None = None,
    grace_start: GraceStart | None = None,
    is_denial_confirmed: bool = False,
) -> Observation:
    seen = Health.STARTING if view is None else Health.HEALTHY
    knowledge = Knowledge(
        started_at=0.0,
        configmap=configmap,
        configmap_state=configmap_state or state(Health.HEALTHY),
        view=view,
        framework_state=framework_state or state(seen),
        is_denial_confirmed=is_denial_confirmed,
    )
    return Observation(knowledge, grace_start)


def view_of(*tasks: dict[str, Any], **changes: Any) -> FrameworkView:
    framework = make_framework(*tasks)
    framework["status"].update(changes)
    return build_view(framework, is_attempt_aware=True)


def with_role(**changes: Any) -> Roster:
    return make_roster(roles=(FULL.roles[0]._replace(**changes),))


def with_address(address: str) -> Roster:
    return with_role(members=(make_member(0, address), make_member(1, "10.0.0.3")))


def check_wait(decision: Decision, reason: str) -> None:
    assert isinstance(decision, Wait)
    assert decision.reason == reason


FORBIDDEN = state(Health.FORBIDDEN)
QUORUM = with_role(wanted=3, minimum=2)
RETRIED = Member(1, ("10.0.0.3",), fingerprint_uid("pod-1"), 1)


PS_COMPLETED = make_role("ps", completed=(CompletedTask(0, "Succeeded", ""),))
COMPLETE = {
    "full": FULL,
    "peer-completed": make_roster(roles=(*FULL.roles, PS_COMPLETED)),
    "later-generation": make_roster(generation=7),
    "absent-index": with_role(
        members=(make_member(1, "fd00::1"), make_member(2, "fd00::2")), absent=(0,)
    ),
}


@pytest.mark.parametrize("roster", COMPLETE.values(), ids=COMPLETE)
def test_decide_complete_roster_passes(roster: Roster) -> None:
    assert decide(observe(make_configmap(roster)), CONFIG, 0.0) == Pass(roster, SOURCE_CONFIGMAP)


FIRST = make_member(0, "10.0.0.2")
OTHER_POD = RETRIED._replace(attempt_id=0, fingerprint="00000000")
OWN_COMPLETED = with_role(members=(FIRST,), completed=(CompletedTask(1, "Failed", "10.0.0.3"),))
UNUSABLE: dict[str, tuple[AttemptConfigMap | None, str]] = {
    "no-configmap": (None, "NothingSeen"),
    "configmap-of-other-attempt": (make_configmap(uid="other"), "OtherAttempt"),
    "other-roster": (make_configmap(make_roster(instance_uid="1_cm-uid")), "OtherAttempt"),
    "terminating": (make_configmap(is_terminating=True), "AttemptEnding"),
    "completing": (make_configmap(make_roster(phase="Completing")), "AttemptEnding"),
    "incomplete": (make_configmap(make_roster(complete=False)), "GangIncomplete"),
    "too-few-members": (make_configmap(with_role(wanted=3, minimum=3)), "GangIncomplete"),
    "no-roster-yet": (make_configmap(None), "GangIncomplete"),
    "broken-roster": (make_configmap(None, problem="no gzip"), "BadRoster"),
    "own-next-attempt": (make_configmap(with_role(members=(FIRST, RETRIED))), "NotInRoster"),
    "own-other-pod": (make_configmap(with_role(members=(FIRST, OTHER_POD))), "NotInRoster"),
    "own-completed": (make_configmap(OWN_COMPLETED), "NotInRoster"),
    "injection": (make_configmap(with_address("10.0.0.2$(id)")), "BadRoster"),
    "empty-address": (make_configmap(with_address("")), "BadRoster"),
    "bad-role-name": (make_configmap(with_role(name="a b")), "NotInRoster"),
}


@pytest.mark.parametrize(("configmap", "reason"), UNUSABLE.values(), ids=UNUSABLE)
def test_decide_roster_not_usable_waits(configmap: AttemptConfigMap | None, reason: str) -> None:
    check_wait(decide(observe(configmap), CONFIG, 1.0), reason)


def test_decide_incomplete_roster_names_the_missing_with_reasons() -> None:
    readiness = GangReadiness(1, 2, (Missing("worker", 0, "ImagePullBackOff"),))
    roster = with_role(members=(make_member(1, "10.0.0.3"),))._replace(complete=False)
    decision = decide(observe(make_configmap(roster, readiness=readiness)), CONFIG, 0.0)
    assert isinstance(decision, Wait)
    assert decision.readiness == readiness


@pytest.mark.parametrize(
    ("grace_start", "now", "is_passed"),
    [
        pytest.param(None, 100.0, False, id="first-look"),
        pytest.param(GraceStart(1, 100.0), 129.9, False, id="in-grace"),
        pytest.param(GraceStart(1, 100.0), 130.0, True, id="grace-over"),
        pytest.param(GraceStart(2, 100.0), 100.0, True, id="late-joiner"),
    ],
)
def test_decide_quorum_gives_the_rest_time(
    grace_start: GraceStart | None, now: float, *, is_passed: bool
) -> None:
    decision = decide(observe(make_configmap(QUORUM), grace_start=grace_start), CONFIG, now)
    if is_passed:
        assert decision == Pass(QUORUM, SOURCE_CONFIGMAP)
    else:
        assert isinstance(decision, Wait)
        assert decision.reason == "QuorumGrace"
        assert decision.wake_at == 130.0
        assert decision.readiness is not None
        assert decision.readiness.missing == (Missing("worker", 2, "it has no address yet"),)


def test_decide_quorum_is_enough_at_the_timeout() -> None:
    """At the timeout a quorum passes, also within its grace time."""
    observation = observe(make_configmap(QUORUM), grace_start=GraceStart(1, 590.0))
    decision = decide(observation, CONFIG, 599.0)
    assert isinstance(decision, Wait)
    assert decision.wake_at == 600.0
    assert decide(observation, CONFIG, 600.0) == Pass(QUORUM, SOURCE_CONFIGMAP)


def test_decide_quorum_rest_arrives_in_grace_passes() -> None:
    start = GraceStart(1, 100.0)
    assert decide(observe(make_configmap(FULL), grace_start=start), CONFIG, 101.0) == Pass(
        FULL, SOURCE_CONFIGMAP
    )


def test_decide_quorum_lost_in_grace_waits_on() -> None:
    lost = QUORUM._replace(complete=False)
    start = GraceStart(1, 0.0)
    check_wait(
        decide(observe(make_configmap(lost), grace_start=start), CONFIG, 99.0), "GangIncomplete"
    )


def test_decide_grace_starts_with_the_first_roster_that_names_this_pod_and_is_kept() -> None:
    stranger = with_role(members=(make_member(0, "10.0.0.2"),), wanted=2, minimum=1)
    start, lost = GraceStart(1, 6.0), QUORUM._replace(complete=False)
    for roster, before, expected in (
        (stranger, None, None),
        (QUORUM, None, start),
        (QUORUM._replace(generation=2), start, start),
        (lost, start, start),
    ):
        decision = decide(observe(make_configmap(roster), grace_start=before), CONFIG, 6.0)
        assert isinstance(decision, Wait)
        assert decision.grace_start == expected


SECOND_TASK = make_task(1, "10.0.0.3")
VIEWS = {
    "full": (view_of(), None),
    "peer-completed": (view_of(make_task(0, "10.0.0.2", state="Completed"), SECOND_TASK), None),
    "no-address": (view_of(make_task(0, ""), SECOND_TASK), "GangIncomplete"),
    "attempt-completed": (
        view_of(make_task(0, "10.0.0.2", state="AttemptCompleted"), SECOND_TASK),
        "GangIncomplete",
    ),
    "scaled-down-inside": (
        view_of(make_task(0, "10.0.0.2", deletionPending=True), SECOND_TASK),
        "GangIncomplete",
    ),
    "completing": (view_of(state="AttemptDeletionPending"), "AttemptEnding"),
}


@pytest.mark.parametrize(("view", "reason"), VIEWS.values(), ids=VIEWS)
def test_decide_configmap_forbidden_follows_the_framework(
    view: FrameworkView, reason: str | None
) -> None:
    decision = decide(observe(configmap_state=FORBIDDEN, view=view), CONFIG, 1.0)
    if reason is None:
        assert decision == Pass(view.roster, SOURCE_FRAMEWORK)
    else:
        check_wait(decision, reason)


def test_decide_framework_read_while_roster_may_come_waits() -> None:
    observation = observe(None, view=view_of())
    assert isinstance(decide(observation, CONFIG, 50.0), Wait)
    old_view = observe(
        configmap_state=FORBIDDEN, view=view_of(), framework_state=state(Health.UNREACHABLE)
    )
    assert isinstance(decide(old_view, CONFIG, 50.0), Wait)


def test_decide_original_controllers_configmap_follows_the_framework() -> None:
    configmap = make_configmap(None, carries_roster=False)
    view = view_of()
    assert decide(observe(configmap, view=view), CONFIG, 1.0) == Pass(view.roster, SOURCE_FRAMEWORK)


def test_decide_without_identity_follows_the_originals_rule() -> None:
    done = [make_task(i, f"10.0.0.{i + 2}", state="Completed") for i in range(2)]
    view = build_view(make_framework(*done), is_attempt_aware=False)
    assert decide(observe(view=view), STRANGER, 1.0) == Pass(view.roster, SOURCE_FRAMEWORK)
    scaling = [*done[:1], {**done[1], "deletionPending": True}]
    view = build_view(make_framework(*scaling), is_attempt_aware=False)
    assert isinstance(decide(observe(view=view), STRANGER, 1.0), Wait)


INCOMPLETE = observe(make_configmap(None))
UNREACHABLE = observe(configmap_state=state(Health.UNREACHABLE, 590.0))
UNAUTHORIZED = observe(configmap_state=FORBIDDEN, framework_state=state(Health.UNAUTHORIZED))
BY_FRAMEWORK = observe(configmap_state=FORBIDDEN, view=view_of(make_task(0, "")))
GONE = state(Health.NOT_FOUND, 10.0)
DENIED = observe(configmap_state=FORBIDDEN, framework_state=FORBIDDEN, is_denial_confirmed=True)
UNCONFIRMED = observe(configmap_state=FORBIDDEN, framework_state=FORBIDDEN)
FAILURES = {
    "in-time": (INCOMPLETE, 599.9, None, "GangIncomplete"),
    "late": (INCOMPLETE, 600.0, ExitCode.TRANSIENT_CONFLICT, "GangIncomplete"),
    "late-and-unreachable": (UNREACHABLE, 600.0, ExitCode.UNKNOWN, "Unreachable"),
    "late-and-unauthorized": (UNAUTHORIZED, 600.0, ExitCode.UNKNOWN, "Unauthorized"),
    "late-by-framework": (BY_FRAMEWORK, 600.0, ExitCode.TRANSIENT_CONFLICT, "GangIncomplete"),
    "404-burst": (observe(framework_state=GONE), 39.9, None, "NothingSeen"),
    "gone": (observe(framework_state=GONE), 40.0, ExitCode.PERMANENT, "FrameworkNotFound"),
    "framework-404-with-configmap": (
        observe(make_configmap(None), framework_state=GONE),
        99.0,
        None,
        "GangIncomplete",
    ),
    "denied": (DENIED, 30.0, ExitCode.PERMANENT, "Forbidden"),
    "denied-for-a-moment": (DENIED, 29.9, None, "Forbidden"),
    "denied-not-confirmed": (UNCONFIRMED, 99.0, None, "Forbidden"),
}


@pytest.mark.parametrize(
    ("observation", "now", "expected", "reason"), FAILURES.values(), ids=FAILURES
)
def test_decide_failures(
    observation: Observation, now: float, expected: ExitCode | None, reason: str
) -> None:
    decision = decide(observation, CONFIG, now)
    if expected is None:
        assert isinstance(decision, Wait)
    else:
        assert isinstance(decision, Fail)
        assert decision.exit_code is expected
    assert decision.reason == reason


def test_needs_framework_only_without_a_roster_to_come() -> None:
    assert not needs_framework(observe().knowledge, CONFIG.gang, 9.9)
    assert needs_framework(observe().knowledge, CONFIG.gang, 10.0)
    assert not needs_framework(observe(make_configmap(None)).knowledge, CONFIG.gang, 500.0)
    unreachable = observe(make_configmap(None), configmap_state=state(Health.UNREACHABLE, 50.0))
    assert not needs_framework(unreachable.knowledge, CONFIG.gang, 59.9)
    assert needs_framework(unreachable.knowledge, CONFIG.gang, 60.0)


ADDRESSES = st.sampled_from(["", "10.0.0.9", "fd00::9"])
STATES = st.sampled_from(
    [f"Attempt{state}" for state in ("CreationPending", "Preparing", "Running", "DeletionPending")]
    + ["AttemptCompleted", "Completed"]
)


@st.composite
def worlds(draw: st.DrawFn) -> tuple[list[dict[str, Any]], str]:
    tasks = [
        make_task(i, draw(ADDRESSES), state=draw(STATES), deletionPending=draw(st.booleans()))
        for i in range(draw(st.integers(1, 4)))
    ]
    return tasks, draw(st.sampled_from(["0_cm-uid", "1_cm-uid", ""]))


@given(world=worlds(), config=st.just(CONFIG), now=st.floats(0, 1200))
def test_decide_passes_only_with_every_required_address_of_this_attempt(
    world: tuple[list[dict[str, Any]], str], config: Config, now: float
) -> None:
    tasks, instance = world
    framework = make_framework(*tasks)
    framework["status"]["attemptStatus"]["instanceUID"] = instance
    view = build_view(framework, is_attempt_aware=True)
    decision: Decision = decide(observe(configmap_state=FORBIDDEN, view=view), config, now)
    required = [t for t in tasks if t["state"] != "Completed"]
    is_there = instance == "0_cm-uid" and all(
        t["attemptStatus"]["podIP"] and t["state"] in {"AttemptPreparing", "AttemptRunning"}
        for t in required
    )
    is_there = is_there and not any(t["deletionPending"] for t in tasks)
    is_there = is_there and len(tasks) > 1 and tasks[1]["state"] != "Completed"
    assert isinstance(decision, Pass) == is_there


@st.composite
def rosters(draw: st.DrawFn) -> Roster:
    wanted = draw(st.integers(0, 4))
    indexes = draw(st.sets(st.integers(0, 3)))
    completed = draw(st.sets(st.integers(0, 3))) - indexes
    role = RoleRoster(
        name="worker",
        wanted=wanted,
        minimum=draw(st.integers(0, 4)),
        running=False,
        members=tuple(
            Member(
                i,
                (draw(st.sampled_from(["10.0.0.1", "", "x"])),),
                fingerprint_uid(draw(st.sampled_from(["pod-1", "old"]))),
                draw(st.integers(0, 1)),
            )
            for i in sorted(indexes)
        ),
        completed=tuple(CompletedTask(i, "Succeeded", "") for i in sorted(completed)),
        absent=(),
    )
    return make_roster(
        roles=(role,),
        instance_uid=draw(st.sampled_from(["0_cm-uid", "1_cm-uid"])),
        complete=draw(st.booleans()),
        phase=draw(st.sampled_from(["Active", "Completing"])),
        generation=draw(st.integers(1, 3)),
    )


@given(roster=rosters(), uid=st.sampled_from(["cm-uid", "old"]), now=st.floats(0, 1200))
def test_decide_passes_by_roster_only_for_this_pod_of_this_attempt(
    roster: Roster, uid: str, now: float
) -> None:
    decision = decide(observe(make_configmap(roster, uid=uid)), CONFIG, now)
    if not isinstance(decision, Pass):
        return
    role = decision.roster.roles[0]
    assert uid == "cm-uid"
    assert decision.roster.instance_uid == "0_cm-uid"
    assert decision.roster.complete
    assert len(role.members) + len(role.completed) >= min(role.minimum, role.wanted)
    assert all(member.addresses[0] == "10.0.0.1" for member in role.members)
    own = [m for m in role.members if m.index == 1]
    assert [(m.fingerprint, m.attempt_id) for m in own] == [(fingerprint_uid("pod-1"), 0)]

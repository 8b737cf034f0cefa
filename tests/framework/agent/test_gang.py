from framework.agent.dns_source import DEFAULT_NAME, ExpectedGang
from framework.agent.framework_roster import FrameworkView, build_view
from framework.agent.gang import (
    SOURCE_CONFIGMAP,
    SOURCE_DNS,
    SOURCE_FRAMEWORK,
    Gang,
    Identity,
    Knowledge,
    assess,
    is_denial_stable,
    is_dns_trusted,
    is_framework_gone,
    select_roster,
)
from framework.agent.health import Health, SourceState
from framework.agent.sources import AttemptConfigMap, parse_configmap
from tests.barrier.api_server import make_configmap, make_framework, make_roster
from tests.support.builders.cases import cases

GANG = Gang("default", "f", "f-attempt", "cm-uid", ExpectedGang((("worker", 2),), DEFAULT_NAME))
STRANGER = GANG._replace(configmap="", configmap_uid="")
UNSIZED = GANG._replace(expected=None)
VIEW = build_view(make_framework(), is_attempt_aware=True)
NAMED = FrameworkView(make_roster(generation=0, instance_uid=""), ())
OURS = parse_configmap(make_configmap(make_roster()))
EMPTY = parse_configmap(make_configmap())
FOREIGN = parse_configmap(make_configmap(carries_roster=False))
OTHERS = parse_configmap(make_configmap(make_roster(), uid="other"))

GOOD, DENIED = Health.HEALTHY, Health.FORBIDDEN
UNKNOWN, AWAY, STARTING = Health.UNAUTHORIZED, Health.UNREACHABLE, Health.STARTING


def know(
    configmap: AttemptConfigMap | None, of_configmap: Health, of_framework: Health, since: float = 0
) -> Knowledge:
    return Knowledge(
        started_at=0.0,
        configmap=configmap,
        configmap_state=SourceState(of_configmap, since, ""),
        view=VIEW,
        framework_state=SourceState(of_framework, since, ""),
        dns_view=NAMED,
        dns_state=SourceState(Health.HEALTHY, since, ""),
    )


@cases(
    "gang knowledge expected",
    {
        "published first": (GANG, know(OURS, GOOD, GOOD), SOURCE_CONFIGMAP),
        "another attempt's ConfigMap": (GANG, know(OTHERS, GOOD, GOOD), None),
        "roster to come": (GANG, know(EMPTY, GOOD, GOOD), None),
        "never a roster": (GANG, know(FOREIGN, GOOD, GOOD), SOURCE_FRAMEWORK),
        "ConfigMap denied": (GANG, know(None, DENIED, GOOD), SOURCE_FRAMEWORK),
        "all denied": (GANG, know(None, DENIED, DENIED), SOURCE_DNS),
        "unauthorized": (GANG, know(None, UNKNOWN, UNKNOWN), SOURCE_DNS),
        "away for a moment": (GANG, know(None, AWAY, AWAY, 95.0), None),
        "away for long": (GANG, know(None, AWAY, AWAY, 80.0), SOURCE_DNS),
        "last known roster": (GANG, know(OURS, AWAY, AWAY, 95.0), SOURCE_CONFIGMAP),
        "Framework absent": (GANG, know(None, DENIED, Health.NOT_FOUND), None),
        "no attempt": (STRANGER, know(None, STARTING, GOOD), SOURCE_FRAMEWORK),
        "no attempt, DNS": (STRANGER, know(None, STARTING, DENIED), SOURCE_DNS),
        "all denied, size unknown": (UNSIZED, know(None, DENIED, DENIED), None),
    },
)
def test_select_roster(gang: Gang, knowledge: Knowledge, expected: str | None) -> None:
    selected = select_roster(knowledge, gang, 100.0)
    assert (None if selected is None else selected.source) == expected
    is_dns = gang.expected is not None and expected == SOURCE_DNS
    assert is_dns_trusted(knowledge, gang, 100.0) is is_dns


def test_is_denial_stable_counts_from_the_later_of_both() -> None:
    knowledge = know(None, DENIED, DENIED)
    late = knowledge._replace(configmap_state=SourceState(DENIED, 80.0, ""))
    assert is_denial_stable(knowledge, GANG, 30.0)
    assert not is_denial_stable(late, GANG, 100.0)
    assert is_denial_stable(late, GANG, 110.0)
    assert not is_denial_stable(know(None, DENIED, UNKNOWN), GANG, 100.0)


def test_is_framework_gone_only_without_its_configmap() -> None:
    assert is_framework_gone(know(None, GOOD, Health.NOT_FOUND), GANG, 30.0)
    assert not is_framework_gone(know(None, GOOD, Health.NOT_FOUND), GANG, 29.9)
    assert not is_framework_gone(know(OURS, GOOD, Health.NOT_FOUND), GANG, 99.0)
    assert is_framework_gone(know(OTHERS, GOOD, Health.NOT_FOUND), GANG, 99.0)


def test_own_member_is_found_with_its_uid_or_without_one() -> None:
    roster = make_roster()
    assert assess(roster, Identity("worker", 1, "pod-1")).own is not None
    assert assess(roster, Identity("worker", 1, "another")).own is None
    assert assess(roster, Identity("worker", 1, "")).own is not None
    assert assess(roster, Identity("worker", 9, "pod-1")).own is None


def test_is_complete_checks_the_numbers_of_the_controller() -> None:
    roster = make_roster()
    assert assess(roster).is_complete
    assert not assess(roster._replace(complete=False)).is_complete
    lying = roster.roles[0]._replace(wanted=3, minimum=3)
    assert not assess(roster._replace(roles=(lying,))).is_complete

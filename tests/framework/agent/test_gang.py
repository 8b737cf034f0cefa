"""Which source is believed: a table."""

import pytest

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

GANG = Gang("default", "f", "f-attempt", "cm-uid", ExpectedGang((("worker", 2),), DEFAULT_NAME))
STRANGER = GANG._replace(configmap="", configmap_uid="")
VIEW = build_view(make_framework(), is_attempt_aware=True)
NAMED = FrameworkView(make_roster(generation=0, instance_uid=""), ())
OURS = parse_configmap(make_configmap(make_roster()))
EMPTY = parse_configmap(make_configmap())
FOREIGN = parse_configmap(make_configmap(carries_roster=False))
OTHERS = parse_configmap(make_configmap(make_roster(), uid="other"))

GOOD, DENIED = Health.HEALTHY, Health.FORBIDDEN
UNKNOWN, AWAY = Health.UNAUTHORIZED, Health.UNREACHABLE


def know(
    configmap: AttemptConfigMap | None,
    configmap_health: Health,
    framework_health: Health,
    since: float = 0.0,
) -> Knowledge:
    return Knowledge(
        started_at=0.0,
        configmap=configmap,
        configmap_state=SourceState(configmap_health, since, ""),
        view=VIEW,
        framework_state=SourceState(framework_health, since, ""),
        dns_view=NAMED,
        dns_state=SourceState(Health.HEALTHY, since, ""),
    )


@pytest.mark.parametrize(
    ("gang", "knowledge", "expected"),
    [
        pytest.param(GANG, know(OURS, GOOD, GOOD), SOURCE_CONFIGMAP, id="published-first"),
        pytest.param(GANG, know(OTHERS, GOOD, GOOD), None, id="another-attempts-configmap"),
        pytest.param(GANG, know(EMPTY, GOOD, GOOD), None, id="roster-to-come"),
        pytest.param(GANG, know(FOREIGN, GOOD, GOOD), SOURCE_FRAMEWORK, id="never-a-roster"),
        pytest.param(GANG, know(None, DENIED, GOOD), SOURCE_FRAMEWORK, id="configmap-denied"),
        pytest.param(GANG, know(None, DENIED, DENIED), SOURCE_DNS, id="all-denied"),
        pytest.param(GANG, know(None, UNKNOWN, UNKNOWN), SOURCE_DNS, id="unauthorized"),
        pytest.param(GANG, know(None, AWAY, AWAY, 95.0), None, id="away-for-a-moment"),
        pytest.param(GANG, know(None, AWAY, AWAY, 80.0), SOURCE_DNS, id="away-for-long"),
        pytest.param(GANG, know(OURS, AWAY, AWAY, 95.0), SOURCE_CONFIGMAP, id="last-known-roster"),
        pytest.param(GANG, know(None, DENIED, Health.NOT_FOUND), None, id="framework-absent"),
        pytest.param(
            STRANGER, know(None, Health.STARTING, GOOD), SOURCE_FRAMEWORK, id="no-attempt"
        ),
        pytest.param(
            STRANGER, know(None, Health.STARTING, DENIED), SOURCE_DNS, id="no-attempt-dns"
        ),
    ],
)
def test_select_roster(gang: Gang, knowledge: Knowledge, expected: str | None) -> None:
    selected = select_roster(knowledge, gang, 100.0)
    assert (None if selected is None else selected.source) == expected


def test_dns_is_no_source_where_the_size_was_not_told() -> None:
    denied = know(None, DENIED, DENIED)
    assert is_dns_trusted(denied, GANG, 100.0)
    assert not is_dns_trusted(denied, GANG._replace(expected=None), 100.0)


def test_is_denial_settled_counts_from_the_later_of_both() -> None:
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


def test_find_own_member_believes_what_is_not_known() -> None:
    roster = make_roster()
    assert assess(roster, Identity("worker", 1, "pod-1")).own is not None
    assert assess(roster, Identity("worker", 1, "another")).own is None
    assert assess(roster, Identity("worker", 1, "")).own is not None
    assert assess(roster, Identity("worker", 9, "pod-1")).own is None


def test_is_complete_holds_the_controller_to_its_numbers() -> None:
    roster = make_roster()
    assert assess(roster).is_complete
    assert not assess(roster._replace(complete=False)).is_complete
    lying = roster.roles[0]._replace(wanted=3, minimum=3)
    assert not assess(roster._replace(roles=(lying,))).is_complete

"""Failed members: which processes are notified of them, when and how often."""

from framework.agent.gang import SOURCE_CONFIGMAP, Identity, SelectedRoster
from framework.api.roster import FailedMember, Roster, fingerprint_uid
from rendezvous.core.decision import decide
from rendezvous.core.generations import start_debounce
from rendezvous.core.notifying.failures import find_failures
from rendezvous.core.notifying.notification import Notified, Notify
from rendezvous.core.plan import (
    Context,
    GenerationMemory,
    Log,
    Memory,
    NotificationMemory,
    Observation,
    Plan,
    RecordFailures,
    RecordNotified,
)
from rendezvous.core.selection import Generation
from rendezvous.settings.options import Options
from tests.rendezvous.gangs import (
    INSTANCE,
    build_failed,
    build_gang,
    build_role,
    build_roster,
    get_uid,
)

OWN = Identity("worker", 0, get_uid("worker", 0), INSTANCE)
CONTEXT = Context(OWN, Options(debounce_seconds=2.0))
KNOWN = build_gang(3)
SHOWN = Memory(
    GenerationMemory(Generation(KNOWN, SOURCE_CONFIGMAP, 1), is_applied=True),
    NotificationMemory(Notified(1), KNOWN),
)


def lose(*indexes: int, generation: int = 2, complete: bool = False) -> Roster:
    """The gang without members that failed in this generation."""
    rest = build_role("worker", [i for i in range(3) if i not in indexes])
    rest = rest._replace(wanted=3, minimum=1 if complete else 3)
    failed = tuple(build_failed(index, since=generation) for index in indexes)
    return build_roster(rest, generation=generation)._replace(complete=complete, failed=failed)


def look(roster: Roster, memory: Memory = SHOWN, now: float = 100.0) -> Plan:
    current = memory.generations.current
    observation = Observation(
        SelectedRoster(roster, SOURCE_CONFIGMAP), current.number if current else 0, current
    )
    return decide(observation, memory, CONTEXT, now)


def list_events(plan: Plan) -> list[tuple[str, list[int]]]:
    return [
        (action.event, [failure.index for failure in action.failed])
        for action in plan.then.actions
        if isinstance(action, Notify)
    ]


def test_failure_is_notified_in_a_roster_that_is_not_shown() -> None:
    plan = look(lose(2))
    assert plan.show is None
    record, notify, noted, report, wait = plan.then.actions
    assert isinstance(record, RecordFailures)
    assert isinstance(notify, Notify)
    assert notify.to_wire() == {
        "event": "failed",
        "generation": 1,
        "previousGeneration": 1,
        "added": [],
        "removed": [],
        "moved": [],
        "failed": [
            {
                "role": "worker",
                "index": 2,
                "address": "10.0.0.4",
                "podUIDFingerprint": fingerprint_uid(get_uid("worker", 2)),
                "code": 137,
                "reason": "ContainerSigKillReceived",
            }
        ],
    }
    assert notify.to_env()["FB_FAILED"] == "worker/2=137"
    assert noted == RecordNotified(Notified(1, failed=2))
    assert report == Log("failed: worker/2 (ContainerSigKillReceived, code 137)")
    assert isinstance(wait, Log)


def test_failure_is_notified_once() -> None:
    memory = look(lose(2)).then.memory
    assert list_events(look(lose(2), memory)) == []
    both = lose(2)._replace(generation=3)
    both = both._replace(failed=(*both.failed, build_failed(1, since=3)))
    plan = look(both, memory)
    assert list_events(plan) == [("failed", [1])]
    record = plan.then.actions[0]
    assert isinstance(record, RecordFailures)
    assert [failure.index for failure in record.failures] == [2, 1], "the file has all of them"


def test_failure_is_notified_within_the_debounce_and_before_the_generation() -> None:
    plan = look(lose(2, complete=True), start_debounce(SHOWN, CONTEXT, 99.0))
    assert plan.show is None
    assert list_events(plan) == [("failed", [2])]
    plan = look(lose(2, complete=True), plan.then.memory, now=101.0)
    assert plan.show is not None
    assert list_events(plan) == [("changed", [])]
    plan = look(lose(2, complete=True))
    assert list_events(plan) == [("failed", [2]), ("changed", [])]


def test_failure_of_the_own_pod_or_of_a_pod_that_was_never_shown_is_left_out() -> None:
    stranger = build_failed(2, since=2)._replace(fingerprint="0" * 8)
    roster = build_gang(3)._replace(failed=(build_failed(0, since=2), stranger))
    assert find_failures(roster, KNOWN, OWN) == ()
    assert find_failures(lose(2), None, OWN) == ()
    assert list_events(look(lose(2), Memory())) == []


def test_report_names_three_failures() -> None:
    known = build_gang(6)
    failed = tuple(build_failed(i, since=2)._replace(code=None, reason="") for i in range(1, 6))
    memory = SHOWN._replace(notifications=NotificationMemory(Notified(1), known))
    plan = look(build_gang(1)._replace(complete=False, generation=2, failed=failed), memory)
    assert Log("failed: worker/1, worker/2, worker/3 and 2 more") in plan.then.actions
    (notify,) = (action for action in plan.then.actions if isinstance(action, Notify))
    assert notify.to_env()["FB_FAILED"].startswith("worker/1=,worker/2=,")


def test_entries_of_roles_that_processes_do_not_know_are_left_out() -> None:
    entry = FailedMember("\x1b[31m", 2, "0" * 8, 0, 2)
    assert find_failures(build_gang(2)._replace(failed=(entry,)), KNOWN, OWN) == ()

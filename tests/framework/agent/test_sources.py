import json
from typing import Any

import pytest

from framework.agent.access import Access
from framework.agent.connection import Answer, Head, UnreachableError
from framework.agent.framework_roster import FrameworkError, build_view, decompress_framework
from framework.agent.health import Health
from framework.agent.permission import Permission, is_denied
from framework.agent.sources import ConfigMapSource, FrameworkSource, parse_configmap
from framework.agent.watch import Change
from framework.api.codec import compress_status
from framework.api.roster import PHASE_ACTIVE, PHASE_COMPLETING
from tests.barrier.api_server import make_configmap, make_framework, make_roster, make_task
from tests.support.fakes.agentclock import VirtualClock

ACCESS = Access("x", 1, tls=False)
RIGHT = Permission("get", "g", "things", "default", "x")


class ScriptedWatch:
    health = Health.HEALTHY
    message = ""

    def __init__(self, *batches: list[Change]) -> None:
        self._batches = list(batches)

    def poll(self, _timeout_seconds: float) -> list[Change]:
        return self._batches.pop(0)


class ScriptedFetches:
    """Answers each request with the next (status, body), or raises the next error."""

    def __init__(self, *answers: Any) -> None:
        self._answers = list(answers)

    def fetch(self, _method: str, _path: str, _body: bytes | None = None) -> Answer:
        answer = self._answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        status, body = answer
        return Answer(Head(status, {}), json.dumps(body).encode())

    def close(self) -> None:
        pass


def test_parse_configmap_reads_roster_and_readiness() -> None:
    parsed = parse_configmap(make_configmap(make_roster(), missing="why"))
    assert parsed.roster == make_roster()
    assert parsed.readiness is not None
    assert parsed.readiness.missing[0].reason == "why"
    assert parsed.carries_roster
    assert not parsed.is_terminating


def test_parse_configmap_of_the_original_carries_no_roster() -> None:
    parsed = parse_configmap({"metadata": {"uid": "u", "deletionTimestamp": "2024"}})
    assert parsed == (("u", True, False, None, None, "", ""))


def test_parse_configmap_keeps_the_request_of_a_scaler_of_the_own_attempt() -> None:
    body = make_configmap(make_roster())
    body["binaryData"]["scaler.json"] = "e30="
    assert parse_configmap(body).scaler == "e30="
    assert parse_configmap(body, own_uid="another").scaler == ""
    body["metadata"]["ownerReferences"] = [{"kind": "Job", "name": "x", "controller": True}]
    assert parse_configmap(body, framework="gang").scaler == ""


@pytest.mark.parametrize("stored", ["", "!", "AAAA", 7, {"a": 1}])
def test_parse_configmap_broken_roster_is_a_problem(stored: Any) -> None:
    body = make_configmap()
    body["binaryData"] = {"roster.json.gz": stored}
    body["metadata"]["annotations"]["frameworkbarrier.io/progress"] = "{"
    parsed = parse_configmap(body)
    assert parsed.roster is None
    assert parsed.readiness is None
    assert parsed.problem


def test_configmap_source_ignores_older_forms_of_one_object() -> None:
    source = ConfigMapSource(ACCESS, VirtualClock(), "default", "f-attempt")
    new, old = make_configmap(make_roster(), version=9), make_configmap(version=8)
    other = make_configmap(uid="next", version=3)
    source._watch = ScriptedWatch(  # type: ignore[assignment]  # scripted
        [Change(new)], [Change(old)], [Change(other)], [Change(None)]
    )
    seen = []
    for _ in range(4):
        source.poll(0)
        seen.append(source.configmap and (source.configmap.uid, source.configmap.roster))
    ours = parse_configmap(new)
    assert seen == [(ours.uid, make_roster()), (ours.uid, make_roster()), ("next", None), None]


def make_framework_source(*answers: Any) -> tuple[FrameworkSource, VirtualClock]:
    clock = VirtualClock()
    source = FrameworkSource(ACCESS, clock, "default", "f", is_attempt_aware=True)
    source._connection = ScriptedFetches(*answers)  # type: ignore[assignment]  # scripted
    return source, clock


def test_framework_source_keeps_its_view_until_the_framework_is_absent() -> None:
    source, _ = make_framework_source(
        (200, make_framework()), UnreachableError("reset"), (503, {}), (404, {})
    )
    healths = []
    for _ in range(4):
        source.read()
        healths.append((source.state.health, source.view is not None))
    assert healths == [
        (Health.HEALTHY, True),
        (Health.UNREACHABLE, True),
        (Health.UNREACHABLE, True),
        (Health.NOT_FOUND, False),
    ]


def test_framework_source_since_is_when_the_health_changed() -> None:
    source, clock = make_framework_source(
        (403, {}), (403, {"message": "new"}), (200, make_framework())
    )
    source.read()
    clock.now = 5.0
    source.read()
    assert source.state == (Health.FORBIDDEN, 0.0, "HTTP 403: new")
    source.read()
    assert source.state == (Health.HEALTHY, 5.0, "")


@pytest.mark.parametrize(
    "body", [[], 7, {}, {"metadata": {}, "spec": {}}, {"metadata": {"name": "f"}, "spec": None}]
)
def test_framework_source_answer_that_is_no_framework_is_a_fault(body: Any) -> None:
    source, _ = make_framework_source((200, body))
    source.read()
    assert source.state.health is Health.UNREACHABLE
    assert source.view is None


def test_decompress_framework_equals_the_plain_form() -> None:
    plain = make_framework()
    packed = {**plain, "status": compress_status(plain["status"], 0)}
    assert "taskRoleStatusesCompressed" in packed["status"]["attemptStatus"]
    assert decompress_framework(packed) == plain
    assert decompress_framework(plain) == plain


@pytest.mark.parametrize("blob", ["AAAA", 7, "H4sIAAAAAAAA"])
def test_decompress_framework_broken_is_an_error(blob: Any) -> None:
    framework = make_framework()
    attempt = framework["status"]["attemptStatus"]
    attempt.update(taskRoleStatuses=None, taskRoleStatusesCompressed=blob)
    with pytest.raises(FrameworkError):
        decompress_framework(framework)


def test_build_view_gives_a_reason_for_each_missing_task() -> None:
    framework = make_framework(
        make_task(0, "", state="AttemptCreationPending"),
        make_task(1, "10.0.0.3", state="AttemptDeleting"),
        make_task(2, "10.0.0.4"),
        number=4,
    )
    view = build_view(framework, is_attempt_aware=True)
    assert [(m.index, m.reason) for m in view.missing] == [
        (0, "its Pod is not created yet"),
        (1, "its Pod is being deleted"),
        (3, "the controller has not seen it yet"),
    ]
    assert not view.roster.complete
    assert (view.roster.ready, view.roster.wanted) == (1, 4)


def test_build_view_quorum_and_absent_indices_count() -> None:
    framework = make_framework(
        make_task(0, "10.0.0.2"),
        make_task(1, "", state="Completed", deletionPending=True),
        make_task(2, ""),
    )
    framework["spec"]["taskRoles"][0].update(absentTaskIndices=[1, 9], minMemberCount=1)
    role = build_view(framework, is_attempt_aware=True).roster.roles[0]
    assert (role.wanted, role.minimum, role.absent, role.ready) == (2, 1, (1,), 1)
    framework["spec"]["taskRoles"][0]["minMemberCount"] = 99
    assert build_view(framework, is_attempt_aware=True).roster.roles[0].minimum == 2


@pytest.mark.parametrize("is_left", [True, False])
@pytest.mark.parametrize("state", ["AttemptDeletionPending", "Completed"])
def test_build_view_of_an_end_keeps_members_whose_pods_run_on(state: str, *, is_left: bool) -> None:
    """An agent that sees the phase Completing ends its command."""
    tasks = [make_task(index, f"10.0.0.{index + 2}") for index in range(2)]
    for task in tasks:
        task["state"] = "AttemptRunning" if state == "AttemptDeletionPending" else state
        task["attemptStatus"]["completionStatus"] = {"code": -221 if is_left else -220}
    framework = make_framework(*tasks)
    framework["status"]["state"] = state
    roster = build_view(framework, is_attempt_aware=True).roster
    assert roster.phase == (PHASE_ACTIVE if is_left else PHASE_COMPLETING)
    if is_left:
        assert [member.index for member in roster.roles[0].members] == [0, 1]


def test_build_view_roles_come_in_status_order() -> None:
    framework = make_framework()
    spec, status = framework["spec"], framework["status"]["attemptStatus"]
    for name, number in (("a", 1), ("b", 0)):
        spec["taskRoles"].insert(0, {**spec["taskRoles"][-1], "name": name, "taskNumber": number})
    status["taskRoleStatuses"].append({"name": "gone", "taskStatuses": []})
    view = build_view(framework, is_attempt_aware=True)
    assert [role.name for role in view.roster.roles] == ["worker", "a"]


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ((201, {"status": {"allowed": False}}), True),
        ((201, {"status": {"allowed": True}}), False),
        ((403, {}), True),
        ((503, {}), None),
        ((201, {}), None),
        (UnreachableError("x"), None),
    ],
)
def test_is_denied_asks_the_server(answer: Any, *, expected: bool | None) -> None:
    fetches: Any = ScriptedFetches(answer)
    assert is_denied(fetches, RIGHT) is expected


def test_describe_rule_contains_a_kubectl_command() -> None:
    text = RIGHT.describe_rule()
    assert "kubectl -n default create role frameworkbarrier-things --verb=get" in text
    assert "--resource=things.g --resource-name=x" in text

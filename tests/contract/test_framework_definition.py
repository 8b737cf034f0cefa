"""Our CustomResourceDefinition on an API server, also over objects the Go original's had let in."""

import copy
from typing import Any

import pytest

from framework.api import crd
from framework.api.naming import ROLE_NAME_PATTERN
from framework.api.types import ExecutionType
from framework.api.validation import EXECUTION_TRANSITIONS
from tests.contract.apiclient import JSON_PATCH, Api, Object
from tests.contract.definitions import Kind, define, defined

OURS = crd.build_crd()
STATUS = {
    "startTime": "2026-01-01T00:00:00Z",
    "state": "AttemptRunning",
    "transitionTime": "2026-01-01T00:00:00Z",
    "attemptStatus": {"id": 0, "taskRoleStatuses": None, "future": {"a": None}},
}


def original() -> Object:
    """The rules of the Go original for names, types and roles; its other limits are also ours."""
    name = {"type": "string", "pattern": "^[a-z0-9]{1,63}$"}
    kept = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    role = {
        "type": "object",
        "properties": {
            "name": {"type": "string", "pattern": ROLE_NAME_PATTERN},
            "taskNumber": {"type": "integer", "minimum": 0, "maximum": 10000},
            "task": {"type": "object", "properties": {"pod": kept}},
        },
    }
    spec = {
        "type": "object",
        "properties": {
            "executionType": {"type": "string", "enum": list(ExecutionType)},
            "taskRoles": {"type": "array", "items": role},
        },
    }
    definition = define(spec, status={**kept, "nullable": True})
    version = definition["spec"]["versions"][0]
    version["schema"]["openAPIV3Schema"]["properties"]["metadata"] = {
        "type": "object",
        "properties": {"name": name},
    }
    return renamed(definition)


def permissive() -> Object:
    """A definition that accepts every object."""
    return renamed(define({"type": "object", "x-kubernetes-preserve-unknown-fields": True}))


def renamed(definition: Object) -> Object:
    definition = copy.deepcopy(definition)
    definition["spec"]["names"] = OURS["spec"]["names"] | {"shortNames": [], "categories": []}
    return definition


async def upgrade(kind: Kind) -> None:
    definition = renamed({**OURS, "spec": {**OURS["spec"], "group": kind.name.partition(".")[2]}})
    await kind.redefine(definition, refused=kind.build("a.b", spec={}))


def role(**content: Any) -> Object:
    pod = {"spec": {"containers": [{"name": "main", "image": "example.com/main:1"}]}}
    return {"name": "a", "taskNumber": 1, "task": {"pod": pod}, **content}


STORED: list[Any] = [
    pytest.param("plain", {"taskRoles": [role()], "executionType": "Start"}, id="plain"),
    pytest.param("a" * 63, {"taskRoles": [role()]}, id="longest name, no execution type"),
    pytest.param("twice", {"taskRoles": [role(), role(taskNumber=2)]}, id="roles of one name"),
    pytest.param("empty", None, id="no spec"),
    pytest.param("stop", {"executionType": "Stop"}, id="stopped, no roles"),
]
ODD: list[Any] = [
    pytest.param("a.b", {"taskRoles": [role()]}, id="name with a dot"),
    pytest.param("l" * 100, {"taskRoles": [role()]}, id="long name"),
    pytest.param("odd", {"executionType": "Now", "taskRoles": [role(name="A_b")]}, id="odd values"),
]


@pytest.mark.parametrize(
    ("before", "name", "spec"),
    [pytest.param(original, *p.values, id=p.id) for p in STORED]
    + [pytest.param(permissive, *p.values, id=p.id) for p in ODD],
)
async def test_stored_object_stays_writable_after_the_upgrade(
    api: Api, before: Any, name: str, spec: Object | None
) -> None:
    async with defined(api, before()) as framework:
        content = {} if spec is None else {"spec": spec}
        (await framework.create(framework.build(name, **content))).ok()
        await upgrade(framework)

        held = await framework.get(name)
        written = await framework.replace_status({**held, "status": STATUS})
        held_up = {"metadata": {"labels": {"a": "b"}, "finalizers": ["example.com/hold"]}}
        marked = await framework.patch(held_up, name)
        freed = await framework.patch({"metadata": {"finalizers": None}}, name)
        stopped = await framework.patch({"spec": {"executionType": "Stop"}}, name)

    assert written.ok()["status"] == STATUS
    assert [a.status for a in (marked, freed, stopped)] == [200, 200, 200], marked.body


@pytest.mark.parametrize("source", list(ExecutionType))
async def test_execution_type_only_goes_forward(api: Api, source: ExecutionType) -> None:
    async with defined(api, renamed(OURS)) as framework:
        body = framework.build(spec={"executionType": source, "taskRoles": [role()]})
        seen = {}
        for target in ExecutionType:
            body["metadata"]["name"] = f"to-{target.lower()}"
            (await framework.create(body)).ok()
            patch = [{"op": "replace", "path": "/spec/executionType", "value": target}]
            answer = await framework.patch(patch, f"to-{target.lower()}", content=JSON_PATCH)
            seen[target] = answer

    assert {t for t, a in seen.items() if a.status == 200} == {
        source,
        *EXECUTION_TRANSITIONS[source],
    }
    for refusal in (answer for answer in seen.values() if answer.status != 200):
        assert refusal.refused(422, "Invalid").fields == ["spec.executionType"]
        assert "executionType can change only from" in refusal.body["message"]


async def test_execution_type_taken_away_is_start(api: Api) -> None:
    async with defined(api, renamed(OURS)) as framework:
        (await framework.create(framework.build(spec={"executionType": "Create"}))).ok()
        removal = {"spec": {"executionType": None}}
        started = await framework.patch(removal)
        (await framework.patch({"spec": {"executionType": "Stop"}})).ok()
        refused = await framework.patch(removal)
    assert started.ok()["spec"]["executionType"] == "Start"
    assert refused.status == 422


@pytest.mark.parametrize("name", ["a", "9", "a-b", "a" * 63])
async def test_dns_label_names_a_framework(api: Api, name: str) -> None:
    async with defined(api, renamed(OURS)) as framework:
        assert (await framework.create(framework.build(name, spec={}))).status == 201


@pytest.mark.parametrize("name", ["a.b", "A", "a-", "-a", "a_b"])
async def test_other_name_is_refused_with_the_remedy(api: Api, name: str) -> None:
    async with defined(api, renamed(OURS)) as framework:
        answer = await framework.create(framework.build(name, spec={}))
    assert answer.refused(422, "Invalid").fields == ["metadata.name"]
    message = answer.body["message"]
    assert "name the Framework with 1 to 63 characters of a-z, 0-9 and '-'" in message


async def test_extensions_of_a_role_are_checked(api: Api) -> None:
    """An index that is there twice passes: to find it costs the API server seconds (crd.py)."""
    bad = {"minMemberCount": -1, "absentTaskIndices": [1, 1, -1], "drain": {"timeoutSec": -1}}
    async with defined(api, renamed(OURS)) as framework:
        answer = await framework.create(framework.build(spec={"taskRoles": [role(**bad)]}))
    path = "spec.taskRoles[0]"
    assert answer.refused(422, "Invalid").fields == [
        f"{path}.absentTaskIndices[2]",
        f"{path}.drain.timeoutSec",
        f"{path}.minMemberCount",
    ]


async def test_lifetime_is_checked(api: Api) -> None:
    bad = {"suspend": "true", "activeDeadlineSeconds": -1, "ttlSecondsAfterFinished": -1}
    async with defined(api, renamed(OURS)) as framework:
        typed = await framework.create(framework.build(spec=bad))
        negative = await framework.create(framework.build(spec={**bad, "suspend": True}))
    assert "spec.suspend" in typed.refused(422, "Invalid").fields
    fields = negative.refused(422, "Invalid").fields
    assert fields == ["spec.activeDeadlineSeconds", "spec.ttlSecondsAfterFinished"]


async def test_lifetime_may_be_zero_null_and_changed_at_any_time(api: Api) -> None:
    zero = {"suspend": True, "activeDeadlineSeconds": 0, "ttlSecondsAfterFinished": 0}
    async with defined(api, renamed(OURS)) as framework:
        body = (await framework.create(framework.build(spec=zero))).ok()
        assert {key: body["spec"][key] for key in zero} == zero
        null = [{"op": "add", "path": f"/spec/{field}", "value": None} for field in zero]
        stored = (await framework.patch(null, content=JSON_PATCH)).ok()
    assert "suspend" not in stored["spec"]
    assert stored["spec"]["activeDeadlineSeconds"] is None


async def test_extensions_that_ask_for_more_than_there_is_are_accepted(api: Api) -> None:
    wide = {"minMemberCount": 9, "absentTaskIndices": [0, 99999], "drain": {"timeoutSec": 0}}
    async with defined(api, renamed(OURS)) as framework:
        answer = await framework.create(framework.build(spec={"taskRoles": [role(**wide)]}))
    assert answer.status == 201


async def test_name_that_is_taken_is_judged_after_everything_else(api: Api) -> None:
    """`framework run --replace` asks so, before it deletes what is there."""
    async with defined(api, renamed(OURS)) as framework:
        (await framework.create(framework.build("taken", spec={}))).ok()
        bad = await framework.create(framework.build("taken", spec={"taskRoles": 1}), dryRun="All")
        good = await framework.create(framework.build("taken", spec={}), dryRun="All")
    assert "spec.taskRoles" in bad.refused(422, "Invalid").fields
    good.refused(409, "AlreadyExists")

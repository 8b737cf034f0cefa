"""How large a Framework may be: more is refused, and what is stored stays usable."""

import copy

import pytest

from framework.api import constants
from tests.contract.apiclient import JSON_PATCH, Api, Object
from tests.contract.definitions import defined
from tests.contract.test_framework_definition import (
    OURS,
    STATUS,
    original,
    renamed,
    role,
    upgrade,
)

TOO_MANY_TASKS = "at most 10000 Tasks are allowed in all roles together: lower taskNumber"
TOO_MANY_ROLES = "at most 256 roles are allowed: give Tasks that are alike one role"


def build_roles(count: int, number: int = 1) -> list[Object]:
    return [role(name=f"a{index}", taskNumber=number) for index in range(count)]


@pytest.mark.parametrize(
    "roles",
    [
        pytest.param(build_roles(1, 10_000), id="one role of as many Tasks as there may be"),
        pytest.param(build_roles(4, 2_500), id="four such roles"),
        pytest.param(build_roles(256), id="as many roles as there may be"),
        pytest.param([{"name": "a"}, {"name": "b"}], id="no numbers"),
        pytest.param([], id="no roles"),
    ],
)
async def test_framework_within_the_limits_is_accepted(api: Api, roles: list[Object]) -> None:
    async with defined(api, renamed(OURS)) as framework:
        answer = await framework.create(framework.build(spec={"taskRoles": roles}))
        written = await framework.replace_status({**answer.ok(), "status": STATUS})
    assert written.status == 200


@pytest.mark.parametrize(
    ("roles", "message"),
    [
        pytest.param(build_roles(60, 10_000), TOO_MANY_TASKS, id="600,000 Tasks"),
        pytest.param(build_roles(2, 5_001), TOO_MANY_TASKS, id="10,002 Tasks"),
        pytest.param(build_roles(257), TOO_MANY_ROLES, id="257 roles"),
        pytest.param(build_roles(300, 100), TOO_MANY_ROLES, id="300 roles, 30,000 Tasks"),
    ],
)
async def test_framework_beyond_the_limits_is_refused_with_the_remedy(
    api: Api, roles: list[Object], message: str
) -> None:
    async with defined(api, renamed(OURS)) as framework:
        answer = await framework.create(framework.build(spec={"taskRoles": roles}))
        (await framework.create(framework.build("small", spec={"taskRoles": [role()]}))).ok()
        grown = await framework.patch({"spec": {"taskRoles": roles}}, "small")
    for refusal in (answer, grown):
        assert set(refusal.refused(422, "Invalid").fields) == {"spec.taskRoles"}
        assert message in refusal.body["message"]


async def test_first_roles_of_a_framework_without_any_are_limited(api: Api) -> None:
    async with defined(api, renamed(OURS)) as framework:
        (await framework.create(framework.build("none", spec={}))).ok()
        refused = await framework.patch({"spec": {"taskRoles": build_roles(2, 9_999)}}, "none")
        accepted = await framework.patch({"spec": {"taskRoles": build_roles(2, 5_000)}}, "none")
    assert refused.status == 422
    assert accepted.status == 200


@pytest.mark.parametrize(
    "roles",
    [
        pytest.param(build_roles(60, 10_000), id="too many Tasks"),
        pytest.param(build_roles(300), id="too many roles"),
        pytest.param(build_roles(300, 10_000), id="too many of both"),
        pytest.param([{"name": f"a{n}"} for n in range(9_000)], id="9,000 roles"),
    ],
)
async def test_stored_framework_beyond_the_limits_may_shrink_and_not_grow(
    api: Api, roles: list[Object]
) -> None:
    async with defined(api, original()) as framework:
        (await framework.create(framework.build("old", spec={"taskRoles": roles}))).ok()
        await upgrade(framework)

        held = await framework.get("old")
        written = await framework.replace_status({**held, "status": STATUS})
        again = await framework.patch({"status": {"state": "Completed"}}, "old", status=True)
        marked = await framework.patch({"metadata": {"finalizers": ["example.com/a"]}}, "old")
        freed = await framework.patch({"metadata": {"finalizers": None}}, "old")
        grown = await framework.patch({"spec": {"taskRoles": [*roles, role(name="more")]}}, "old")
        number = {"op": "replace", "path": "/spec/taskRoles/0/taskNumber", "value": 0}
        shrunk = await framework.patch([number], "old", content=JSON_PATCH)
        stopped = await framework.patch({"spec": {"executionType": "Stop"}}, "old")

    assert [a.status for a in (written, again, marked, freed)] == [200] * 4
    assert grown.refused(422, "Invalid").fields[0] == "spec.taskRoles"
    assert [a.status for a in (shrunk, stopped)] == [200] * 2


async def test_server_that_drops_optional_old_values_still_limits_updates(api: Api) -> None:
    """As Kubernetes 1.29 does: there is no rule for creates then, and no error either."""
    definition = copy.deepcopy(OURS)
    schema = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    for rule in schema["properties"]["spec"]["properties"]["taskRoles"]["x-kubernetes-validations"]:
        rule.pop("optionalOldSelf", None)
    async with defined(api, renamed(definition)) as framework:
        created = await framework.create(
            framework.build("large", spec={"taskRoles": build_roles(60, 10_000)})
        )
        written = await framework.replace_status({**created.ok(), "status": STATUS})
        (await framework.create(framework.build("small", spec={"taskRoles": [role()]}))).ok()
        grown = await framework.patch({"spec": {"taskRoles": build_roles(60, 10_000)}}, "small")

    assert written.status == 200
    assert grown.status == 422


async def test_wanted_gaps_are_as_many_as_a_role_may_have_tasks(api: Api) -> None:
    most = constants.MAX_ABSENT_TASK_INDICES
    async with defined(api, renamed(OURS)) as framework:
        many = await framework.create(
            framework.build(spec={"taskRoles": [role(absentTaskIndices=list(range(most)))]})
        )
        more = await framework.create(
            framework.build(
                "b", spec={"taskRoles": [role(absentTaskIndices=list(range(most + 1)))]}
            )
        )

    assert many.status == 201
    refusal = more.refused(422, "Invalid")
    assert "spec.taskRoles[0].absentTaskIndices" in refusal.fields
    assert "must have at most 10000 items" in refusal.body["message"]

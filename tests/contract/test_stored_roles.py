"""A role without a name, which the Go original ran: stored before the upgrade, it can be edited."""

from typing import Any

import pytest

from tests.contract.apiclient import JSON_PATCH, Api, Object
from tests.contract.definitions import defined
from tests.contract.test_framework_definition import STATUS, original, role, upgrade


def nameless(**content: Any) -> Object:
    return {key: value for key, value in role(**content).items() if key != "name"}


@pytest.mark.parametrize(
    "roles",
    [
        pytest.param([nameless()], id="one without a name"),
        pytest.param([nameless(), role()], id="one of two"),
        pytest.param([nameless(), nameless(taskNumber=2)], id="two without a name"),
    ],
)
async def test_stored_role_without_a_name_can_be_edited(api: Api, roles: list[Object]) -> None:
    async with defined(api, original()) as framework:
        (await framework.create(framework.build("old", spec={"taskRoles": roles}))).ok()
        await upgrade(framework)

        held = await framework.get("old")
        answers = [
            await framework.replace_status({**held, "status": STATUS}),
            await framework.patch({"metadata": {"finalizers": ["example.com/hold"]}}, "old"),
            # As the garbage collector does: else no such Framework could be deleted.
            await framework.patch({"metadata": {"finalizers": None}}, "old"),
            await framework.patch({"spec": {"description": "edited"}}, "old"),
            await framework.patch(
                [{"op": "replace", "path": "/spec/taskRoles/0/taskNumber", "value": 3}],
                "old",
                content=JSON_PATCH,
            ),
            await framework.patch({"spec": {"executionType": "Stop"}}, "old"),
        ]

    assert [a.status for a in answers] == [200] * 6, [a.body for a in answers]
    assert answers[-1].ok()["spec"]["taskRoles"][0]["name"] == ""


async def test_name_of_a_role_is_checked_where_there_is_one(api: Api) -> None:
    async with defined(api, original()) as framework:
        await upgrade(framework)
        spec = {"taskRoles": [nameless(), role(), nameless(), role(name="A")]}
        answer = await framework.create(framework.build("new", spec=spec))
    assert answer.refused(422, "Invalid").fields == [
        "spec.taskRoles[2]",
        "spec.taskRoles[3].name",
    ]

"""Values that an update may leave unchanged after a definition became stricter."""

from typing import Any

import pytest

from tests.contract.apiclient import Api, Object
from tests.contract.definitions import define, defined

TEXT: Object = {"type": "string", "maxLength": 30}
NUMBER: Object = {"type": "integer"}


def fields(**properties: Object) -> Object:
    return {"type": "object", "properties": properties}


STRICTER: list[Any] = [
    pytest.param({"type": "string", "pattern": "^a$"}, id="pattern"),
    pytest.param({"type": "string", "enum": ["a"]}, id="enum"),
    pytest.param({"type": "string", "maxLength": 1}, id="length"),
]


@pytest.mark.parametrize("stricter", STRICTER)
async def test_unchanged_value_may_break_a_newer_limit(api: Api, stricter: Object) -> None:
    async with defined(api, define(fields(code=TEXT, level=NUMBER))) as gauge:
        (await gauge.create(gauge.build(spec={"code": "old"}))).ok()
        await gauge.tighten(fields(code=stricter, level=NUMBER), refused={"code": "new"})

        beside = await gauge.patch({"spec": {"level": 1}})
        labelled = await gauge.patch({"metadata": {"labels": {"a": "b"}}})
        status = await gauge.patch({"status": {"state": "x"}}, status=True)
        worse = await gauge.patch({"spec": {"code": "new"}})
        better = await gauge.patch({"spec": {"code": "a"}})
        back = await gauge.patch({"spec": {"code": "old"}})

    assert [a.status for a in (beside, labelled, status)] == [200, 200, 200]
    assert worse.refused(422, "Invalid").fields[-1] == "spec.code"
    assert [a.status for a in (better, back)] == [200, 422]


async def test_status_write_does_not_check_the_spec(api: Api) -> None:
    plain = fields(code=TEXT, level=NUMBER)
    async with defined(api, define(plain)) as gauge:
        (await gauge.create(gauge.build(spec={"code": "old"}))).ok()
        await gauge.tighten({**plain, "required": ["level"]}, refused={"code": "new"})
        beside = await gauge.patch({"spec": {"code": "x"}})
        status = await gauge.patch({"status": {"state": "x"}}, status=True)
    assert beside.refused(422, "Invalid").fields == ["spec.level"]
    assert status.status == 200


async def test_status_write_tolerates_what_it_leaves(api: Api) -> None:
    loose = fields(state=TEXT, count=NUMBER)
    definition = define(fields(code=TEXT), status=loose)
    async with defined(api, definition) as gauge:
        (await gauge.create(gauge.build(spec={}))).ok()
        (await gauge.patch({"status": {"state": "old"}}, status=True)).ok()
        strict = define(
            fields(code={"type": "string", "pattern": "^a$"}),
            status=fields(state={"type": "string", "pattern": "^a$"}, count=NUMBER),
        )
        strict["spec"] |= {"group": gauge.name.partition(".")[2]}
        await gauge.redefine(strict, refused=gauge.build("refused", spec={"code": "x"}))

        beside = await gauge.patch({"status": {"count": 1}}, status=True)
        worse = await gauge.patch({"status": {"state": "new"}}, status=True)

    assert beside.status == 200
    assert worse.refused(422, "Invalid").fields == ["status.state"]


def listed(kind: str | None, pattern: str) -> Object:
    item = {**fields(name=TEXT, code={"type": "string", "pattern": pattern}), "required": ["name"]}
    schema: Object = {"type": "array", "maxItems": 5, "items": item}
    if kind == "map":
        keys = {"x-kubernetes-list-map-keys": ["name"]}
        schema |= {"x-kubernetes-list-type": "map", **keys}
    return fields(parts=schema)


async def test_unchanged_item_of_a_changed_list_without_keys_is_checked(api: Api) -> None:
    async with defined(api, define(listed(None, ""))) as gauge:
        old = {"name": "old", "code": "x"}
        (await gauge.create(gauge.build(spec={"parts": [old]}))).ok()
        refused = {"parts": [{"name": "new", "code": "x"}]}
        await gauge.tighten(listed(None, "^a$"), refused=refused)
        added = await gauge.patch({"spec": {"parts": [{"name": "b", "code": "a"}, old]}})
        labelled = await gauge.patch({"metadata": {"labels": {"a": "b"}}})
        changed = await gauge.patch({"spec": {"parts": [{"name": "old", "code": "y"}]}})
    assert [a.status for a in (added, labelled, changed)] == [422, 200, 422]


async def test_list_that_had_duplicates_may_go_on(api: Api) -> None:
    async with defined(api, define(listed(None, ""))) as gauge:
        twice = [{"name": "a"}, {"name": "a"}]
        (await gauge.create(gauge.build(spec={"parts": twice}))).ok()
        await gauge.tighten(listed("map", ""), refused={"parts": twice})
        more = await gauge.patch({"spec": {"parts": [*twice, {"name": "a"}]}})
        status = await gauge.patch({"status": {"state": "x"}}, status=True)
        mended = await gauge.patch({"spec": {"parts": [{"name": "a"}]}})
        again = await gauge.patch({"spec": {"parts": twice}})
    assert [a.status for a in (more, status, mended, again)] == [200, 200, 200, 422]

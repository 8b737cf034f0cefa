"""Rules in CEL, and what an update may leave as it is when a definition became stricter."""

from typing import Any

import pytest

from tests.contract.apiclient import Api, Object
from tests.contract.definitions import DEFINITIONS, define, defined, rename

RULES = "x-kubernetes-validations"
TEXT: Object = {"type": "string", "maxLength": 30}
NUMBER: Object = {"type": "integer"}


def ruled(schema: Object, *rules: str | Object) -> Object:
    """A schema with rules."""
    return {**schema, RULES: [r if isinstance(r, dict) else {"rule": r} for r in rules]}


def fields(**properties: Object) -> Object:
    return {"type": "object", "properties": properties}


FORWARD = {"rule": "self >= oldSelf", "message": "level only rises"}


async def test_rule_refuses_a_new_object_with_its_message(api: Api) -> None:
    rule = {"rule": "self.startsWith('a')", "message": "code begins with a"}
    async with defined(api, define(fields(code=ruled(TEXT, rule)))) as gauge:
        answer = await gauge.create(gauge.build(spec={"code": "b"}))
        accepted = await gauge.create(gauge.build(spec={"code": "a"}))

    assert answer.refused(422, "Invalid").causes == {("FieldValueInvalid", "spec.code")}
    assert 'spec.code: Invalid value: "string": code begins with a' in answer.body["message"]
    assert accepted.status == 201


async def test_rule_without_message_names_itself(api: Api) -> None:
    async with defined(api, define(fields(code=ruled(TEXT, "self == 'a'")))) as gauge:
        answer = await gauge.create(gauge.build(spec={"code": "b"}))

    assert "failed rule: self == 'a'" in answer.refused(422, "Invalid").body["message"]


async def test_rule_of_an_object_names_reason_and_field(api: Api) -> None:
    rule = {
        "rule": "!has(self.least) || self.least <= self.most",
        "messageExpression": "'least is %d too high'.format([self.least - self.most])",
        "reason": "FieldValueForbidden",
        "fieldPath": ".least",
    }
    schema = ruled(fields(least=NUMBER, most=NUMBER), rule)
    async with defined(api, define(schema)) as gauge:
        answer = await gauge.create(gauge.build(spec={"least": 5, "most": 2}))
        absent = await gauge.create(gauge.build(spec={"most": 2}))

    assert answer.refused(422, "Invalid").causes == {("FieldValueForbidden", "spec.least")}
    assert "least is 3 too high" in answer.body["message"]
    assert absent.status == 201


async def test_rule_that_has_no_value_refuses(api: Api) -> None:
    schema = ruled(fields(least=NUMBER, most=NUMBER), "self.least <= self.most")
    async with defined(api, define(schema)) as gauge:
        answer = await gauge.create(gauge.build(spec={"most": 2}))

    assert answer.refused(422, "Invalid").fields == ["spec"]
    assert "evaluating rule: self.least <= self.most" in answer.body["message"]


async def test_rules_see_lists_maps_and_numbers(api: Api) -> None:
    schema = ruled(
        fields(
            names={"type": "array", "maxItems": 5, "items": TEXT},
            weights={
                "type": "object",
                "maxProperties": 5,
                "additionalProperties": {"type": "number"},
            },
            port={"x-kubernetes-int-or-string": True},
        ),
        "!has(self.names) || self.names.all(n, n.size() < 4) && !('bad' in self.names)",
        "!has(self.weights) || self.weights.all(k, self.weights[k] >= 0.5)",
        "!has(self.port) || type(self.port) == int || self.port.matches('^[a-z]+$')",
    )
    async with defined(api, define(schema)) as gauge:
        seen = [
            (await gauge.create(gauge.build(spec=spec), dryRun="All")).status
            for spec in (
                {"names": ["abc"], "weights": {"a": 1, "b": 0.5}, "port": 80},
                {"port": "http"},
                {"names": ["abcd"]},
                {"names": ["bad"]},
                {"weights": {"a": 0}},
                {"port": "80"},
            )
        ]

    assert seen == [201, 201, 422, 422, 422, 422]


async def test_rule_of_list_items_names_the_index(api: Api) -> None:
    items = {"type": "array", "maxItems": 5, "items": ruled(TEXT, "self != 'b'")}
    async with defined(api, define(fields(codes=items))) as gauge:
        answer = await gauge.create(gauge.build(spec={"codes": ["a", "b"]}))

    assert answer.refused(422, "Invalid").fields == ["spec.codes[1]"]


async def test_rules_are_left_out_where_the_schema_is_broken(api: Api) -> None:
    schema = fields(code=ruled(TEXT, "self == 'a'"), level=NUMBER)
    async with defined(api, define(schema)) as gauge:
        answer = await gauge.create(gauge.build(spec={"code": "b", "level": "high"}))

    assert "spec.code" not in answer.refused(422, "Invalid").fields
    assert "some validation rules were not checked" in answer.body["message"]


async def test_transition_rule_is_of_changes_only(api: Api) -> None:
    async with defined(api, define(fields(level=ruled(NUMBER, FORWARD), code=TEXT))) as gauge:
        (await gauge.create(gauge.build(spec={"level": 5}))).ok()

        back = await gauge.patch({"spec": {"level": 4}})
        same = await gauge.patch({"spec": {"code": "x"}})
        status = await gauge.patch({"status": {"state": "x"}}, status=True)
        forth = await gauge.patch({"spec": {"level": 6}})
        removed = await gauge.patch({"spec": {"level": None}})
        again = await gauge.patch({"spec": {"level": 1}})

    assert "level only rises" in back.refused(422, "Invalid").body["message"]
    assert [a.status for a in (same, status, forth, removed, again)] == [200] * 5


async def test_transition_rule_on_a_default_sees_the_default(api: Api) -> None:
    level = {**ruled(NUMBER, FORWARD), "default": 5}
    async with defined(api, define(fields(level=level))) as gauge:
        (await gauge.create(gauge.build(spec={}))).ok()

        back = await gauge.patch({"spec": {"level": 4}})
        forth = await gauge.patch({"spec": {"level": 6}})
        removed = await gauge.patch({"spec": {"level": None}})

    assert [a.status for a in (back, forth, removed)] == [422, 200, 422]


async def test_transition_rule_of_items_goes_by_their_key(api: Api) -> None:
    parts = {
        "type": "array",
        "maxItems": 5,
        "items": {**fields(name=TEXT, level=ruled(NUMBER, FORWARD)), "required": ["name"]},
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["name"],
    }
    async with defined(api, define(fields(parts=parts))) as gauge:
        held = [{"name": "a", "level": 5}, {"name": "b", "level": 1}]
        (await gauge.create(gauge.build(spec={"parts": held}))).ok()

        moved = await gauge.patch({"spec": {"parts": [{"name": "c", "level": 0}, *held[::-1]]}})
        back = await gauge.patch({"spec": {"parts": [{"name": "b", "level": 0}]}})

    assert moved.status == 200
    assert back.refused(422, "Invalid").fields == ["spec.parts[0].level"]


async def test_optional_old_value_is_asked_for_new_objects_too(api: Api) -> None:
    rule = {
        "rule": "oldSelf.hasValue() ? self >= oldSelf.value() : self == 0",
        "optionalOldSelf": True,
    }
    async with defined(api, define(fields(level=ruled(NUMBER, rule)))) as gauge:
        high = await gauge.create(gauge.build(spec={"level": 1}))
        low = await gauge.create(gauge.build(spec={"level": 0}))
        forth = await gauge.patch({"spec": {"level": 2}})
        back = await gauge.patch({"spec": {"level": 1}})

    assert [a.status for a in (high, low, forth, back)] == [422, 201, 200, 422]


async def test_root_rule_sees_the_name(api: Api) -> None:
    definition = define(fields(code=TEXT))
    root = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    root |= ruled(root, {"rule": "self.metadata.name.size() < 4", "message": "name is long"})
    async with defined(api, definition) as gauge:
        answer = await gauge.create(gauge.build("abcd", spec={}))
        accepted = await gauge.create(gauge.build("abc", spec={}))

    assert "name is long" in answer.refused(422, "Invalid").body["message"]
    assert accepted.status == 201


async def test_rule_of_the_name_itself(api: Api) -> None:
    definition = define(fields(code=TEXT))
    root = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    root["properties"]["metadata"] = fields(name=ruled(TEXT, "!self.contains('.')"))
    async with defined(api, definition) as gauge:
        answer = await gauge.create(gauge.build("a.b", spec={}))

    assert answer.refused(422, "Invalid").fields == ["metadata.name"]


# --- what a definition that became stricter tolerates --------------------------------------------


STRICTER: list[Any] = [
    pytest.param(ruled(TEXT, "self == 'a'"), id="rule"),
    pytest.param({"type": "string", "pattern": "^a$"}, id="pattern"),
    pytest.param({"type": "string", "enum": ["a"]}, id="enum"),
    pytest.param({"type": "string", "maxLength": 1}, id="length"),
]


@pytest.mark.parametrize("stricter", STRICTER)
async def test_unchanged_value_may_break_a_newer_rule(api: Api, stricter: Object) -> None:
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


async def test_transition_rule_tolerates_nothing(api: Api) -> None:
    never = {"rule": "self == oldSelf && self != 'old'", "message": "never"}
    also = "self != 'new'"
    async with defined(api, define(fields(code=TEXT, level=NUMBER))) as gauge:
        (await gauge.create(gauge.build(spec={"code": "old"}))).ok()
        await gauge.tighten(
            fields(code=ruled(TEXT, never, also), level=NUMBER), refused={"code": "new"}
        )

        beside = await gauge.patch({"spec": {"level": 1}})
        status = await gauge.patch({"status": {"state": "x"}}, status=True)

    assert [a.status for a in (beside, status)] == [422, 422]


async def test_rule_of_a_whole_that_changed_tolerates_nothing(api: Api) -> None:
    plain = fields(code=TEXT, level=NUMBER)
    async with defined(api, define(plain)) as gauge:
        (await gauge.create(gauge.build(spec={"code": "old"}))).ok()
        await gauge.tighten(ruled(plain, "self.code == 'a'"), refused={"code": "new"})

        beside = await gauge.patch({"spec": {"level": 1}})
        status = await gauge.patch({"status": {"state": "x"}}, status=True)

    assert [a.status for a in (beside, status)] == [422, 200]


async def test_status_write_is_not_asked_about_the_spec(api: Api) -> None:
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


@pytest.mark.parametrize(("kind", "code"), [("map", 200), (None, 422)])
async def test_unchanged_item_is_tolerated_in_lists_by_key_only(
    api: Api, kind: str | None, code: int
) -> None:
    async with defined(
        api,
        define(listed(kind, "")),
    ) as gauge:
        old = {"name": "old", "code": "x"}
        (await gauge.create(gauge.build(spec={"parts": [old]}))).ok()
        refused = {"parts": [{"name": "new", "code": "x"}]}
        await gauge.tighten(listed(kind, "^a$"), refused=refused)

        added = await gauge.patch({"spec": {"parts": [{"name": "b", "code": "a"}, old]}})
        labelled = await gauge.patch({"metadata": {"labels": {"a": "b"}}})
        changed = await gauge.patch({"spec": {"parts": [{"name": "old", "code": "y"}]}})

    assert [a.status for a in (added, labelled, changed)] == [code, 200, 422]


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


# --- definitions ---------------------------------------------------------------------------------


BAD_RULES: list[Any] = [
    pytest.param(TEXT, {"rule": "self =="}, "rule", id="syntax"),
    pytest.param(TEXT, {"rule": "other == 'a'"}, "rule", id="unknown name"),
    pytest.param(TEXT, {"rule": "self == 1"}, "rule", id="type"),
    pytest.param(TEXT, {"rule": "self"}, "rule", id="no condition"),
    pytest.param(TEXT, {"rule": " "}, "rule", id="empty"),
    pytest.param(TEXT, {"rule": "self.nothing()"}, "rule", id="unknown function"),
    pytest.param(TEXT, {"rule": "self == 'a'", "message": "a\nb"}, "message", id="lines"),
    pytest.param(TEXT, {"rule": "self == 'a'", "message": " "}, "message", id="blank message"),
    pytest.param(
        TEXT, {"rule": "self == 'a'", "messageExpression": "1"}, "messageExpression", id="number"
    ),
    pytest.param(TEXT, {"rule": "self == 'a'", "reason": "Bad"}, "reason", id="reason"),
    pytest.param(
        fields(b=TEXT), {"rule": "self.b == 'a'", "fieldPath": ".c"}, "fieldPath", id="path"
    ),
    pytest.param(
        TEXT, {"rule": "self == 'a'", "optionalOldSelf": True}, "optionalOldSelf", id="no old"
    ),
]


@pytest.mark.parametrize(("schema", "rule", "field"), BAD_RULES)
async def test_definition_with_a_bad_rule_is_refused(
    api: Api, schema: Object, rule: Object, field: str
) -> None:
    definition = rename(define(fields(code=ruled(schema, rule))))

    answer = await api.create(DEFINITIONS, definition, dryRun="All")

    path = f"spec.validation.openAPIV3Schema.properties[spec].properties[code].{RULES}[0].{field}"
    assert answer.refused(422, "Invalid").fields == [path]


async def test_definition_with_a_transition_rule_of_plain_items_is_refused(api: Api) -> None:
    codes = {"type": "array", "maxItems": 5, "items": ruled(TEXT, "self == oldSelf")}

    answer = await api.create(DEFINITIONS, rename(define(fields(codes=codes))), dryRun="All")

    assert "oldSelf cannot be used" in answer.refused(422, "Invalid").body["message"]


BAD_DEFAULTS: list[Any] = [
    pytest.param(NUMBER, "x", "default", id="text for a number"),
    pytest.param({"type": "string"}, 1, "default", id="number for a text"),
    pytest.param({"type": "string", "enum": ["a"]}, "z", "default", id="enum"),
    pytest.param({"type": "integer", "minimum": 0}, -1, "default", id="minimum"),
    pytest.param(fields(b=NUMBER), {"b": "x"}, "default.b", id="nested"),
    pytest.param(fields(b=NUMBER), {"c": 1}, "default", id="unknown field"),
    pytest.param({**fields(b=NUMBER), "required": ["b"]}, {}, "default.b", id="required"),
    pytest.param(ruled(TEXT, "self == 'a'"), "b", "default", id="rule"),
]


@pytest.mark.parametrize(("schema", "default", "field"), BAD_DEFAULTS)
async def test_definition_with_a_bad_default_is_refused(
    api: Api, schema: Object, default: Any, field: str
) -> None:
    definition = rename(define(fields(code={**schema, "default": default})))

    answer = await api.create(DEFINITIONS, definition, dryRun="All")

    path = f"spec.validation.openAPIV3Schema.properties[spec].properties[code].{field}"
    assert answer.refused(422, "Invalid").fields == [path]


async def test_definition_of_a_list_by_optional_keys_is_refused(api: Api) -> None:
    schema = listed("map", "")
    del schema["properties"]["parts"]["items"]["required"]

    answer = await api.create(DEFINITIONS, rename(define(schema)), dryRun="All")

    [field] = answer.refused(422, "Invalid").fields
    assert field.endswith("properties[parts].items.properties[name].default")

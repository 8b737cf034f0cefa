"""PATCH, where tests/contract has no case: elements of lists, null, and the RFCs' own examples."""

from typing import Any

import pytest

from localcluster.apiserver.bodies.patches import (
    JSON_PATCH,
    MERGE_PATCH,
    STRATEGIC_MERGE_PATCH,
    apply_json_patch,
    apply_merge_patch,
    apply_patch,
)
from localcluster.apiserver.bodies.strategic import apply_strategic_patch
from localcluster.apiserver.model.builtins import CONFIG_MAPS
from localcluster.apiserver.model.errors import Object
from localcluster.apiserver.storage import StatusError


@pytest.mark.parametrize(
    ("operation", "expected"),
    [
        ({"op": "add", "path": "/a/-", "value": 3}, {"a": [1, 2, 3]}),
        ({"op": "add", "path": "/a/0", "value": 0}, {"a": [0, 1, 2]}),
        ({"op": "remove", "path": "/a/0"}, {"a": [2]}),
        ({"op": "replace", "path": "/a/1", "value": 9}, {"a": [1, 9]}),
        ({"op": "move", "from": "/a/0", "path": "/b"}, {"a": [2], "b": 1}),
        ({"op": "copy", "from": "/a", "path": "/b"}, {"a": [1, 2], "b": [1, 2]}),
        ({"op": "add", "path": "/x~1y~0z", "value": 1}, {"a": [1, 2], "x/y~z": 1}),
        ({"op": "test", "path": "/a/0", "value": 1}, {"a": [1, 2]}),
        ({"op": "test", "path": "/none", "value": None}, {"a": [1, 2]}),
    ],
)
def test_json_patch_applies(operation: Object, expected: Object) -> None:
    document = {"a": [1, 2]}
    assert apply_json_patch(document, [operation]) == expected
    assert document == {"a": [1, 2]}


@pytest.mark.parametrize(
    ("operations", "code"),
    [
        ([{"op": "test", "path": "/a/0", "value": 2}], 422),
        ([{"op": "test", "path": "/a/0", "value": True}], 422),
        ([{"op": "add", "path": "/a/5", "value": 1}], 422),
        ([{"op": "replace", "path": "/a/5", "value": 1}], 422),
        ([{"op": "move", "from": "/a", "path": "/a/b"}], 422),
        ([{"op": "nonsense", "path": "/a"}], 422),
        ([{"op": "copy", "path": "/b", "from": 1}], 400),
        ([{"path": 1}], 400),
        ([{"op": "test", "path": ""}] * 10_001, 413),
    ],
)
def test_json_patch_refuses(operations: Any, code: int) -> None:
    with pytest.raises(StatusError) as caught:
        apply_json_patch({"a": [1, 2]}, operations)
    assert caught.value.code == code


@pytest.mark.parametrize(
    ("target", "patch", "expected"),
    [
        ({"a": "b"}, {"a": "c"}, {"a": "c"}),
        ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
        ({"a": "b"}, {"a": None}, {}),
        ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
        ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
        ({"a": "c"}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
        ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
        ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
    ],
)
def test_merge_patch_follows_the_rfc(target: Object, patch: Object, expected: Object) -> None:
    assert apply_merge_patch(target, patch) == expected


@pytest.mark.parametrize(
    ("patch", "content_type", "code"),
    [
        ([], JSON_PATCH, None),
        ({}, MERGE_PATCH + ";charset=utf-8", None),
        ([], MERGE_PATCH, 400),
        ([], STRATEGIC_MERGE_PATCH, 400),
        ({}, "application/apply-patch+yaml", 415),
    ],
)
def test_patch_has_a_known_type_and_its_form(
    patch: Any, content_type: str, code: int | None
) -> None:
    held = {"data": {"a": "1"}}
    if code is None:
        assert apply_patch(CONFIG_MAPS, held, patch, content_type) == held
        return
    with pytest.raises(StatusError) as caught:
        apply_patch(CONFIG_MAPS, held, patch, content_type)
    assert caught.value.code == code


NAMED = [{"name": "a", "image": "1"}, {"name": "b", "image": "2"}]


@pytest.mark.parametrize(
    ("type_name", "field", "target", "patch", "expected"),
    [
        ("PodSpec", "containers", NAMED, [{"name": "c"}], [*NAMED, {"name": "c"}]),
        ("PodSpec", "containers", NAMED, [{"name": "b", "$patch": "delete"}], NAMED[:1]),
        ("PodSpec", "securityContext", {"runAsUser": 1}, {"$patch": "delete"}, {}),
        ("PodSpec", "containers", NAMED, [{"$patch": "replace"}, {"name": "z"}], [{"name": "z"}]),
        ("PodSpec", "containers", NAMED, None, None),
        ("PodSpec", "tolerations", [{"key": "a"}], [{"key": "b"}], [{"key": "b"}]),
        ("ObjectMeta", "labels", {"a": "1", "b": "2"}, {"a": None, "c": "3"}, {"b": "2", "c": "3"}),
        ("ObjectMeta", "labels", {"a": "1"}, {"$patch": "replace", "c": "3"}, {"c": "3"}),
        (
            "PodStatus",
            "conditions",
            [{"type": "A", "status": "False", "reason": "r"}],
            [{"type": "A", "status": "True"}],
            [{"type": "A", "status": "True", "reason": "r"}],
        ),
    ],
    ids=[
        "added",
        "deleted",
        "deleted map",
        "replaced",
        "null",
        "atomic",
        "map",
        "replaced map",
        "merged",
    ],
)
def test_strategic_patch_applies(
    type_name: str, field: str, target: Any, patch: Any, expected: Any
) -> None:
    patched = apply_strategic_patch(type_name, {field: target}, {field: patch})
    assert patched == ({} if expected is None else {field: expected})

"""PATCH: JSON, merge, strategic merge, apply."""

from typing import Any

import pytest

from localcluster.apiserver.bodies.patches import (
    apply_json_patch,
    apply_merge_patch,
)
from localcluster.apiserver.bodies.strategic import apply_strategic_patch
from localcluster.apiserver.model.errors import Object
from localcluster.apiserver.storage import StatusError


@pytest.mark.parametrize(
    ("operations", "expected"),
    [
        ([{"op": "add", "path": "/b", "value": 1}], {"a": [1, 2], "b": 1}),
        ([{"op": "add", "path": "/a/-", "value": 3}], {"a": [1, 2, 3]}),
        ([{"op": "add", "path": "/a/0", "value": 0}], {"a": [0, 1, 2]}),
        ([{"op": "remove", "path": "/a/0"}], {"a": [2]}),
        ([{"op": "replace", "path": "/a/1", "value": 9}], {"a": [1, 9]}),
        ([{"op": "replace", "path": "/new", "value": 9}], {"a": [1, 2], "new": 9}),
        ([{"op": "move", "from": "/a/0", "path": "/b"}], {"a": [2], "b": 1}),
        ([{"op": "copy", "from": "/a", "path": "/b"}], {"a": [1, 2], "b": [1, 2]}),
        ([{"op": "add", "path": "/x~1y~0z", "value": 1}], {"a": [1, 2], "x/y~z": 1}),
        ([{"op": "test", "path": "/a/0", "value": 1}], {"a": [1, 2]}),
        ([{"op": "test", "path": "/none", "value": None}], {"a": [1, 2]}),
    ],
)
def test_json_patch_applies(operations: list[Object], expected: Object) -> None:
    document = {"a": [1, 2]}
    assert apply_json_patch(document, operations) == expected
    assert document == {"a": [1, 2]}


@pytest.mark.parametrize(
    ("operations", "code"),
    [
        ([{"op": "test", "path": "/a/0", "value": 2}], 422),
        ([{"op": "test", "path": "/a/0", "value": True}], 422),
        ([{"op": "remove", "path": "/none"}], 422),
        ([{"op": "add", "path": "/none/x", "value": 1}], 422),
        ([{"op": "add", "path": "/a/5", "value": 1}], 422),
        ([{"op": "replace", "path": "/a/5", "value": 1}], 422),
        ([{"op": "move", "from": "/a", "path": "/a/b"}], 422),
        ([{"op": "nonsense", "path": "/a"}], 422),
        ([{"op": "add", "value": 1}], 422),
        ([{"op": "copy", "path": "/b"}], 422),
        ([{"path": "/a", "value": 1}], 422),
        ([{"op": "copy", "path": "/b", "from": 1}], 400),
        (["add"], 400),
        ({"op": "add"}, 400),
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


def items(text: str) -> list[Object]:
    return [{"name": name, "image": name} for name in text]


@pytest.mark.parametrize(
    ("patch", "expected"),
    [
        pytest.param({"containers": [{"name": "b", "image": "x"}]}, "abc", id="merge"),
        pytest.param({"containers": [{"name": "d", "image": "d"}]}, "abcd", id="add"),
        pytest.param({"containers": [{"name": "b", "$patch": "delete"}]}, "ac", id="delete"),
        pytest.param({"containers": [{"$patch": "replace"}, *items("z")]}, "z", id="replace"),
        pytest.param({"containers": None}, None, id="null"),
    ],
)
def test_strategic_patch_joins_lists_by_key(patch: Object, expected: str | None) -> None:
    merged = apply_strategic_patch("PodSpec", {"containers": items("abc")}, patch)
    names = [item["name"] for item in merged["containers"]] if "containers" in merged else None
    assert names == (None if expected is None else list(expected))


@pytest.mark.parametrize(
    ("type_name", "target", "patch", "expected"),
    [
        pytest.param(
            "ObjectMeta",
            {"finalizers": ["a", "b"]},
            {"finalizers": ["c"], "$deleteFromPrimitiveList/finalizers": ["a"]},
            {"finalizers": ["b", "c"]},
            id="primitive-set",
        ),
        pytest.param(
            "PodSpec",
            {"tolerations": [{"key": "a"}]},
            {"tolerations": [{"key": "b"}]},
            {"tolerations": [{"key": "b"}]},
            id="atomic-list",
        ),
        pytest.param(
            "PodStatus",
            {"conditions": [{"type": "A", "status": "False", "reason": "r"}]},
            {"conditions": [{"type": "A", "status": "True"}]},
            {"conditions": [{"type": "A", "status": "True", "reason": "r"}]},
            id="conditions",
        ),
        pytest.param(
            "ObjectMeta",
            {"labels": {"a": "1", "b": "2"}},
            {"labels": {"a": None, "c": "3"}},
            {"labels": {"b": "2", "c": "3"}},
            id="map",
        ),
        pytest.param(
            "ObjectMeta",
            {"labels": {"a": "1"}},
            {"labels": {"$patch": "replace", "c": "3"}},
            {"labels": {"c": "3"}},
            id="replace-map",
        ),
    ],
)
def test_strategic_patch_applies(
    type_name: str, target: Object, patch: Object, expected: Object
) -> None:
    assert apply_strategic_patch(type_name, target, patch) == expected

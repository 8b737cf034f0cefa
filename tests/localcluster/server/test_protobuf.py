"""Protobuf bodies, written as Go writes them: empty fields included."""

import pytest

from localcluster.apiserver.front.protobuf import UnknownKindError, decode_envelope


def _field(number: int, content: bytes) -> bytes:
    return bytes([number << 3 | 2, len(content)]) + content


def _envelope(version: str, kind: str, raw: bytes) -> bytes:
    named = _field(1, version.encode()) + _field(2, kind.encode())
    return b"k8s\x00" + _field(1, named) + _field(2, raw) + _field(3, b"") + _field(4, b"")


def _meta(name: bytes) -> bytes:
    empty = b"".join(_field(number, b"") for number in (2, 3, 4, 5, 6))
    return _field(1, name) + empty + b"\x38\x00" + _field(8, b"")


def test_namespace_has_its_name_only() -> None:
    raw = _field(1, _meta(b"foo")) + _field(2, b"") + _field(3, _field(1, b""))

    assert decode_envelope(_envelope("v1", "Namespace", raw)) == {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": "foo"},
    }


def test_config_map_has_text_and_bytes() -> None:
    data = _field(2, _field(1, b"a") + _field(2, b"b")) + _field(2, _field(1, b"empty"))
    binary = _field(3, _field(1, b"c") + _field(2, b"\x00\x01"))
    raw = _field(1, _meta(b"one")) + data + binary + b"\x20\x01"

    decoded = decode_envelope(_envelope("v1", "ConfigMap", raw))

    assert decoded["data"] == {"a": "b", "empty": ""}
    assert decoded["binaryData"] == {"c": "AAE="}
    assert decoded["immutable"] is True


def test_metadata_with_labels_and_finalizers() -> None:
    metadata = (
        _field(1, b"one")
        + _field(11, _field(1, b"k") + _field(2, b"v"))
        + _field(14, b"a/b")
        + _field(14, b"c/d")
        + _field(13, _field(1, b"Pod") + _field(4, b"u") + b"\x30\x01")
    )

    decoded = decode_envelope(_envelope("v1", "ServiceAccount", _field(1, metadata)))

    assert decoded["metadata"] == {
        "name": "one",
        "labels": {"k": "v"},
        "finalizers": ["a/b", "c/d"],
        "ownerReferences": [{"kind": "Pod", "uid": "u", "controller": True}],
    }


def test_unknown_kind_is_told_apart() -> None:
    with pytest.raises(UnknownKindError, match="Pod"):
        decode_envelope(_envelope("v1", "Pod", b""))


@pytest.mark.parametrize(
    "body",
    [
        b"{}",
        b"k8s\x00\x0a\x7f",
        b"k8s\x00\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff",
        b"k8s\x00\x0a",
        b"k8s\x00\x0b\x00",
        b"k8s\x00\x08\x01",
    ],
    ids=["json", "cut", "number", "no size", "group", "wrong type"],
)
def test_malformed_body_is_refused(body: bytes) -> None:
    with pytest.raises(ValueError, match="protobuf parse error"):
        decode_envelope(body)

"""Reads the metadata of an object, or of the object of a row of a Table. Pure."""

from collections.abc import Mapping
from typing import Any

from framework.kube.resources import Object

ObjectKey = tuple[str, str]
"""Namespace and name."""
_VERSION_DIGITS = 20
"""Enough for the counter of etcd; a longer number is no version of an API server."""


def read_key(body: Object) -> ObjectKey:
    """Return namespace and name of an object, or of the object of a row."""
    metadata = read_metadata(body)
    return str(metadata.get("namespace") or ""), str(metadata.get("name") or "")


def read_metadata(body: Object) -> Mapping[str, Any]:
    """Return the metadata of an object, or of the object of a row."""
    owner = body.get("object") if "cells" in body else body
    metadata = owner.get("metadata") if isinstance(owner, dict) else None
    return metadata if isinstance(metadata, dict) else {}


def read_version(body: Object) -> int:
    """Return the resourceVersion of an object as a number; 0 if it is not a number.

    It orders Events of the same second, because their times are whole seconds.
    """
    version = str(read_metadata(body).get("resourceVersion") or "")
    is_number = version.isascii() and version.isdecimal() and len(version) <= _VERSION_DIGITS
    return int(version) if is_number else 0

"""Reads the metadata of an object, or of the object of a row of a Table. Pure."""

from collections.abc import Mapping
from typing import Any

from framework.kube.resources import Object

ObjectKey = tuple[str, str]
"""Namespace and name."""


def read_key(body: Object) -> ObjectKey:
    """Return namespace and name of an object, or of the object of a row."""
    metadata = read_metadata(body)
    return str(metadata.get("namespace") or ""), str(metadata.get("name") or "")


def read_metadata(body: Object) -> Mapping[str, Any]:
    """Return the metadata of an object, or of the object of a row."""
    owner = body.get("object") if "cells" in body else body
    metadata = owner.get("metadata") if isinstance(owner, dict) else None
    return metadata if isinstance(metadata, dict) else {}

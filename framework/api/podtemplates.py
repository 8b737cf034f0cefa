"""Annotations of Pod templates, whose form nobody has checked."""

from collections.abc import Mapping
from typing import Any


def find_annotation(template: Mapping[str, Any] | None, name: str) -> object:
    """Find an annotation of a Pod template; None if it is absent."""
    metadata = (template or {}).get("metadata")
    annotations = metadata.get("annotations") if isinstance(metadata, Mapping) else None
    found: object = None
    if isinstance(annotations, Mapping):
        found = annotations.get(name)
    return found

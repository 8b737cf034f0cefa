"""Whether the processes of a role restart in place: its field, or an annotation of its template.

The annotation is for programs that write Pod templates only. The field overrides it.
"""

import re
from collections.abc import Mapping
from typing import Any

from framework.api import constants
from framework.api.podtemplates import find_annotation
from framework.api.recovery import InPlaceSpec
from framework.api.types import TaskRoleSpec

ANNOTATION_FORM = f"{constants.MAX_RESTARTS_FIELD}=3,{constants.WITHIN_SECONDS_FIELD}=3600"
_ANNOTATION = re.compile(
    f"{constants.MAX_RESTARTS_FIELD}=([1-9][0-9]{{0,2}}),"
    f"{constants.WITHIN_SECONDS_FIELD}=([1-9][0-9]{{0,8}})",
    re.ASCII,
)


def find_in_place(role: TaskRoleSpec) -> InPlaceSpec | None:
    """Find the restart in place of a role; None if it has none that can be read."""
    return choose_in_place(role, find_annotated(role.task.pod))


def choose_in_place(role: TaskRoleSpec, annotated: InPlaceSpec | None) -> InPlaceSpec | None:
    """Choose the restart in place of a role: the field overrides what is annotated."""
    field = None if role.recovery is None else role.recovery.in_place
    return annotated if field is None else field


def find_annotated(template: Mapping[str, Any] | None) -> InPlaceSpec | None:
    """Find the restart in place that a Pod template has as an annotation that can be read."""
    return parse_annotation(find_text(template))


def find_text(template: Mapping[str, Any] | None) -> object:
    """Find the annotation of a Pod template; None if it is absent."""
    return find_annotation(template, constants.IN_PLACE_ANNOTATION)


def parse_annotation(text: object) -> InPlaceSpec | None:
    """Parse the annotation; None if it is not of ``ANNOTATION_FORM``, or out of bounds."""
    found = _ANNOTATION.fullmatch(text) if isinstance(text, str) else None
    if found is None or int(found.group(1)) > constants.MAX_IN_PLACE_RESTARTS:
        return None
    return InPlaceSpec(int(found.group(1)), int(found.group(2)))

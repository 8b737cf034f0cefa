"""Restart in place by the field or by the annotation."""

from typing import Any

import pytest

from framework.api import constants
from framework.api.inplace import ANNOTATION_FORM, find_in_place, parse_annotation
from framework.api.recovery import InPlaceSpec, RecoverySpec
from framework.api.types import TaskRoleSpec, TaskSpec


def build(annotations: Any, recovery: RecoverySpec | None = None) -> TaskRoleSpec:
    task = TaskSpec(pod={"metadata": {"annotations": annotations}})
    return TaskRoleSpec("worker", 2, task=task, recovery=recovery)


def test_annotation_of_the_template_stands_for_the_field_which_overrides_it() -> None:
    annotated = {constants.IN_PLACE_ANNOTATION: ANNOTATION_FORM}
    assert find_in_place(build(annotated)) == InPlaceSpec(3, 3600)
    field = RecoverySpec(InPlaceSpec(1, 60))
    assert find_in_place(build(annotated, field)) == InPlaceSpec(1, 60)
    assert find_in_place(build({})) is None
    assert find_in_place(TaskRoleSpec("worker", 2)) is None


@pytest.mark.parametrize("metadata", [None, [], "a", {"annotations": None}, {"annotations": ["a"]}])
def test_template_of_another_form_has_no_restart_in_place(metadata: Any) -> None:
    assert find_in_place(TaskRoleSpec("w", 1, task=TaskSpec(pod={"metadata": metadata}))) is None


@pytest.mark.parametrize(
    "text",
    [
        "",
        "3/3600",
        "maxRestarts=0,withinSeconds=60",
        "maxRestarts=101,withinSeconds=60",
        "maxRestarts=3,withinSeconds=0",
        "maxRestarts=3,withinSeconds=60\n",
        "maxRestarts=3,withinSeconds=9999999999",
        3,
        None,
    ],
)
def test_annotation_of_another_form_is_not_read(text: object) -> None:
    assert parse_annotation(text) is None
    assert parse_annotation("maxRestarts=100,withinSeconds=60") == InPlaceSpec(100, 60)

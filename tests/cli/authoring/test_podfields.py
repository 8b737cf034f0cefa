"""Misspelt fields of Pod templates are warnings; unknown ones that resemble none are not."""

from typing import Any

import pytest

from cli.authoring.podfields import find_misspelt_fields

POD = "spec.taskRoles[0].task.pod.spec"


def build(pod: dict[str, Any], **container: Any) -> dict[str, Any]:
    spec = {"containers": [{"name": "main", "image": "busybox", **container}], **pod}
    return {"spec": {"taskRoles": [{"name": "worker", "task": {"pod": {"spec": spec}}}]}}


@pytest.mark.parametrize(
    ("framework", "path", "known"),
    [
        (build({"restartpolicy": "Never"}), f"{POD}.restartpolicy", "restartPolicy"),
        (build({"nodeselector": {}}), f"{POD}.nodeselector", "nodeSelector"),
        (
            build({}, imagepullpolicy="Never"),
            f"{POD}.containers[0].imagepullpolicy",
            "imagePullPolicy",
        ),
        (build({}, volumeMount=[]), f"{POD}.containers[0].volumeMount", "volumeMounts"),
        (build({}, resources={"limit": {}}), f"{POD}.containers[0].resources.limit", "limits"),
    ],
)
def test_misspelt_field_is_found(framework: dict[str, Any], path: str, known: str) -> None:
    (found,) = find_misspelt_fields(framework)
    assert (found.path, found.fix) == (path, f"write `{known}`")


def test_known_and_new_fields_are_no_fault() -> None:
    newer = build({"gangScheduling": {}, "restartPolicy": "Never"}, checkpoint={}, tty=True)
    assert list(find_misspelt_fields(newer)) == []
    assert list(find_misspelt_fields({"spec": {"taskRoles": "odd"}})) == []

"""The objects of our situations have the same keys as the recorded objects of the original."""

import os
from collections.abc import Iterator
from typing import Any

import pytest

from framework.kube.resources import Object
from tests.skips import NO_RECORDINGS
from tests.upgrade.recorded import RECORDED_ENV, find_recorded, read_recorded
from tests.upgrade.situations import SITUATIONS
from tests.upgrade.stored import open_status

# Not the original's, and not the same in all versions of the server.
GIVEN_BY_SERVER = {"Pod.generation", "ConfigMap.deletionGracePeriodSeconds"}


def walk_keys(value: Any, path: str = "") -> Iterator[str]:
    """Walk the keys of nested objects; list elements count as one."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield f"{path}.{key}"
            yield from walk_keys(inner, f"{path}.{key}")
    elif isinstance(value, list):
        for inner in value:
            yield from walk_keys(inner, f"{path}[]")


def list_keys(objects: list[Object], part: str) -> set[str]:
    return {key for body in objects for key in walk_keys(body[part], body["kind"])}


@pytest.mark.parametrize("name", SITUATIONS)
def test_situation_has_the_keys_of_the_recorded_one(name: str) -> None:
    folder = find_recorded(os.environ)
    if folder is None:
        pytest.skip(f"{NO_RECORDINGS}set {RECORDED_ENV} to a folder of List files")
    recorded, ours = read_recorded(folder)[name], SITUATIONS[name]()
    for objects in (recorded, ours):
        open_status(objects[0])
    kinds = [[b["kind"] for b in objects if b["kind"] != "Pod"] for objects in (ours, recorded)]
    assert kinds[0] == kinds[1]
    # Only the recorded Frameworks name a scheduler: a program of that name moved their Pods.
    scheduler = {"Framework.taskRoles[].task.pod.spec.schedulerName"}
    assert list_keys(ours[:1], "spec") == list_keys(recorded[:1], "spec") - scheduler
    status = list_keys(ours[:1], "status")
    # In our situation `compressed`, unlike in the recorded one, some Tasks have ended.
    ended = {key for key in status if ".completionStatus." in key and name == "compressed"}
    assert status - ended == list_keys(recorded[:1], "status")
    metadata = list_keys(ours[1:], "metadata") ^ list_keys(recorded[1:], "metadata")
    assert metadata <= GIVEN_BY_SERVER

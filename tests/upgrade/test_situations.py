"""Our own situations have the shape of what the original was recorded to store."""

import copy
import os
from collections.abc import Iterator
from typing import Any

import pytest

from framework.api import codec
from framework.kube.resources import Object
from tests.upgrade.recorded import RECORDED_ENV, find_recorded, read_recorded
from tests.upgrade.situations import SITUATIONS
from tests.upgrade.stored import list_roles, open_status

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


def open_list(objects: list[Object]) -> list[Object]:
    opened = copy.deepcopy(objects)
    open_status(opened[0])
    return opened


@pytest.mark.parametrize("name", SITUATIONS)
def test_situation_has_the_keys_of_the_recorded_one(name: str) -> None:
    folder = find_recorded(os.environ)
    if folder is None:
        pytest.skip(f"no objects of the original: set {RECORDED_ENV} to a folder of List files")
    recorded = open_list(read_recorded(folder)[name])
    ours = open_list(SITUATIONS[name]())
    assert [b["kind"] for b in ours if b["kind"] != "Pod"] == [
        b["kind"] for b in recorded if b["kind"] != "Pod"
    ]
    assert set(walk_keys(ours[0]["spec"])) == set(walk_keys(recorded[0]["spec"])) - {
        # Theirs were moved by a scheduler of that name.
        ".taskRoles[].task.pod.spec.schedulerName"
    }
    statuses = [set(walk_keys(body[0]["status"])) for body in (ours, recorded)]
    # In our long one some Tasks have ended.
    ended = {key for key in statuses[0] if ".completionStatus." in key and name == "compressed"}
    assert statuses[0] - ended == statuses[1]
    metas = [
        {key for body in bodies[1:] for key in walk_keys(body["metadata"], body["kind"])}
        for bodies in (ours, recorded)
    ]
    assert metas[0] ^ metas[1] <= GIVEN_BY_SERVER


@pytest.mark.parametrize("name", SITUATIONS)
def test_situation_is_read_and_claims_its_pods(name: str) -> None:
    objects = open_list(SITUATIONS[name]())
    claimed = {
        task["attemptStatus"]["podUID"]
        for role in list_roles(objects[0])
        for task in role["taskStatuses"]
        if task["completionTime"] is None
    }
    pods = {body["metadata"]["uid"] for body in objects if body["kind"] == "Pod"}
    unclaimed = pods - claimed
    assert claimed - pods <= {None}
    # One Pod was created and its UID not recorded: that of a Task which waits for it.
    assert len(unclaimed) == (1 if name == "preparing" else 0)
    assert codec.decode_framework(SITUATIONS[name]()[0]).status is not None

"""Changes reach the server as computed, or not at all: races with other clients."""

from collections.abc import Callable
from typing import Any

import pytest

from cli.exitcodes import CliError, ExitCode
from cli.steer.apply import change_framework, delete_object
from cli.steer.changes import Change, Gang, compute_stop, set_field
from cli.steer.scaling import removal, scaling
from framework.api.naming import TaskKey
from framework.kinds.crd import build_crds
from framework.kinds.trainingjob import types as trainingjob
from framework.kube.errors import InvalidError
from framework.kube.resources import FRAMEWORKS, Object
from localcluster.apiserver.model.builtins import CUSTOM_RESOURCE_DEFINITIONS
from tests.support.builders import build_role_wire, build_submission
from tests.support.fakes.storageclient import (
    Fate,
    LoopClock,
    Network,
    Request,
    StorageClient,
    find_type,
    open_storage,
)

pytestmark = pytest.mark.looptime


class OtherClient(Network):
    """Acts before each of the first patches or deletes arrives."""

    def __init__(self, act: Callable[[], None], times: int = 1) -> None:
        self._act = act
        self._left = times
        self.writes = 0

    def draw_fate(self, request: Request) -> Fate:
        if request.verb in {"patch", "delete"}:
            self.writes += 1
            if self._left:
                self._left -= 1
                self._act()
        return Fate()


@pytest.fixture
async def client() -> StorageClient:
    """A client of a server with the gang: a worker role, then a ps role."""
    storage = open_storage(LoopClock())
    for definition in build_crds().values():
        storage.create(CUSTOM_RESOURCE_DEFINITIONS, None, definition)
    opened = StorageClient(storage)
    create(opened)
    return opened


def create(client: StorageClient) -> None:
    roles = build_role_wire("worker", 4), build_role_wire("ps", 1)
    rt = find_type(client.storage, FRAMEWORKS)
    client.storage.create(rt, "default", build_submission("gang", *roles))


def read(client: StorageClient) -> Object:
    return client.storage.get(find_type(client.storage, FRAMEWORKS), "default", "gang")


def update(client: StorageClient, edit: Callable[[Object], None]) -> None:
    """Change the gang as another client does."""
    body = read(client)
    edit(body)
    client.storage.update(find_type(client.storage, FRAMEWORKS), "default", "gang", body)


def delete(client: StorageClient) -> None:
    client.storage.delete(find_type(client.storage, FRAMEWORKS), "default", "gang")


def reverse_roles(body: Object) -> None:
    body["spec"]["taskRoles"].reverse()


def list_sizes(client: StorageClient) -> list[tuple[str, int]]:
    return [(r["name"], r["taskNumber"]) for r in read(client)["spec"]["taskRoles"]]


async def scale(client: StorageClient, size: int, dry_run: str = "none") -> Change:
    compute = scaling({"worker": size}, {})
    outcome = await change_framework(client, "default", "gang", compute, dry_run=dry_run)
    return outcome.change


async def test_role_that_moved_between_read_and_write_is_the_one_scaled(
    client: StorageClient,
) -> None:
    client.network = OtherClient(lambda: update(client, reverse_roles))
    await scale(client, 8)
    assert list_sizes(client) == [("ps", 1), ("worker", 8)]


async def test_size_that_another_client_changed_is_computed_again(client: StorageClient) -> None:
    def grow(body: Object) -> None:
        body["spec"]["taskRoles"][0] |= {"taskNumber": 6, "absentTaskIndices": [1]}

    client.network = OtherClient(lambda: update(client, grow))
    change = await scale(client, 8)
    assert list_sizes(client) == [("worker", 9), ("ps", 1)]
    assert "worker: 5 -> 8 Tasks" in change.notes


async def test_task_that_was_removed_between_read_and_write_is_not_counted(
    client: StorageClient,
) -> None:
    def leave_out(body: Object) -> None:
        body["spec"]["taskRoles"][0]["absentTaskIndices"] = [1]

    client.network = OtherClient(lambda: update(client, leave_out))
    change = await scale(client, 3)
    assert list_sizes(client) == [("worker", 4), ("ps", 1)]
    assert "worker: 3 Tasks" in change.notes


async def test_task_that_was_scaled_down_between_read_and_write_cannot_be_removed(
    client: StorageClient,
) -> None:
    def shrink(body: Object) -> None:
        body["spec"]["taskRoles"][0]["taskNumber"] = 2

    client.network = OtherClient(lambda: update(client, shrink))
    compute = removal([TaskKey("worker", 3)], is_undo=False)
    with pytest.raises(CliError, match="worker"):
        await change_framework(client, "default", "gang", compute, dry_run="none")
    assert not read(client)["spec"]["taskRoles"][0].get("absentTaskIndices")


async def test_framework_created_again_meanwhile_is_left_alone(client: StorageClient) -> None:
    def replace() -> None:
        delete(client)
        create(client)

    client.network = OtherClient(replace)
    with pytest.raises(CliError, match="created again meanwhile") as caught:
        await scale(client, 8)
    assert caught.value.exit_code is ExitCode.FAILED
    assert list_sizes(client) == [("worker", 4), ("ps", 1)]


async def test_framework_deleted_meanwhile_does_not_exist(client: StorageClient) -> None:
    client.network = OtherClient(lambda: delete(client))
    with pytest.raises(CliError, match="no Framework 'gang' in namespace default"):
        await scale(client, 8)


async def test_change_gives_up_after_five_conflicts(client: StorageClient) -> None:
    client.network = network = OtherClient(lambda: update(client, reverse_roles), times=100)
    with pytest.raises(CliError, match="others changed it 5 times"):
        await scale(client, 8)
    assert network.writes == 5
    assert dict(list_sizes(client)) == {"worker": 4, "ps": 1}


async def test_value_that_the_server_refuses_is_reported_by_the_server(
    client: StorageClient,
) -> None:
    def compute(gang: Gang) -> Change:
        return Change("scaled", set_field(gang, -1, "taskRoles", 0, "taskNumber"))

    with pytest.raises(InvalidError, match="taskNumber"):
        await change_framework(client, "default", "gang", compute, dry_run="none")


@pytest.mark.parametrize(("dry_run", "writes"), [("client", 0), ("server", 1)])
async def test_dry_run_shows_the_change_and_stores_nothing(
    client: StorageClient, dry_run: str, writes: int
) -> None:
    client.network = network = OtherClient(lambda: None)
    outcome = await change_framework(client, "default", "gang", compute_stop, dry_run=dry_run)
    assert outcome.after["spec"]["executionType"] == "Stop"
    assert read(client)["spec"]["executionType"] == "Start"
    assert network.writes == writes


async def test_unknown_name_lists_the_frameworks_of_the_namespace(client: StorageClient) -> None:
    with pytest.raises(CliError, match=r"no Framework 'gagn'.*there is gang") as caught:
        await change_framework(client, "default", "gagn", compute_stop, dry_run="none")
    assert caught.value.exit_code is ExitCode.FAILED


async def test_framework_that_its_job_puts_back_is_not_changed(client: StorageClient) -> None:
    owner = {"apiVersion": trainingjob.API_VERSION, "kind": trainingjob.KIND, "name": "job"}

    def belong(body: Object) -> None:
        body["metadata"]["ownerReferences"] = [owner | {"uid": "job-uid", "controller": True}]

    update(client, belong)
    with pytest.raises(CliError, match="belongs to the TrainingJob job"):
        await scale(client, 2)
    assert list_sizes(client) == [("worker", 4), ("ps", 1)]


async def remove(client: StorageClient, body: Object, **options: Any) -> bool:
    chosen = {"propagation": "Background", "dry_run": "none", **options}
    return await delete_object(client, "default", body, **chosen)


async def test_delete_of_a_framework_created_again_leaves_the_new_one(
    client: StorageClient,
) -> None:
    old = read(client)
    delete(client)
    create(client)
    assert not await remove(client, old)
    assert read(client)["metadata"]["uid"] != old["metadata"]["uid"]


@pytest.mark.parametrize("dry_run", ["client", "server"])
async def test_dry_run_of_delete_deletes_nothing(client: StorageClient, dry_run: str) -> None:
    assert await remove(client, read(client), dry_run=dry_run)
    assert list_sizes(client)

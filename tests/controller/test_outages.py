"""A controller whose API server is away, restored or changed: in virtual time."""

import asyncio
import copy

import pytest

from framework.api.constants import FRAMEWORK_CRD_NAME
from framework.clock import SequentialUids
from framework.kube import transport
from framework.kube.errors import build_api_error
from framework.kube.resources import CONFIGMAPS, CUSTOM_RESOURCE_DEFINITIONS, FRAMEWORKS, PODS
from localcluster.apiserver.model.errors import StatusError
from localcluster.apiserver.storage import Storage
from tests.support.builders import NAMESPACE
from tests.support.fakes.storageclient import Fate, LoopClock, Request
from tests.support.simulator.controllers import World, open_world

pytestmark = pytest.mark.looptime


@pytest.mark.parametrize("number", [3, pytest.param(200, marks=pytest.mark.slow)])
async def test_frameworks_reconverge_10_seconds_after_300_without_a_server(number: int) -> None:
    async with open_world() as world:
        program = world.start()
        for n in range(number):
            await world.create(f"f{n:03}", count=1)
        await world.wait_for_pods("f", number, seconds=30)
        program.link.is_cut = True
        await world.set_pods("Succeeded", "f")
        await asyncio.sleep(300)
        states = {f["status"]["state"] for f in world.list_objects(FRAMEWORKS)}
        assert states == {"AttemptPreparing"}
        assert len(program.list_unready()) == 3
        program.link.is_cut = False
        await asyncio.sleep(10)
        assert {f["status"]["state"] for f in world.list_objects(FRAMEWORKS)} == {"Completed"}
        assert program.read_metric('relists_total{resource="pods"}') == 0
        assert program.list_unready() == []


async def test_actions_that_failed_by_the_outage_are_tried_at_once_after_it() -> None:
    async with open_world() as world:
        program = world.start()
        await asyncio.sleep(1)
        # Only creates fail: the watches are open, so the Framework is known, and its backoff grows.
        program.link.draw = lambda r: Fate(is_lost=r.verb == "create" and r.resource is PODS)
        await world.create()
        await asyncio.sleep(120)
        program.link.is_cut = True
        await asyncio.sleep(20)
        program.link.is_cut = False
        program.link.draw = lambda _: Fate()
        assert await world.wait_for_pods() <= 6


def copy_storage(storage: Storage) -> Storage:
    """Copy what etcd would restore: the objects and their versions, without the log of writes."""
    copied = Storage(LoopClock(), SequentialUids(7))
    kept, restored = storage._state, copied._state
    for name in ("_objects", "_dependents", "_written", "collection_queue", "absent_owners"):
        setattr(restored, name, copy.deepcopy(getattr(kept, name)))
    restored.resource_version = restored.history._floor = kept.resource_version
    for rt in kept.registry.all():
        if rt.is_custom:
            restored.registry.replace_custom(rt.key, rt)
    return copied


async def test_storage_restored_from_a_backup_is_accepted_as_it_is() -> None:
    async with open_world() as world:
        program = world.start()
        await world.create_gang("kept")
        await asyncio.sleep(1)
        backup = copy_storage(world.storage)
        before = world.read_status("kept")
        await world.create("lost")
        await world.set_pods("Succeeded", "kept")
        await world.wait_for_state("Completed", "kept")
        program.link.is_cut = True
        await asyncio.sleep(15)
        world.restore(backup)
        assert world.read_status("kept") == before
        program.link.is_cut = False
        await asyncio.sleep(20)
        # Pods that had ended run again; the Framework that is not in the backup is forgotten.
        assert world.read_status("kept")["state"] == before["state"]
        assert program.read_metric("frameworks") == 1
        await world.set_pods("Succeeded", "kept")
        await world.wait_for_state("Completed", "kept", seconds=10)


async def test_paths_not_found_for_a_while_are_no_deletion(monkeypatch: pytest.MonkeyPatch) -> None:
    async with open_world() as world:
        program = world.start()
        await world.create_gang()
        original = program.client._transport.send

        async def refuse(request: transport.Request) -> bytes:
            if request.path.startswith(f"/apis/{FRAMEWORKS.api_version}/"):
                # The answer of a server whose CRD is being established: no Status object.
                raise build_api_error(404, b"404 page not found", method="GET", path=request.path)
            return await original(request)

        with monkeypatch.context() as patch:
            patch.setattr(program.client._transport, "send", refuse)
            await world.set_pods("Succeeded")
            await asyncio.sleep(5)
        await world.wait_for_state("Completed", seconds=15)


async def change_crd(world: World, *, has_status: bool) -> None:
    crd = await world.user.get(CUSTOM_RESOURCE_DEFINITIONS, None, FRAMEWORK_CRD_NAME)
    for version in crd["spec"]["versions"]:
        version["subresources"] = {"status": {}} if has_status else {}
    await world.user.replace(CUSTOM_RESOURCE_DEFINITIONS, None, FRAMEWORK_CRD_NAME, crd)
    missing = Fate(error=StatusError(404, "NotFound", "the server could not find the resource"))

    def draw(request: Request) -> Fate:
        is_status = request.resource is FRAMEWORKS and request.subresource == "status"
        return missing if is_status and not has_status else Fate()

    world.programs[0].link.draw = draw


async def test_crd_that_loses_its_status_stops_the_controller_until_it_is_right_again() -> None:
    async with open_world() as world:
        program = world.start()
        await world.create_gang("before", 1)
        await change_crd(world, has_status=False)
        await world.create("after", 1)
        await world.wait_for("a problem", lambda: program.list_unready() != [], seconds=5)
        (problem,) = program.list_unready()
        assert "has no status subresource" in problem
        assert "kubectl apply --server-side" in problem
        assert world.list_pods("after") == []
        await change_crd(world, has_status=True)
        await world.wait_for_pods("after", 1, seconds=5)
        assert program.list_unready() == []


async def test_pod_and_configmap_that_lost_our_label_do_not_count_as_deleted() -> None:
    """The watch with our label selector shows DELETED, but the objects still exist."""
    async with open_world() as world:
        world.start()
        await world.create_gang(count=1)
        await world.set_pods("Running")
        await world.wait_for_state("AttemptRunning")
        await asyncio.sleep(1)
        before = world.read_status()["attemptStatus"]
        (pod,) = world.list_objects(PODS)
        unlabelled = {"metadata": {"labels": {"FC_FRAMEWORK_NAME": None}}}
        await world.user.patch(PODS, NAMESPACE, "gang-worker-0", unlabelled)
        await world.user.patch(CONFIGMAPS, NAMESPACE, "gang-attempt", unlabelled)
        # Longer than until the live GETs.
        await asyncio.sleep(30)
        assert world.read_status()["attemptStatus"] == before
        assert [p["metadata"]["uid"] for p in world.list_objects(PODS)] == [pod["metadata"]["uid"]]

        await world.set_pods("Succeeded")
        await world.wait_for_state("Completed")
        status = world.read_status()
        (task,) = world.walk_tasks()
        assert task["attemptStatus"]["podUID"] == pod["metadata"]["uid"]
        assert task["attemptStatus"]["completionStatus"]["code"] == 0
        assert status["retryPolicyStatus"]["totalRetriedCount"] == 0
        assert world.list_pods() == []

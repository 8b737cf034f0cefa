"""What is known of scalers: lists, events and answers, in any order; and how current it is."""

import copy
from collections.abc import Awaitable, Callable

import pytest

from controller.kinds.scaling.execute import ScalerExecutor
from controller.kinds.scaling.store import MAX_SCALERS, ScalerSink, ScalerStore
from framework.api.codec import decode_framework
from framework.kinds.scaling.types import Scaler, ScalerKind
from framework.kinds.trainingjob.status import ScalerEnd
from framework.kube.resources import FRAMEWORKS, SCALE_INS, Object, Resource
from tests.controller.kinds.jobworlds import open_jobs
from tests.controller.kinds.scalerworlds import build_scaler_wire, open_scaled_job
from tests.controller.kinds.test_scalers import start, start_unanswered
from tests.support.builders import NAMESPACE

KEY = f"{NAMESPACE}/elastic"
IN, OUT = ScalerKind.SCALE_IN, ScalerKind.SCALE_OUT


class Stored:
    """A store, and the keys of the jobs that it has named as changed."""

    def __init__(self) -> None:
        self.changed: list[str] = []
        self.store = ScalerStore(self.changed.append)

    def list_names(self, key: str = KEY) -> list[str]:
        return [scaler.name for scaler in self.store.list_open(key)]

    def get(self, key: str = KEY) -> Scaler:
        (scaler,) = self.store.list_open(key)
        return scaler


@pytest.fixture
def stored() -> Stored:
    return Stored()


def build(
    name: str = "one",
    version: int = 1,
    *,
    conditions: tuple[str, ...] = (),
    uid: str = "",
    second: int = 0,
    job: str = "elastic",
) -> Object:
    """A ScaleIn as the API server has it."""
    wire = build_scaler_wire("ScaleIn", name, selector={"name": job})
    wire["metadata"] |= {
        "uid": uid or f"uid-{name}",
        "resourceVersion": str(version),
        "creationTimestamp": f"2026-01-02T03:{second // 60:02}:{second % 60:02}Z",
        "managedFields": [{"manager": "kubectl"}],
    }
    time = "2026-01-02T04:00:00Z"
    wire["status"] = {
        "conditions": [
            {"type": type_, "status": "True", "lastTransitionTime": time} for type_ in conditions
        ]
    }
    return wire


def test_scaler_in_progress_comes_first_then_the_oldest(stored: Stored) -> None:
    stored.store.put(IN, build("b", 1, second=2))
    stored.store.put(IN, build("a", 2, second=1))
    stored.store.put(OUT, build("c", 3, second=0))
    stored.store.put(IN, build("z", 4, second=9, conditions=("Created", "Scaling")))
    assert stored.list_names() == ["z", "c", "a", "b"]


def test_scalers_of_one_second_are_in_the_order_in_which_they_were_seen(stored: Stored) -> None:
    stored.store.put(IN, build("b", 5))
    stored.store.put(IN, build("a", 7))
    stored.store.put(IN, build("b", 9))  # with its owner
    assert stored.list_names() == ["b", "a"]
    assert [scaler.first_version for scaler in stored.store.list_open(KEY)] == [5, 7]
    stored.store.replace(IN, [build("a", 7), build("b", 9)])
    assert stored.list_names() == ["b", "a"]
    stored.store.put(OUT, build("c", 8))
    assert stored.list_names() == ["b", "a", "c"]


def test_stored_order_counts_after_a_restart(stored: Stored) -> None:
    first = build("b", 9, conditions=("Created",))
    first["status"]["order"] = 5
    stored.store.put(IN, build("a", 7))
    stored.store.put(IN, first)
    assert stored.list_names() == ["b", "a"]
    assert [scaler.status.order for scaler in stored.store.list_open(KEY)] == [5, 0]


def test_end_of_a_scaler_is_kept_until_it_is_deleted(stored: Stored) -> None:
    title = f"ScaleIn:{NAMESPACE}/one"
    assert stored.store.find_end(title) is None
    stored.store.put(IN, build(version=1))
    assert stored.store.find_end(title) is None
    wire = build(version=2, conditions=("Created", "ScaleFailed"))
    wire["status"]["conditions"][-1]["reason"] = "Timeout"
    stored.store.put(IN, wire)
    assert stored.store.find_end(title) == ScalerEnd(title, is_succeeded=False, reason="Timeout")
    stored.store.remove(IN, wire)
    assert stored.store.find_end(title) is None
    assert stored.store.find_end("Other:x/y") is None


def test_decision_considers_a_hundred_scalers_with_the_one_in_progress(stored: Stored) -> None:
    for number in range(MAX_SCALERS + 5):
        stored.store.put(IN, build(f"s{number:03}", number + 1, second=number))
    last = build("last", 999, second=3000, conditions=("Created", "Scaling"))
    stored.store.put(OUT, last)
    names = stored.list_names()
    assert len(names) == MAX_SCALERS
    assert names[:2] == ["last", "s000"]
    assert names[-1] == f"s{MAX_SCALERS - 2:03}"
    stored.store.put(OUT, build("last", 1000, conditions=("Scaling", "ScaleSucceeded")))
    assert stored.list_names()[-1] == f"s{MAX_SCALERS - 1:03}"


def test_scaler_of_an_old_event_does_not_replace_a_newer_one(stored: Stored) -> None:
    stored.store.put(IN, build(version=5, conditions=("Created",)))
    stored.changed.clear()
    ScalerSink(stored.store, IN).apply("MODIFIED", build(version=4))
    assert [c.type for c in stored.get().status.conditions] == ["Created"]
    assert stored.changed == []


def test_old_event_does_not_open_a_scaler_that_has_ended(stored: Stored) -> None:
    stored.store.put(IN, build(version=5, conditions=("Created", "ScaleFailed")))
    assert stored.changed == [KEY]
    stored.store.put(IN, build(version=4, conditions=("Created",)))
    assert stored.list_names() == []
    assert stored.store.list_keys() == []


def test_changed_selector_moves_the_scaler_to_the_other_job(stored: Stored) -> None:
    stored.store.put(IN, build(version=1))
    scaler = stored.get()
    stored.changed.clear()
    stored.store.put(IN, build(version=2, job="other"))
    other = f"{NAMESPACE}/other"
    assert stored.list_names() == []
    assert stored.list_names(other) == ["one"]
    assert sorted(stored.changed) == [KEY, other]
    assert stored.store.list_keys() == [other]
    found = stored.store.get(scaler)
    assert found is not None
    assert found["metadata"]["resourceVersion"] == "2"


def test_scaler_that_names_no_job_is_under_the_key_of_its_namespace(stored: Stored) -> None:
    stored.store.put(IN, build(job="../x"))
    assert stored.store.list_keys() == [f"{NAMESPACE}/"]


def test_scaler_that_is_being_deleted_is_not_listed(stored: Stored) -> None:
    wire = build()
    wire["metadata"]["deletionTimestamp"] = "2026-01-02T03:00:00Z"
    stored.store.put(IN, wire)
    assert stored.list_names() == []


def test_end_of_an_earlier_scaler_does_not_remove_the_one_of_its_name(stored: Stored) -> None:
    sink = ScalerSink(stored.store, IN)
    sink.apply("ADDED", build(version=1, uid="first"))
    first = stored.get()
    sink.apply("ADDED", build(version=3, uid="second"))
    stored.changed.clear()
    sink.apply("DELETED", build(version=2, uid="first"))
    assert stored.get().uid == "second"
    assert stored.store.get(first) is None
    assert stored.changed == []
    sink.apply("DELETED", build(version=4, uid="second"))
    assert stored.list_names() == []
    assert stored.changed == [KEY]


def test_list_replaces_the_scalers_of_its_kind_only(stored: Stored) -> None:
    stored.store.put(IN, build("old", 1))
    stored.store.put(OUT, build("kept", 2))
    ScalerSink(stored.store, IN).replace([build("new", 3, second=5)], "3")
    assert stored.list_names() == ["kept", "new"]


def test_stored_scaler_has_no_managed_fields(stored: Stored) -> None:
    wire = build()
    before = copy.deepcopy(wire)
    stored.store.put(IN, wire)
    found = stored.store.get(stored.get())
    assert found is not None
    assert "managedFields" not in found["metadata"]
    assert wire == before


def test_late_answer_does_not_bring_a_deleted_scaler_back(stored: Stored) -> None:
    stored.store.put(IN, build(version=1))
    scaler = stored.get()
    stored.store.put(IN, build(version=2))
    stored.store.remove(IN, build(version=3))
    stored.store.put_answer(scaler, build(version=2, conditions=("Created",)))
    assert stored.list_names() == []
    stored.store.put(IN, build(version=5, uid="second"))
    stored.store.put_answer(scaler, build(version=9, conditions=("Created",)))
    assert stored.get().uid == "second"


def test_selector_of_a_scaler_that_has_started_does_not_move_it(stored: Stored) -> None:
    wire = build(conditions=("Created", "Scaling"), job="other")
    wire["status"]["toDeletePods"] = ["elastic-worker-1"]
    stored.store.put(IN, wire)
    assert stored.list_names() == ["one"]


def test_waiting_scalers_can_be_skipped_but_not_the_one_in_progress(stored: Stored) -> None:
    stored.store.put(IN, build("a", 1))
    stored.store.put(IN, build("b", 2))
    stored.store.put(IN, build("z", 3, conditions=("Created", "Scaling")))
    listed = stored.store.list_open(KEY, {"uid-a", "uid-z"})
    assert [scaler.name for scaler in listed] == ["z", "b"]


async def send(
    resource: Resource, verb: str, send: Callable[[], Awaitable[Object]], subresource: str = ""
) -> Object:
    raise AssertionError((resource, verb, send, subresource))


@pytest.mark.looptime
async def test_scaler_is_current_only_in_the_version_of_the_api_server(stored: Stored) -> None:
    async with open_jobs("TrainingJob") as jobs:
        client = jobs.world.user
        made = await client.create(SCALE_INS, NAMESPACE, build_scaler_wire("ScaleIn", "one"))
        executor = ScalerExecutor(client, stored.store, send)
        stored.store.put(IN, made)
        scaler = stored.get()
        assert await executor.is_current(scaler)
        changed = await client.patch(SCALE_INS, NAMESPACE, "one", {"spec": {"timeout": 7}})
        assert not await executor.is_current(scaler)
        stored.store.put(IN, changed)
        assert await executor.is_current(scaler)
        await client.delete(SCALE_INS, NAMESPACE, "one")
        assert not await executor.is_current(scaler)
        assert stored.list_names() == []
        stored.store.put(IN, changed)
        await client.create(SCALE_INS, NAMESPACE, build_scaler_wire("ScaleIn", "one"))
        assert not await executor.is_current(scaler)
        assert stored.list_names() == []


@pytest.mark.looptime
async def test_request_of_a_scaler_that_the_store_does_not_have_yet_is_not_cleared() -> None:
    async with open_scaled_job() as scaled:
        await start_unanswered(scaled, "ScaleIn")
        client = scaled.jobs.world.user
        store = ScalerStore(lambda _: None)
        executor = ScalerExecutor(client, store, send)
        job = scaled.jobs.read()
        assert not await executor.knows_shown(job)
        store.put(IN, scaled.find(SCALE_INS, "late"))
        assert await executor.knows_shown(job)
        await client.delete(SCALE_INS, NAMESPACE, "late")
        assert await ScalerExecutor(client, ScalerStore(lambda _: None), send).knows_shown(job)


@pytest.mark.looptime
async def test_framework_is_current_while_its_spec_is_that_of_the_api_server() -> None:
    async with open_scaled_job() as scaled:
        await start(scaled)
        client = scaled.jobs.world.user
        executor = ScalerExecutor(client, ScalerStore(lambda _: None), send)
        known = decode_framework(scaled.jobs.read_framework())
        assert await executor.is_framework_current(known)
        patch = {"spec": {"executionType": "Stop"}}
        await client.patch(FRAMEWORKS, NAMESPACE, "elastic", patch)
        assert not await executor.is_framework_current(known)
        await client.delete(FRAMEWORKS, NAMESPACE, "elastic", propagation="Background")
        assert not await executor.is_framework_current(known)
        assert not await executor.is_framework_current(None)

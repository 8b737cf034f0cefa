"""What scalers cost the controller: memory like that of their JSON, and no decode in each turn."""

import asyncio
import gc
import tracemalloc
from typing import Any

import msgspec

from controller.kinds.scaling.store import MAX_SCALERS, ScalerSink, ScalerStore
from framework.kinds.scaling.types import ScalerKind
from framework.kube.deferred import defer_item
from framework.kube.pagejson import decode_page
from framework.kube.resources import Object
from tests.support.measuring.cost import assert_costs_at_most, assert_grows_at_most

KIND = ScalerKind.SCALE_IN
KEY = "n/j"
TIME = "2026-01-01T00:00:00Z"
TURN_SECONDS = 0.005


def build(number: int, *, pods: int = 500, is_ended: bool = False, **unknown: Any) -> Object:
    """A ScaleIn that its API server accepts, with unknown fields at several places."""
    metadata = {"name": f"s{number}", "namespace": "n", "uid": f"u{number}"}
    conditions = [{"type": "ScaleFailed", "status": "True", "lastTransitionTime": TIME}]
    return {
        "metadata": metadata | {"resourceVersion": str(number + 1), "creationTimestamp": TIME},
        "spec": {
            "selector": {"name": "j", **unknown},
            "toDelete": {"podNames": [f"{'a' * 200}{index}" for index in range(pods)]},
            "env": [{"name": f"V{index}", "value": "x" * 900} for index in range(11)],
            **unknown,
        },
        "status": {"conditions": conditions if is_ended else [], **unknown},
    }


def read_page(raw: bytes) -> Object:
    """Read a page of a deferred list, as a watch of scalers does."""
    return asyncio.run(decode_page(raw, defer_item))


def measure_list(count: int, *, is_ended: bool) -> tuple[int, int, int]:
    """Pass a list to a store; return the bytes of its JSON, those kept, and those at the peak."""
    junk: dict[str, Any] = {"x": [[] for _ in range(50_000)]}
    items = [build(number, is_ended=is_ended, **junk) for number in range(count)]
    raw = msgspec.json.encode({"metadata": {"resourceVersion": "9"}, "items": items})
    del items
    store = ScalerStore(lambda _: None)
    sink = ScalerSink(store, KIND)
    gc.collect()
    tracemalloc.start()
    page = read_page(raw)
    sink.replace(page.pop("items"), "9")
    assert len(store.list_open(KEY)) == (0 if is_ended else count)
    gc.collect()
    kept, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return len(raw), kept, peak


def test_of_scalers_that_have_ended_only_their_version_is_kept() -> None:
    size, kept, peak = measure_list(10, is_ended=True)
    assert kept < size / 50
    assert peak < 4 * size


def test_unknown_fields_of_scalers_that_wait_are_not_kept() -> None:
    size, kept, peak = measure_list(10, is_ended=False)
    assert kept < size
    assert peak < 4 * size


def fill(count: int, pods: int = 500) -> ScalerStore:
    store = ScalerStore(lambda _: None)
    for number in range(count):
        store.put(KIND, build(number, pods=pods))
    store.list_open(KEY)
    return store


def test_turn_of_a_job_with_the_most_scalers_decodes_none_again() -> None:
    store = fill(MAX_SCALERS)
    assert_costs_at_most(TURN_SECONDS, lambda: store.list_open(KEY))


def test_turn_costs_the_same_with_more_scalers_that_wait() -> None:
    few, many = fill(MAX_SCALERS, pods=1), fill(20 * MAX_SCALERS, pods=1)
    large = lambda: [many.list_open(KEY) for _ in range(50)]  # noqa: E731 an operation
    small = lambda: [few.list_open(KEY) for _ in range(50)]  # noqa: E731 an operation
    assert_grows_at_most(4.0, small, large)


def test_event_with_unknown_fields_costs_little() -> None:
    raw = msgspec.json.encode(
        {
            "metadata": {},
            "items": [build(0, is_ended=True, x={f"k{number}": [] for number in range(100_000)})],
        }
    )
    store = ScalerStore(lambda _: None)
    sink = ScalerSink(store, KIND)
    assert_costs_at_most(0.1, lambda: sink.replace(read_page(raw)["items"], "9"))

"""Scalers about which nothing can be decided, because of an error of the controller."""

import asyncio
import json
from typing import Any

import pytest

from framework.kinds.scaling.decide import decide
from framework.kube.resources import TRAININGJOBS
from tests.controller.kinds.jobworlds import list_events
from tests.controller.kinds.scalerworlds import open_scaled_job
from tests.controller.kinds.test_scalers import REST_SECONDS, check_calm, start

pytestmark = pytest.mark.looptime

DECIDE = "controller.kinds.scaling.turn.decide"


class Fault:
    """Fails in the place of a decision."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, *_: Any) -> Any:
        self.calls += 1
        raise TypeError("secret text")


@pytest.mark.slow
async def test_scaler_that_cannot_be_decided_blocks_its_job_until_it_can(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fault = Fault()
    async with open_scaled_job() as scaled:
        await start(scaled)
        before = scaled.jobs.read_status()
        with monkeypatch.context() as patch:
            patch.setattr(DECIDE, fault)
            await scaled.create("ScaleOut", "more")
            await asyncio.sleep(REST_SECONDS)
            blocked, *others = scaled.jobs.read_status()["conditions"]
            text = json.dumps(blocked)
            assert (blocked["type"], blocked["reason"]) == ("Blocked", "Undecidable")
            assert "its scalers (TypeError)" in text
            assert "secret text" not in text
            assert others == before["conditions"]
            count = fault.calls
            await asyncio.sleep(300)
            assert fault.calls == count
            assert [event["reason"] for event in list_events(scaled.jobs)] == ["Blocked"]
            assert scaled.list_workers() == [0, 1]
        assert await scaled.wait_for_end("ScaleOut", "more", seconds=700) == "ScaleSucceeded"
        await asyncio.sleep(REST_SECONDS)
        assert "Blocked" not in scaled.jobs.read_conditions()
        await check_calm(scaled, [0, 1, 2])


async def test_fault_of_one_job_delays_no_scaler_of_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each worker of the reconciler survives it, also for a scaler without a job."""

    def fail_for_strangers(snapshot: Any) -> Any:
        if any(scaler.name.startswith("bad") for scaler in snapshot.scalers):
            raise TypeError
        return decide(snapshot)

    async with open_scaled_job() as scaled:
        await start(scaled)
        monkeypatch.setattr(DECIDE, fail_for_strangers)
        stranger = scaled.jobs.build()
        stranger["metadata"]["name"] = "stranger"
        user = scaled.jobs.world.user
        await user.create(TRAININGJOBS, stranger["metadata"]["namespace"], stranger)
        for number in range(20):
            target = "stranger" if number % 2 else f"nobody-{number}"
            await scaled.create("ScaleOut", f"bad-{number}", selector={"name": target})
        await asyncio.sleep(REST_SECONDS)
        await scaled.create("ScaleOut", "more")
        assert await scaled.wait_for_end("ScaleOut", "more") == "ScaleSucceeded"
        found = scaled.find(TRAININGJOBS, "stranger")["status"]["conditions"]
        assert "Blocked" in [condition["type"] for condition in found]

"""The controller is killed at each write of a ScaleIn and of a ScaleOut, in turn.

Whether or not it had the answer, the end is the same, each script runs once, and nothing is left.
"""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest

from tests.controller.kinds.scalerworlds import LAUNCHER, ScaledJob, open_scaled_job
from tests.controller.kinds.test_crash_matrix import Crashes, rest
from tests.support.crashmoments import HEARD, PAUSE_SECONDS, at_each_moment
from tests.support.fakes.storageclient import Request

CODES = {"works": 0, "fails": 3}
# At least as many as a scaler takes, with the status of its job and the change of its Framework.
WRITES = {
    ("ScaleIn", "works"): 19,
    ("ScaleIn", "fails"): 29,
    ("ScaleOut", "works"): 18,
    ("ScaleOut", "fails"): 28,
}
CASES = [(*story, write) for story, count in WRITES.items() for write in range(1, count + 1)]


class ScalerCrashes(Crashes):
    """Kills the controller at one of its writes after the job runs."""

    is_counting = False

    def is_counted(self, request: Request) -> bool:
        if request.resource.plural == "configmaps":
            return self.is_counting and "scaler.json" in str(request.body)
        return self.is_counting and super().is_counted(request)


@asynccontextmanager
async def open_story(at: int, when: str) -> AsyncGenerator[tuple[ScaledJob, ScalerCrashes]]:
    async with open_scaled_job() as scaled:
        crashes = ScalerCrashes(scaled.jobs, at, when)
        crashes.start()
        await scaled.run()
        yield scaled, crashes


async def play(scaled: ScaledJob, crashes: ScalerCrashes, kind: str, outcome: str) -> object:
    """Carry out one scaler; return what the world is like afterwards, without times and UIDs."""
    scaled.agent.code = CODES[outcome]
    crashes.is_counting = True
    await scaled.create(kind, "one", script="/script.sh")
    await scaled.wait_for_end(kind, "one")
    await rest()
    await asyncio.sleep(PAUSE_SECONDS)
    crashes.is_counting = False
    assert not scaled.has_request()
    assert len(scaled.agent.scripts) == 1
    status = scaled.jobs.read_status()
    return (
        scaled.read_conditions(kind, "one"),
        scaled.read_end(kind, "one"),
        scaled.list_workers(),
        (status["phase"], status["targetWorkers"], status["currentWorkers"]),
        "currentScaler" in status,
        sorted((c["type"], c["status"]) for c in status["conditions"]),
        status["restartCount"],
        sorted(scaled.jobs.list_owned()),
    )


ENDS: dict[tuple[str, str], object] = {}


async def find_end(kind: str, outcome: str) -> object:
    """Find the end of a scaler whose controller is never killed."""
    story = (kind, outcome)
    if story not in ENDS:
        async with open_story(0, HEARD) as (scaled, crashes):
            ENDS[story] = await play(scaled, crashes, kind, outcome)
        assert WRITES[story] - 1 <= crashes.writes <= WRITES[story], crashes.writes
    return ENDS[story]


@pytest.mark.looptime
@at_each_moment("kind,outcome,write", CASES, share=8)
async def test_crash_at_a_write_for_a_scaler_changes_neither_end_nor_count(
    kind: str, outcome: str, write: int, when: str
) -> None:
    async with open_story(write, when) as (scaled, crashes):
        launchers = [name for name in crashes.created if LAUNCHER in name]
        end = await play(scaled, crashes, kind, outcome)
        assert [name for name in crashes.created if LAUNCHER in name] == launchers
    assert end == await find_end(kind, outcome)


@pytest.mark.looptime
@pytest.mark.parametrize(("kind", "outcome"), WRITES)
async def test_scaler_without_a_crash_takes_as_many_writes_as_the_matrix_has(
    kind: str, outcome: str
) -> None:
    await find_end(kind, outcome)

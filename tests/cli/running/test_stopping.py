"""The stop of a run: how long `framework run` waits for Pods that may not exist."""

import asyncio
import io
from typing import Any

import pytest

from cli.exitcodes import ExitCode
from cli.running.conclusion import RunEnd, complete_views
from cli.running.display import Display
from cli.running.follow import Follower, Listeners
from cli.running.followers import FollowedFrameworks
from cli.running.progressloop import ProgressLoop
from cli.running.stopping import EndWaiter
from cli.waiting import Interrupt
from framework.api.states import FrameworkState
from framework.clock import SystemRandom
from framework.kube.resources import FRAMEWORKS
from tests.support.builders import build_role_wire, build_status_wire, build_submission
from tests.support.fakes.storageclient import LoopClock, StorageClient, find_type, open_storage


async def stop(
    *, timeout_seconds: float, is_local: bool = False, state: FrameworkState | None = None
) -> tuple[float, list[str], str]:
    """Run a Framework without a controller; return seconds, messages, and the last note."""
    clock, stream = LoopClock(), io.StringIO()
    client = StorageClient(open_storage(clock))
    stored = await client.create(FRAMEWORKS, "default", build_submission("gang", build_role_wire()))
    if state is not None:
        stored["status"] = build_status_wire(state=state)
        rt = find_type(client.storage, FRAMEWORKS)
        name = stored["metadata"]["name"]
        stored = client.storage.update(rt, "default", name, stored, subresource="status")
    changed = asyncio.Event()
    listeners = Listeners(on_change=changed.set, on_failed_pod=lambda _: None)
    follower = Follower(client, stored, listeners, clock=clock, random=SystemRandom())
    frameworks = FollowedFrameworks([follower], clock, clock.monotonic(), is_local=is_local)
    display = Display(stream)
    progress = ProgressLoop(frameworks, display, clock, changed)
    waiter = EndWaiter(client, frameworks, progress, display, clock)
    async with asyncio.TaskGroup() as tasks:
        eternal: list[asyncio.Task[Any]] = frameworks.start(tasks)
        eternal.append(tasks.create_task(progress.run()))
        end: RunEnd = await waiter.wait(Interrupt(stops_on_hangup=False), timeout_seconds)
        for task in eternal:
            task.cancel()
    (framework,) = (await client.list(FRAMEWORKS, "default"))["items"]
    assert framework["spec"]["executionType"] == "Stop"
    assert end.cause is ExitCode.TIMEOUT
    (view,) = complete_views(frameworks.build_views(None), end)
    # Else the table would count the time until the last output is printed.
    assert end.elapsed_seconds == pytest.approx(clock.monotonic())
    return clock.monotonic(), stream.getvalue().splitlines(), view.note


@pytest.mark.looptime
async def test_stop_of_a_framework_that_no_controller_has_seen_does_not_wait_for_pods() -> None:
    seconds, lines, note = await stop(timeout_seconds=30)
    assert seconds < 32
    assert lines[-1] == (
        "no controller has seen the Frameworks, so there are no Pods to wait for; they stop when "
        "their controller runs"
    )
    assert note == (
        "stopped by --timeout; the gang never started: waits for a controller: check that "
        "framework-controller runs"
    )


@pytest.mark.looptime
async def test_stop_of_a_new_framework_gives_the_controller_time_to_see_it() -> None:
    seconds, _, note = await stop(timeout_seconds=2)
    assert 5 <= seconds < 8
    assert note.endswith("the gang never started: the controller had not seen it yet")


@pytest.mark.looptime
@pytest.mark.parametrize(
    ("is_local", "state"),
    [(True, None), (False, FrameworkState.ATTEMPT_CREATION_PENDING)],
    ids=["local", "seen"],
)
async def test_stop_of_a_framework_that_may_have_pods_waits_for_them(
    *, is_local: bool, state: FrameworkState | None
) -> None:
    seconds, lines, _ = await stop(timeout_seconds=30, is_local=is_local, state=state)
    assert 90 <= seconds < 92
    assert lines[-1].startswith("still not stopped after 60 s: ends without waiting")

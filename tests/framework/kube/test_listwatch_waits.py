"""framework.kube.listwatch: how long it waits between tries, in virtual time."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from itertools import pairwise

import pytest

from framework.kube import errors
from framework.kube.client import KubeClient
from framework.kube.config import KubeConfig
from framework.kube.listwatch import ListWatch
from framework.kube.resources import PODS, Object
from tests.framework.kube.conftest import Bench
from tests.framework.kube.following import LongestWait, Mirror

pytestmark = pytest.mark.looptime


class Times:
    """A client that fails as told, and the times at which it was asked."""

    def __init__(self, bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
        self.client = KubeClient(KubeConfig(server="http://h"), user_agent="t", clock=bench.clock)
        self.at: list[float] = []
        self.watched_at: list[float] = []
        self._monkeypatch = monkeypatch

    async def run(
        self,
        fail: Callable[[int], Exception | None],
        seconds: float,
        *,
        watch_error: Exception | None = None,
    ) -> ListWatch:
        loop = asyncio.get_running_loop()
        begin = loop.time()

        async def list_pages(*_: object, **__: object) -> AsyncIterator[tuple[Object, bool]]:
            self.at.append(round(loop.time() - begin, 3))
            error = fail(len(self.at))
            if error is not None:
                raise error
            yield {"metadata": {"resourceVersion": "1"}, "items": []}, True

        async def watch(*_: object, **__: object) -> AsyncIterator[tuple[str, Object]]:
            self.watched_at.append(round(loop.time() - begin, 3))
            if watch_error is not None:
                raise watch_error
            for never in list[tuple[str, Object]]():
                yield never

        self._monkeypatch.setattr(self.client, "list_pages", list_pages)
        self._monkeypatch.setattr(self.client, "watch", watch)
        clock = self.client._transport._clock
        listwatch = ListWatch(self.client, PODS, Mirror(), clock=clock, random=LongestWait())
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await listwatch.run()
        return listwatch


def unreachable(_: int) -> Exception:
    return errors.UnreachableError("refused", method="GET", path="/x", maybe_applied=False)


async def test_server_away_is_tried_with_growing_then_even_waits(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    times = Times(bench, monkeypatch)
    listwatch = await times.run(unreachable, 300)
    waits = [round(b - a, 3) for a, b in pairwise(times.at)]
    assert waits[:6] == [0.2, 0.4, 0.8, 1.6, 3.2, 5.0]
    assert set(waits[6:]) == {5.0}
    assert not listwatch.is_connected


async def test_waits_begin_anew_after_a_success(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    times = Times(bench, monkeypatch)
    fail = {1: unreachable(0), 2: unreachable(0), 3: unreachable(0)}
    await times.run(fail.get, 3)
    # Three failures wait 0.2, 0.4, 0.8; then the list works, and its watch ends at once.
    assert times.at == [0, 0.2, 0.6, 1.4]
    assert times.watched_at == [1.4, 1.6, 2.0, 2.8]


async def test_watch_refused_after_every_list_is_no_busy_loop(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    times = Times(bench, monkeypatch)
    denied = errors.build_api_error(403, b"", method="GET", path="/x")
    listwatch = await times.run(lambda _: None, 60, watch_error=denied)
    assert times.at[:5] == [0, 0.2, 0.6, 1.4, 3.0]
    assert len(times.at) < 20
    assert listwatch.synced.is_set()
    assert not listwatch.is_connected


async def test_server_asking_for_patience_gets_it(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    def busy(_: int) -> Exception:
        return errors.build_api_error(429, b"", method="GET", path="/x", retry_after="9")

    times = Times(bench, monkeypatch)
    await times.run(busy, 40)
    assert times.at == [0, 9, 18, 27, 36]


async def test_watch_refused_as_gone_after_every_list_is_no_busy_loop(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    times = Times(bench, monkeypatch)
    gone = errors.build_api_error(410, b"", method="GET", path="/x")
    await times.run(lambda _: None, 60, watch_error=gone)
    assert times.at[:2] == [0, 0]
    assert len(times.at) < 20
    assert times.at[-1] - times.at[-2] == pytest.approx(5.0)


async def test_watch_that_always_ends_at_once_is_no_busy_loop(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    times = Times(bench, monkeypatch)
    listwatch = await times.run(lambda _: None, 60)
    assert times.at == [0]
    assert times.watched_at[:4] == [0, 0.2, 0.6, 1.4]
    assert len(times.watched_at) < 20
    assert listwatch.is_connected

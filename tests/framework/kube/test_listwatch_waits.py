"""framework.kube.listwatch in virtual time: waits between tries, and lists older than expected."""

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
Answer = Callable[[int], str | Exception]
"""From the number of a request, counted from 1, to a version or an error."""


def refuse(code: int, retry_after: str | None = None) -> Exception:
    return errors.build_api_error(code, b"", method="GET", path="/x", retry_after=retry_after)


UNREACHABLE = errors.UnreachableError("refused", method="GET", path="/x", maybe_applied=False)
FORBIDDEN, GONE = refuse(403), refuse(410)


class Times:
    """A ListWatch with answers of the test, and the times of its requests."""

    def __init__(self, bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
        self._client = KubeClient(KubeConfig(server="http://h"), user_agent="t", clock=bench.clock)
        self._monkeypatch = monkeypatch
        self.listed_at: list[float] = []
        self.watched_at: list[float] = []
        self.mirror = Mirror()
        self.listwatch = ListWatch(
            self._client, PODS, self.mirror, clock=bench.clock, random=LongestWait()
        )

    async def run(
        self, seconds: float, answer_list: Answer, answer_watch: Answer = lambda _: ""
    ) -> None:
        """Run for some time; a watch that is not an error ends at once."""
        loop = asyncio.get_running_loop()
        begin = loop.time()

        def note(times: list[float], answer: Answer) -> str:
            times.append(round(loop.time() - begin, 3))
            answered = answer(len(times))
            if isinstance(answered, Exception):
                raise answered
            return answered

        async def list_pages(*_: object, **__: object) -> AsyncIterator[tuple[Object, bool]]:
            version = note(self.listed_at, answer_list)
            yield {"metadata": {"resourceVersion": version}, "items": []}, True

        async def watch(*_: object, **__: object) -> AsyncIterator[tuple[str, Object]]:
            note(self.watched_at, answer_watch)
            for never in list[tuple[str, Object]]():
                yield never

        self._monkeypatch.setattr(self._client, "list_pages", list_pages)
        self._monkeypatch.setattr(self._client, "watch", watch)
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self.listwatch.run()


@pytest.fixture
def times(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> Times:
    return Times(bench, monkeypatch)


async def test_server_away_is_tried_with_growing_then_even_waits(times: Times) -> None:
    await times.run(300, lambda _: UNREACHABLE)
    waits = [round(b - a, 3) for a, b in pairwise(times.listed_at)]
    assert waits[:6] == [0.2, 0.4, 0.8, 1.6, 3.2, 5.0]
    assert set(waits[6:]) == {5.0}
    assert not times.listwatch.is_connected


async def test_waits_restart_after_a_success(times: Times) -> None:
    await times.run(3, lambda number: UNREACHABLE if number <= 3 else "1")
    # Three failures wait 0.2, 0.4, 0.8; then the list works, and its watch ends at once.
    assert times.listed_at == [0, 0.2, 0.6, 1.4]
    assert times.watched_at == [1.4, 1.6, 2.0, 2.8]


async def test_watch_refused_after_every_list_is_no_busy_loop(times: Times) -> None:
    await times.run(60, lambda _: "1", lambda _: FORBIDDEN)
    assert times.listed_at[:5] == [0, 0.2, 0.6, 1.4, 3.0]
    assert len(times.listed_at) < 20
    assert times.listwatch.synced.is_set()
    assert not times.listwatch.is_connected


async def test_retry_after_of_the_server_is_waited_for(times: Times) -> None:
    await times.run(40, lambda _: refuse(429, retry_after="9"))
    assert times.listed_at == [0, 9, 18, 27, 36]


async def test_watch_refused_as_gone_after_every_list_is_no_busy_loop(times: Times) -> None:
    await times.run(60, lambda _: "1", lambda _: GONE)
    assert times.listed_at[:2] == [0, 0]
    assert len(times.listed_at) < 20
    assert times.listed_at[-1] - times.listed_at[-2] == pytest.approx(5.0)


async def test_watch_that_always_ends_at_once_is_no_busy_loop(times: Times) -> None:
    await times.run(60, lambda _: "1")
    assert times.listed_at == [0]
    assert times.watched_at[:4] == [0, 0.2, 0.6, 1.4]
    assert len(times.watched_at) < 20
    assert times.listwatch.is_connected


@pytest.mark.parametrize(
    ("versions", "calls", "is_restored"),
    [
        pytest.param([50, 40, 50], ["replace@50", "replace@50"], False, id="server is behind"),
        pytest.param([50, 40, 41], ["replace@50", "replace@41"], True, id="storage is restored"),
    ],
)
async def test_list_older_than_the_last_seen_version_counts_only_the_second_time(
    times: Times,
    caplog: pytest.LogCaptureFixture,
    versions: list[int],
    calls: list[str],
    *,
    is_restored: bool,
) -> None:
    def answer_watch(number: int) -> str | Exception:
        return GONE if number == 1 else ""

    await times.run(15, lambda number: str(versions[min(number, 3) - 1]), answer_watch)
    assert times.mirror.calls == calls
    assert ("storage was restored" in caplog.text) is is_restored

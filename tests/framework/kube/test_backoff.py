import asyncio
from datetime import UTC, datetime

import pytest

from framework.clock import ManualClock
from framework.kube.backoff import Backoff
from framework.kube.throttle import Throttle, TokenBucket

START = datetime(2026, 1, 1, tzinfo=UTC)


def test_backoff_bounds_double_up_to_the_maximum_and_restart_after_a_reset() -> None:
    backoff = Backoff(0.2, 2.0, 5.0)
    bounds = [backoff.next_bound_seconds() for _ in range(8)]
    assert bounds == [0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0, 5.0]
    backoff.reset()
    assert backoff.next_bound_seconds() == 0.2


@pytest.mark.parametrize("arguments", [(0.0, 2.0, 5.0), (1.0, 0.5, 5.0), (1.0, 2.0, 0.5)])
def test_backoff_that_would_not_grow_raises(arguments: tuple[float, float, float]) -> None:
    with pytest.raises(ValueError, match="no backoff"):
        Backoff(*arguments)


def test_bucket_grants_the_burst_then_the_rate_and_refills_up_to_the_burst() -> None:
    clock = ManualClock(START)
    bucket = TokenBucket(qps=10, burst=3, clock=clock)
    assert [round(bucket.reserve(), 6) for _ in range(5)] == [0, 0, 0, 0.1, 0.2]
    clock.advance(3600)
    assert [round(bucket.reserve(), 6) for _ in range(4)] == [0, 0, 0, 0.1]


def test_bucket_without_burst_still_grants_one_at_once() -> None:
    bucket = TokenBucket(qps=2, burst=0, clock=ManualClock(START))
    assert [bucket.reserve() for _ in range(3)] == [0, 0.5, 1.0]


def test_bucket_without_rate_raises() -> None:
    with pytest.raises(ValueError, match="qps"):
        TokenBucket(qps=0, burst=1, clock=ManualClock(START))


class _LoopClock(ManualClock):
    """The time of a virtual event loop."""

    def monotonic(self) -> float:
        return asyncio.get_running_loop().time()


def start_throttle(qps: float) -> Throttle:
    throttle = Throttle(TokenBucket(qps, 1, _LoopClock(START)))
    # The burst is used up.
    throttle._bucket.reserve()
    return throttle


@pytest.mark.looptime
async def test_throttle_lets_a_request_pass_the_backlog_of_another_namespace() -> None:
    throttle = start_throttle(qps=10)
    backlog = [asyncio.create_task(throttle.wait("hot")) for _ in range(1000)]
    await asyncio.sleep(0)
    started = asyncio.get_running_loop().time()
    await throttle.wait("calm")
    assert asyncio.get_running_loop().time() - started < 0.35
    for task in backlog:
        task.cancel()
    await asyncio.gather(*backlog, return_exceptions=True)


@pytest.mark.looptime
async def test_throttle_keeps_the_rate_and_the_order_within_a_namespace() -> None:
    throttle = start_throttle(qps=10)
    sent: list[tuple[float, int]] = []

    async def send(number: int) -> None:
        await throttle.wait("a")
        sent.append((round(asyncio.get_running_loop().time(), 3), number))

    begin = asyncio.get_running_loop().time()
    await asyncio.gather(*(send(number) for number in range(20)))
    assert [(round(at - begin, 3), number) for at, number in sent] == [
        (round(0.1 * (number + 1), 3), number) for number in range(20)
    ]


@pytest.mark.looptime
async def test_throttle_gives_the_token_of_a_cancelled_request_to_the_next() -> None:
    throttle = start_throttle(qps=1)
    first = asyncio.create_task(throttle.wait("a"))
    await asyncio.sleep(0)
    second = asyncio.create_task(throttle.wait("a"))
    await asyncio.sleep(0)
    first.cancel()
    started = asyncio.get_running_loop().time()
    await second
    assert asyncio.get_running_loop().time() - started == 1

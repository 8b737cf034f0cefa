"""Client-side request rate: how many requests a second, and whose is next.

Called by ``client``. ``TokenBucket`` is pure but for the clock and says how long to wait;
``Throttle`` waits, fairly between namespaces.
"""

import asyncio
from collections import OrderedDict, deque

from framework.clock import Clock


class TokenBucket:
    """Lets ``burst`` requests through at once and ``qps`` a second after that, in order."""

    def __init__(self, qps: float, burst: int, clock: Clock) -> None:
        """Start full.

        Raises:
            ValueError: a rate of nothing would stop all requests for ever.
        """
        if qps <= 0:
            raise ValueError(f"qps must be above 0, not {qps}")
        self._qps = qps
        # With less than one token in the bucket no request could ever pass.
        self._burst = max(burst, 1)
        self._clock = clock
        self._tokens = float(self._burst)
        self._filled_at = clock.monotonic()

    def reserve(self) -> float:
        """Take one token, in advance if there is none; return the seconds to wait for it."""
        now = self._clock.monotonic()
        gained = (now - self._filled_at) * self._qps
        self._tokens = min(float(self._burst), self._tokens + gained)
        self._filled_at = now
        self._tokens -= 1.0
        return max(0.0, -self._tokens / self._qps)


class Throttle:
    """Makes requests wait for their token: those of one namespace in order, namespaces in turns.

    Each request reserves the next token. When a token is due, the namespace whose turn it is gets
    it. So a request waits for one request of each other namespace that waits, and not for all
    that came before it.
    """

    def __init__(self, bucket: TokenBucket) -> None:
        """Give out the tokens of ``bucket``."""
        self._bucket = bucket
        # Namespaces without a waiting request are not kept.
        self._waiting: OrderedDict[str, deque[asyncio.Future[None]]] = OrderedDict()

    async def wait(self, namespace: str) -> None:
        """Wait until a request of ``namespace`` may be sent; "" is a namespace like others."""
        seconds = self._bucket.reserve()
        if seconds <= 0:
            return
        loop = asyncio.get_running_loop()
        turn = loop.create_future()
        self._waiting.setdefault(namespace, deque()).append(turn)
        loop.call_later(seconds, self._grant)
        await turn

    def _grant(self) -> None:
        """Give a token that is due to the next request that was not cancelled."""
        while self._waiting:
            namespace, waiting = self._waiting.popitem(last=False)
            turn = waiting.popleft()
            if waiting:
                self._waiting[namespace] = waiting
            if not turn.done():
                turn.set_result(None)
                return

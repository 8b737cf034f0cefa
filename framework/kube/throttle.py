"""Client-side request rate: a token bucket, shared fairly between namespaces.

1. Each request reserves the next token of the bucket and learns when that token is due.
2. A request whose token is due at once is sent.
3. Any other request waits in the queue of its namespace.
4. When a token is due, the first namespace in the order of turns gets it for its oldest request,
   and moves to the end if it has more.

Invariants: at most ``burst`` requests without a pause and ``qps`` per second after that; requests
of a namespace keep their order; a request waits for at most one request of each other namespace per
turn.

Example: 2 requests per second, burst 1. Namespace a starts 4 requests at second 0 and b starts one
just after. The first of a is sent at once. Tokens are due at 0.5, 1.0, 1.5 and 2.0 s: they go to a,
b, a, a.
"""

import asyncio
from collections import OrderedDict, deque

from framework.clock import Clock


class TokenBucket:
    """Lets ``burst`` requests through without a pause and ``qps`` a second after that, in order."""

    def __init__(self, qps: float, burst: int, clock: Clock) -> None:
        """Start full.

        Raises:
            ValueError: the rate is not above 0.
        """
        if qps <= 0:
            raise ValueError(f"qps must be above 0, not {qps}")
        self._qps = qps
        # A bucket for less than one token would stop all requests.
        self._burst = max(burst, 1)
        self._clock = clock
        self._tokens = float(self._burst)
        self._filled_at = clock.monotonic()

    def reserve(self) -> float:
        """Reserve the next token; return the seconds until it is due."""
        now = self._clock.monotonic()
        gained = (now - self._filled_at) * self._qps
        self._tokens = min(float(self._burst), self._tokens + gained)
        self._filled_at = now
        self._tokens -= 1.0
        return max(0.0, -self._tokens / self._qps)


class Throttle:
    """Makes requests wait for tokens: in order within a namespace, namespaces in turns."""

    def __init__(self, bucket: TokenBucket) -> None:
        """Use the tokens of ``bucket``."""
        self._bucket = bucket
        # Only namespaces with waiting requests, in the order of their turns.
        self._waiting: OrderedDict[str, deque[asyncio.Future[None]]] = OrderedDict()

    async def wait(self, namespace: str) -> None:
        """Wait until a request may be sent; ``namespace`` is "" for requests without one."""
        seconds = self._bucket.reserve()
        if seconds <= 0:
            return
        loop = asyncio.get_running_loop()
        turn = loop.create_future()
        self._waiting.setdefault(namespace, deque()).append(turn)
        loop.call_later(seconds, self._grant)
        await turn

    def _grant(self) -> None:
        """Give a due token to the next request that is not cancelled."""
        while self._waiting:
            namespace, waiting = self._waiting.popitem(last=False)
            turn = waiting.popleft()
            if waiting:
                self._waiting[namespace] = waiting
            if not turn.done():
                turn.set_result(None)
                return

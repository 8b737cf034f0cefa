"""Client-side request rate, used only where a configuration file asks for one.

Called by ``client``. Pure but for the clock: it says how long to wait, others wait.
"""

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

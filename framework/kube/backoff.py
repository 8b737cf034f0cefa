"""Exponential backoff with full jitter. Pure: the caller draws the random number and waits.

1. The bound of the first wait is ``initial``.
2. Each ``next_bound_seconds`` returns the bound and multiplies it by ``factor``, up to ``maximum``.
3. The caller waits for a random time of [0, bound] ("full jitter"), so that many clients that lost
   a server at the same time do not return at the same time.
4. After a success the caller calls ``reset``: the next bound is ``initial`` again.

Invariant: bounds never shrink without ``reset`` and never exceed ``maximum``.

Example: the defaults give the bounds 0.2, 0.4, 0.8, 1.6, 3.2, 5, 5, ... seconds.
"""


class Backoff:
    """The upper bounds of the waits between tries."""

    def __init__(self, initial: float = 0.2, factor: float = 2.0, maximum: float = 5.0) -> None:
        """Start at ``initial`` seconds.

        Raises:
            ValueError: the bounds would shrink, or stay 0.
        """
        if initial <= 0 or factor < 1 or maximum < initial:
            raise ValueError(f"no backoff: initial {initial}, factor {factor}, maximum {maximum}")
        self._initial = initial
        self._factor = factor
        self._maximum = maximum
        self._bound = initial

    def reset(self) -> None:
        """Start again with the first bound, after a success."""
        self._bound = self._initial

    def next_bound_seconds(self) -> float:
        """Return the upper bound of the next wait, and increase it."""
        bound = self._bound
        self._bound = min(self._maximum, bound * self._factor)
        return bound

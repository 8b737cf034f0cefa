"""How long to wait before the next try.

Called by ``listwatch`` and by every loop of the shells that tries again. Pure: the caller draws
the random number and waits.
"""


class Backoff:
    """Growing upper bounds of a wait: initial, initial*factor, ... up to maximum."""

    def __init__(self, initial: float = 0.2, factor: float = 2.0, maximum: float = 5.0) -> None:
        """Start at ``initial`` seconds.

        Raises:
            ValueError: the bounds would shrink, or never leave zero.
        """
        if initial <= 0 or factor < 1 or maximum < initial:
            raise ValueError(f"no backoff: initial {initial}, factor {factor}, maximum {maximum}")
        self._initial = initial
        self._factor = factor
        self._maximum = maximum
        self._bound = initial

    def reset(self) -> None:
        """Begin anew: the last try succeeded."""
        self._bound = self._initial

    def next_bound_seconds(self) -> float:
        """Return the upper bound of the next wait, and grow.

        Draw the wait from all of [0, bound] ("full jitter"), so that many who lost the server at
        one moment do not come back at one moment.
        """
        bound = self._bound
        self._bound = min(self._maximum, bound * self._factor)
        return bound

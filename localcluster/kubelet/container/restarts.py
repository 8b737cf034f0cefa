"""Whether a container is started again, and after which back-off. Pure."""

from dataclasses import dataclass
from enum import StrEnum


class RestartPolicy(StrEnum):
    """``restartPolicy`` of a Pod; Always of an init container makes it a sidecar."""

    ALWAYS = "Always"
    ON_FAILURE = "OnFailure"
    NEVER = "Never"

    def should_restart(self, exit_code: int) -> bool:
        """Return whether a container with this exit code is started again."""
        return self is RestartPolicy.ALWAYS or (self is RestartPolicy.ON_FAILURE and exit_code != 0)

    @property
    def of_init_containers(self) -> "RestartPolicy":
        """Return the policy for init containers, which do not restart after a success."""
        return RestartPolicy.NEVER if self is RestartPolicy.NEVER else RestartPolicy.ON_FAILURE


@dataclass(frozen=True, slots=True)
class BackoffBounds:
    """The crash back-off; the defaults are the kubelet's."""

    initial_seconds: float = 10.0
    maximum_seconds: float = 300.0
    reset_seconds: float = 600.0
    """After a run of this length, the back-off starts again."""


class CrashBackoff:
    """The waits of one container: none, 10 s, 20 s, ... 300 s."""

    def __init__(self, bounds: BackoffBounds) -> None:
        """Start without a crash."""
        self._bounds = bounds
        self._next = 0.0

    def next_wait_seconds(self, ran_seconds: float) -> float:
        """Return the wait after a run of this length; increase the next one."""
        if ran_seconds >= self._bounds.reset_seconds:
            self._next = 0.0
        wait = self._next
        self._next = min(max(wait * 2, self._bounds.initial_seconds), self._bounds.maximum_seconds)
        return wait

"""Waits of decisions, measured by the monotonic clock of the controller."""

from enum import StrEnum
from typing import NamedTuple


class WaitSubject(StrEnum):
    """The event that the members of a gang wait for."""

    START_BARRIER = "StartBarrier"
    """The start barrier of the epoch releases its members."""
    REFUSED_PODS = "RefusedPods"
    """The Pods whose reports are refused end."""


class Wait(NamedTuple):
    """A wait of the members of a gang, whose duration a change of the wall clock does not change.

    The duration counts from the first decision of this controller with this wait.
    """

    attempt: str
    """UID of the instance of the attempt."""
    since: int
    """Generation since which the gang has these members."""
    epoch: int
    """Epoch of the processes of these members."""
    subject: WaitSubject

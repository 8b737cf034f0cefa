"""What decisions wait for, measured by the monotonic clock of the controller."""

from typing import NamedTuple


class Wait(NamedTuple):
    """What a decision waits for, for a duration that a change of the wall clock must not end.

    The duration counts from the first decision of this controller that waited for it.
    """

    attempt: str
    """UID of the instance of the attempt."""
    since: int
    """Generation since which the gang has these members."""
    epoch: int
    subject: str
    """What is to happen to them."""

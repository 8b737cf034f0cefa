"""The fence: whether this controller may send what changes something.

Asked by the worker, the executor, the writer and the event recorder in the same step as each
send, because an answer of a moment ago may be wrong: a process can be stopped between any two
lines for any time. Kept by ``leader`` (the Lease is held) and ``crd_check`` (the CRD is fit).
"""

from typing import Protocol


class Fence(Protocol):
    """Something that must hold while this controller acts."""

    def holds(self) -> bool:
        """Return whether a write may be sent at this moment."""
        ...


class Fences:
    """Several fences: all must hold. Without any, writes may always be sent."""

    def __init__(self, *fences: Fence) -> None:
        """Ask ``fences``, in this order."""
        self._fences = fences

    def holds(self) -> bool:
        """Return whether all of them hold."""
        return all(fence.holds() for fence in self._fences)


OPEN = Fences()

"""The write gate: whether this controller may send a request that changes something.

1. ``leader`` has a gate that is open while the Lease is held; ``crd_check`` has a gate that is open
   while the CRD is usable. ``controller.controller`` joins them.
2. The worker asks the joint gate before each decision.
3. The executor, the writer and the event recorder ask it again before each request, and nothing is
   awaited between the question and the send.

Invariant: there is no ``await`` between the answer of the gate and the request. A process can be
stopped for any time at an ``await``, so that an older answer may be wrong.

Example: the process is stopped for 20 seconds between a decision and the write of its status, and
another controller takes the Lease. When the process goes on, the writer asks the gate, which is
closed, and does not send.
"""

from typing import Protocol


class WriteGate(Protocol):
    """Says whether this controller may act."""

    def may_write(self) -> bool:
        """Return whether a request that changes something may be sent at this moment."""
        ...


class JointWriteGate:
    """Is open while all of its gates are; without any gate it is always open."""

    def __init__(self, *gates: WriteGate) -> None:
        """Ask ``gates``, in this order."""
        self._gates = gates

    def may_write(self) -> bool:
        """Return whether all gates are open."""
        return all(gate.may_write() for gate in self._gates)

"""Runtime: the client, the clock and the other values that all parts of one controller share.

``controller.controller`` builds it once. Parts that need only one of its values take this value.
"""

from dataclasses import dataclass

from controller.gate.write_gate import WriteGate
from controller.serve.metrics import Metrics
from framework.clock import Clock, Random
from framework.kube.client import KubeClient


@dataclass(frozen=True, slots=True)
class Runtime:
    """The values that all parts of one controller share."""

    client: KubeClient
    """Sends all requests, except those for the Lease."""
    clock: Clock
    """Gives the time of objects, and measures durations."""
    random: Random
    """Draws the random part of delays."""
    metrics: Metrics
    """Counts and measures requests and decisions."""
    write_gate: WriteGate
    """Asked before each request that changes something."""

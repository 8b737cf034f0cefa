"""Probes of members: connect to a port, or resolve a DNS name.

A probe of a port sends no bytes and closes an accepted connection at once.
"""

import errno
import select
import socket
from typing import Dict, List, NamedTuple, Sequence, Set, Tuple

from framework.agent.clock import AgentClock
from framework.agent.dns_source import Resolver

_AT_ONCE = 64
_CONNECT_SECONDS = 2.0


class Probe(NamedTuple):
    """Connect to ``port`` of ``address``; if ``port`` is 0, resolve ``name`` to ``address``."""

    role: str
    number: int
    address: str
    port: int
    name: str

    def describe(self) -> str:
        """Describe the probe for a status line."""
        if not self.port:
            return f"{self.role}/{self.number} (DNS name {self.name} -> {self.address})"
        host = f"[{self.address}]" if ":" in self.address else self.address
        return f"{self.role}/{self.number} ({host}:{self.port})"


class Prober:
    """Runs probes; ``reached`` has every probe that has succeeded once."""

    def __init__(self, clock: AgentClock) -> None:
        """Start without a result."""
        self._clock = clock
        self._resolver = Resolver(clock)
        self.reached: Set[Probe] = set()

    def try_once(self, probes: Sequence[Probe], timeout_seconds: float) -> None:
        """Run every probe once, for at most about ``timeout_seconds``."""
        ends_at = self._clock.monotonic() + timeout_seconds
        names = [probe for probe in probes if not probe.port]
        if names:
            self._resolve(names, timeout_seconds)
        ports = [probe for probe in probes if probe.port]
        while ports and self._clock.monotonic() < ends_at:
            batch, ports = ports[:_AT_ONCE], ports[_AT_ONCE:]
            left = ends_at - self._clock.monotonic()
            self._connect(batch, min(left, _CONNECT_SECONDS))

    def _resolve(self, probes: List[Probe], timeout_seconds: float) -> None:
        self._resolver.ask([probe.name for probe in probes])
        self._resolver.collect(timeout_seconds)
        for probe in probes:
            _, addresses = self._resolver.answered.get(probe.name, (0.0, ()))
            if probe.address in addresses:
                self.reached.add(probe)

    def _connect(self, probes: Sequence[Probe], timeout_seconds: float) -> None:
        ends_at = self._clock.monotonic() + timeout_seconds
        waiting: Dict[int, Tuple[Probe, socket.socket]] = {}
        poller = select.poll()
        try:
            for probe in probes:
                opened = self._begin(probe)
                if opened is not None:
                    waiting[opened.fileno()] = (probe, opened)
                    poller.register(opened, select.POLLOUT)
            while waiting:
                left = ends_at - self._clock.monotonic()
                events = poller.poll(max(0.0, self._clock.to_machine(left)) * 1000.0)
                if not events:
                    return
                for number, _ in events:
                    poller.unregister(number)
                    self._finish(*waiting.pop(number))
        finally:
            for _, opened in waiting.values():
                opened.close()

    def _begin(self, probe: Probe) -> "socket.socket | None":
        family = socket.AF_INET6 if ":" in probe.address else socket.AF_INET
        try:
            opened = socket.socket(family, socket.SOCK_STREAM)
        except OSError:
            return None
        opened.settimeout(0.0)
        if opened.connect_ex((probe.address, probe.port)) in {0, errno.EINPROGRESS}:
            return opened
        opened.close()
        return None

    def _finish(self, probe: Probe, opened: socket.socket) -> None:
        if opened.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) == 0:
            self.reached.add(probe)
        opened.close()

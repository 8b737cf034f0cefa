"""A controller process of a simulation: it is started, stalled or killed, or ends itself.

Several share one server; each has its own clock and its own connection.
"""

import asyncio
from collections.abc import Callable, Sequence

from controller.config.config_file import ControllerConfig
from controller.controller import Controller, Election, Options
from controller.gate.leader import DEFAULT_LEASE_NAME, LeadershipLostError, LeaseTimes
from framework.clock import Random
from framework.kube.resources import LEASES, Resource
from localcluster.apiserver.storage import Storage
from tests.support.builders import NAMESPACE
from tests.support.fakes.storageclient import (
    Fate,
    LoopClock,
    Network,
    Request,
    SeededKeys,
    StorageClient,
)

_LATE_SECONDS = 0.01
# A candidate reads the Lease less often than in production, to save steps of the loop.
_LEASE_TIMES = LeaseTimes(poll_seconds=1.5)


class Link(Network):
    """The connection of one program; while it is stalled, requests and events arrive late."""

    def __init__(self, network: Network) -> None:
        self.network = network
        self.stalled_until = 0.0

    def _left(self) -> float:
        return max(0.0, self.stalled_until - asyncio.get_running_loop().time())

    def draw_fate(self, request: Request) -> Fate:
        fate = self.network.draw_fate(request)
        left = self._left()
        if not left:
            return fate
        return Fate(
            left + fate.uplink_seconds + _LATE_SECONDS,
            fate.downlink_seconds,
            fate.is_lost,
            fate.is_answer_lost,
            fate.error,
        )

    def draw_watch_delay(self, resource: Resource) -> float:
        return max(self._left(), self.network.draw_watch_delay(resource))

    def check_watch(self, resource: Resource) -> None:
        self.network.check_watch(resource)

    def draw_repetition(self, sent: Sequence[bytes]) -> bytes | None:
        return self.network.draw_repetition(sent)

    def note(self, request: Request, outcome: str) -> None:
        if request.resource != LEASES:
            self.network.note(request, outcome)


class Program:
    """A running controller; ``on_end`` is called after any end."""

    def __init__(
        self,
        name: str,
        storage: Storage,
        network: Network,
        *,
        config: ControllerConfig,
        random: Random,
        clock: LoopClock,
        is_elected: bool,
        on_end: Callable[["Program"], None],
    ) -> None:
        self.name = name
        self.clock = clock
        self.link = Link(network)
        self.client = StorageClient(storage, self.link)
        self._lease_client = StorageClient(storage, self.link)
        self._on_end = on_end
        election = Election(
            self._lease_client, clock, NAMESPACE, DEFAULT_LEASE_NAME, name, _LEASE_TIMES
        )
        controller = Controller(
            self.client,
            config,
            Options(NAMESPACE, "127.0.0.1", 0),
            clock=clock,
            random=random,
            # A generator of its own, so that the keys do not change the other draws.
            keys=SeededKeys(name),
            election=election if is_elected else None,
        )
        self.task = asyncio.create_task(controller._run_loops(), name=name)
        self.task.add_done_callback(self._end)

    def kill(self) -> None:
        """Kill the process; requests in flight are still executed."""
        self._end(self.task)
        self.task.cancel()

    def find_fault(self) -> BaseException | None:
        """Return the error that ended it, unless it lost its Lease."""
        if not self.task.done() or self.task.cancelled():
            return None
        error = self.task.exception()
        if isinstance(error, BaseExceptionGroup):
            lost, rest = error.split(LeadershipLostError)
            error = rest
            if lost is not None and rest is None:
                return None
        return error or RuntimeError("it returned")

    def _end(self, _: object) -> None:
        if not self.client.is_dead:
            self.client.is_dead = self._lease_client.is_dead = True
            self._on_end(self)

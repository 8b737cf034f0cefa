"""The start barrier: all members come to it before their processes start.

It is a barrier of ``peers`` (``site/peers/barriers/hub.py``). The agent of rank 0 serves it, and
the gang key authenticates connections. Its name contains the target: generation and epoch. An agent
waits only for the newest target.

The members of a target may succeed while others wait. An agent comes with the mark of the members
that it shows, and comes again when it shows others. The barrier releases all when they have the
mark of the agent of rank 0, and says which mark that was, also to an agent that comes again because
it has missed the answer. So all start with the same members.

Rules: docs/design/recovery.md, "Steps".
"""

import threading
from typing import Callable, Optional, Tuple

from framework.agent.clock import AgentClock
from framework.agent.report import LineReporter
from rendezvous.core.recovery import BarrierKey

_PAUSE_SECONDS = 1.0


class StartBarrier:
    """The start barriers of one agent."""

    def __init__(
        self,
        on_released: Callable[[BarrierKey, bool, str], None],
        get_members: Callable[[], str],
        reporter: LineReporter,
        clock: AgentClock,
    ) -> None:
        """Wait with the mark of ``get_members``; call ``on_released`` in a thread.

        It gets the target, whether this agent serves it, and the mark at the release.
        """
        self._on_released = on_released
        self._get_members = get_members
        self._reporter = reporter
        self._clock = clock
        self._target = BarrierKey(0, 0)
        self._token = ""

    def gather(self, target: BarrierKey) -> None:
        """Come to the start barrier of a target, and leave the one before."""
        from rendezvous.site.peers.barriers.client import draw_token  # loads sockets and selectors

        # With the same token, an agent that has missed the release is released at once.
        self._token = self._token if target == self._target else draw_token()
        self._target = target
        threading.Thread(target=self._wait, args=(target,), name="gather", daemon=True).start()

    def list_missing(self, target: BarrierKey) -> Tuple[str, ...]:
        """List the fingerprints of the Pods that have not come; () if another agent serves."""
        from rendezvous.site.peers import list_missing, roster  # loads sockets and selectors

        try:
            return list_missing(_build_name(target)) if roster().rank == 0 else ()
        except OSError:
            return ()  # the volume cannot be read now

    def find_server(self) -> Optional[Tuple[int, str]]:
        """Find the own rank and the fingerprint of the Pod that serves; None if this Pod serves."""
        from rendezvous.site.peers import roster  # loads sockets and selectors

        try:
            gang = roster()
        except OSError:
            return None  # the volume cannot be read now
        if not gang.rank or not gang.ranked:
            return None
        return gang.rank, gang.ranked[0].fingerprint

    def _wait(self, target: BarrierKey) -> None:
        from rendezvous.site.peers.barriers.client import Visit, visit_barrier

        visit = Visit(
            _build_name(target), self._token, lambda: target != self._target, self._get_members
        )
        while target == self._target:
            try:
                released = visit_barrier(visit, None)
            except Exception as e:  # noqa: BLE001  (a thread's fault would be lost)
                self._reporter.say_once(f"start barrier: {e}", "error")
                self._clock.sleep(_PAUSE_SECONDS)
                continue
            if released is not None:
                self._on_released(target, released.gang.rank == 0, released.members)
            return


def _build_name(target: BarrierKey) -> str:
    return f"start {target.generation} {target.epoch}"

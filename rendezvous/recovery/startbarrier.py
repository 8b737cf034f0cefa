"""The start barrier: all members come to it before their processes start.

It is a barrier of ``peers`` (``site/peers/barriers/hub.py``). The agent of rank 0 serves it, and
the gang key authenticates connections. Its name contains the target: generation and epoch. An agent
waits only for the newest target.

The members of a target may succeed while others wait. An agent comes with the mark of the members
that it shows, and comes again when it shows others. The barrier releases all when they have the
mark of the agent of rank 0, and says which mark that was, also to an agent that comes again because
it has missed the answer. An agent may show other members by then, so it keeps the variables of the
last member lists (``ShownMembers``), and starts its process with those of the mark. So all start
with the same members.

Example: agent 1 shows workers 0 to 2 and comes to the start barrier. Worker 2 succeeds. Agent 0
shows workers 0 and 1: the start barrier waits until agent 1 shows them, too, and comes again.

Rules: docs/design/recovery.md, "Steps".
"""

import threading
from collections import OrderedDict
from typing import Callable, FrozenSet, Mapping, NamedTuple, Optional, Sequence, Tuple

from framework.agent.clock import AgentClock
from framework.agent.report import LineReporter
from framework.api.roster import RoleRoster
from rendezvous.core.recovery import BarrierKey

UNKNOWN_MEMBERS = "the start barrier has released members that this Pod has never shown"
# Member lists that an agent keeps.
_KEPT = 16
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


class Shown(NamedTuple):
    """A member list that this agent has shown."""

    env: Mapping[str, str]
    """The variables of the process; none: those that are shown now."""
    tasks: FrozenSet[Tuple[str, int]]
    """Role and index of each member."""


class ShownMembers:
    """The last member lists, by their marks."""

    def __init__(self) -> None:
        """Start without a list."""
        self._mark = ""
        self._roles: Sequence[RoleRoster] = ()
        self._tasks: FrozenSet[Tuple[str, int]] = frozenset()
        self._shown: OrderedDict[str, Shown] = OrderedDict()

    def get_mark(self) -> str:
        """Return the mark of the members that are shown; "" before the first."""
        return self._mark

    def show(self, roles: Sequence[RoleRoster], env: Mapping[str, str]) -> None:
        """Take the members of the roles that restart in place, and the variables with them."""
        if roles != self._roles:
            self._roles, self._mark = roles, _mark(roles)
            self._tasks = frozenset((r.name, m.index) for r in roles for m in r.members)
        self._shown[self._mark] = Shown(env, self._tasks)
        self._shown.move_to_end(self._mark)
        while len(self._shown) > _KEPT:
            self._shown.popitem(last=False)

    def find(self, mark: str) -> Optional[Shown]:
        """Find the members with a mark; None if they were never shown.

        Without a mark, the agent that serves is of an older release: the members that are shown
        now.
        """
        return self._shown.get(mark) if mark else Shown({}, self._tasks)


def _mark(roles: Sequence[RoleRoster]) -> str:
    from rendezvous.site.peers.barriers.protocol import mark_members  # loads sockets and selectors

    return mark_members(
        (role.name, member.index, member.fingerprint) for role in roles for member in role.members
    )

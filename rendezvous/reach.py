"""Whether members that come later answer on their port already.

Called by ``agent`` before it shows a generation, where FB_REACH is set. How is asked is decided in
``framework.agent.probes``.
"""

from typing import Dict, Iterator, Mapping, Optional, Tuple

from framework.agent.clock import AgentClock
from framework.agent.probes import Probe, Prober
from framework.api.naming import TaskKey
from framework.api.roster import Roster
from rendezvous.settings.addresses import MAX_PORT
from rendezvous.settings.values import RolePort

_ATTEMPT_SECONDS = 1.0
_NAMED = 3


class Reach:
    """Holds a generation back until its new members answer, or for so long."""

    def __init__(
        self, ports: Mapping[str, RolePort], seconds: float, own: TaskKey, clock: AgentClock
    ) -> None:
        """Ask on ``ports``, by role ("": every other one), for at most ``seconds``."""
        self._ports = ports
        self._seconds = seconds
        self._own = own
        self._clock = clock
        self._prober = Prober(clock)
        self._since: Optional[float] = None

    def forget(self) -> None:
        """Wait for nobody any more: whoever was waited for did not stay."""
        self._since = None

    def find_obstacle(self, before: Roster, after: Roster) -> str:
        """Say who is waited for; "" when the generation may be shown.

        One that takes members away is never held back: those left would go on calling them.
        """
        if not self._ports:
            return ""
        new = set(self._list_new(before, after))
        # A port that was open once may belong to another Pod by now.
        self._prober.reached &= new
        is_shrinking = bool(_index(before).keys() - _index(after).keys())
        if is_shrinking or not new - self._prober.reached:
            self._since = None
            return ""
        self._since = self._clock.monotonic() if self._since is None else self._since
        self._prober.try_once(sorted(new - self._prober.reached), _ATTEMPT_SECONDS)
        missing = sorted(new - self._prober.reached)
        if not missing or self._clock.monotonic() - self._since >= self._seconds:
            self._since = None
            return ""
        named = ", ".join(probe.describe() for probe in missing[:_NAMED])
        return f"{len(missing)} new members do not answer yet: {named}"

    def _list_new(self, before: Roster, after: Roster) -> Iterator[Probe]:
        known = _index(before)
        for key, (address, fingerprint) in _index(after).items():
            port = self._ports.get(key.role, self._ports.get(""))
            if key == self._own or known.get(key) == (address, fingerprint) or not address:
                continue
            if port is not None and port.of(key.index) <= MAX_PORT:
                # The place of the name tells a Pod from the one before it at the same address.
                yield Probe(key.role, key.index, address, port.of(key.index), fingerprint)


def _index(roster: Roster) -> Dict[TaskKey, Tuple[str, str]]:
    return {
        TaskKey(role.name, member.index): (
            member.addresses[0] if member.addresses else "",
            member.fingerprint,
        )
        for role in roster.roles
        for member in role.members
    }

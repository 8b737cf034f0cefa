"""Members that leave their nodes while processes of the launcher are still connected to them.

No scaler asks for these members, so no request names them. Their drain waits for these processes,
like the drain of a ScaleIn (``process.scaler``): the launcher's agent acknowledges no generation
before they have ended. The controller deletes the Pods at their deadline in any case.

Rules: docs/design/agents.md, "Scalers".
"""

from typing import Dict, FrozenSet, List, Optional, Tuple

from framework.api.naming import build_pod_name
from framework.api.roster import Leaving, Roster
from framework.api.scalerequest import ScaleRequest
from rendezvous.process.processes import list_processes_naming


class LeavingHosts:
    """The members that leave, and the names and addresses that processes use for them.

    A roster has no addresses of members that leave. They are kept from the roster before.
    """

    def __init__(self, framework: str) -> None:
        """Start without a roster."""
        self._framework = framework
        self._roster: Optional[Roster] = None
        self._hosts: Dict[str, Tuple[str, ...]] = {}  # by fingerprint
        self._requested: FrozenSet[str] = frozenset()  # fingerprints

    def observe(self, roster: Optional[Roster], request: Optional[ScaleRequest]) -> None:
        """Take the current generation, and the request of a scaler.

        The request of a ScaleIn waits for its own members, so they are never listed as busy here,
        also after the request was removed: a failed ScaleIn does not wait.
        """
        if roster is None:
            return
        if roster is not self._roster:
            self._roster = roster
            self._remember_hosts(roster)
        requested = {e.fingerprint for e in roster.leaving if _is_requested(e, request)}
        if requested or self._requested:
            known = {e.fingerprint for e in roster.leaving}
            self._requested = frozenset(known & (self._requested | requested))

    def list_busy(self) -> List[str]:
        """List the processes of this container that use a member which leaves its node."""
        leaving = self._roster.leaving if self._roster is not None else ()
        hosts = [
            host
            for entry in leaving
            if entry.fingerprint not in self._requested
            for host in (
                build_pod_name(self._framework, entry.role, entry.index),
                *self._hosts.get(entry.fingerprint, ()),
            )
        ]
        return list_processes_naming(hosts) if hosts else []

    def _remember_hosts(self, roster: Roster) -> None:
        before = self._hosts
        kept = (e.fingerprint for e in roster.leaving if e.fingerprint in before)
        self._hosts = {fingerprint: before[fingerprint] for fingerprint in kept}
        for role in roster.roles:
            self._hosts.update({m.fingerprint: m.addresses for m in role.members})


def _is_requested(entry: Leaving, request: Optional[ScaleRequest]) -> bool:
    if request is None or not request.is_scale_in:
        return False
    return entry.role == request.role and entry.index in request.indexes

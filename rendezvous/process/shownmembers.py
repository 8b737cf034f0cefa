"""The members with which the process of this Pod may start: those of the generations shown last.

While agents wait at a start barrier, members may succeed. An agent may show the generation without
them before or after the start barrier releases it. So it keeps the variables of the last member
lists that it has shown, and starts its process with those that the release names by their mark.

Invariant: with the same mark, the processes of all agents start with the same members.

Example: agent 1 shows workers 0 to 2 and comes to the start barrier. Worker 2 succeeds. Agent 0
shows workers 0 and 1: the start barrier waits until agent 1 shows them, too, and comes again.

Rules: docs/design/recovery.md, "Steps".
"""

from collections import OrderedDict
from typing import Mapping, Optional, Sequence

from framework.api.roster import RoleRoster

UNKNOWN_MEMBERS = "the start barrier has released members that this Pod has never shown"
_KEPT = 16


class ShownMembers:
    """The variables of the last member lists, by their marks."""

    def __init__(self) -> None:
        """Know of none."""
        self._mark = ""
        self._roles: Sequence[RoleRoster] = ()
        self._env: OrderedDict[str, Mapping[str, str]] = OrderedDict()

    def get_mark(self) -> str:
        """Return the mark of the members that are shown; "" before the first."""
        return self._mark

    def show(self, roles: Sequence[RoleRoster], env: Mapping[str, str]) -> None:
        """Take the members of the roles that restart in place, and the variables with them."""
        if roles != self._roles:
            self._roles, self._mark = roles, _mark(roles)
        self._env[self._mark] = env
        self._env.move_to_end(self._mark)
        while len(self._env) > _KEPT:
            self._env.popitem(last=False)

    def find_env(self, mark: str) -> Optional[Mapping[str, str]]:
        """Find the variables of the members with a mark; None if they were never shown.

        Empty without a mark: the agent that serves is of an older release.
        """
        return self._env.get(mark) if mark else {}


def _mark(roles: Sequence[RoleRoster]) -> str:
    from rendezvous.site.peers.barriers.protocol import mark_members  # loads sockets and selectors

    return mark_members(
        (role.name, member.index, member.fingerprint) for role in roles for member in role.members
    )

"""Which connections an endpoint accepts, and which requests it refuses. Pure.

1. A connection is accepted if its address belongs to a member.
2. At most ``MAX_PENDING`` connections have not sent their request. A further connection replaces
   the oldest connection of the address that has most of them.
3. At most ``MAX_COMMANDS`` commands run. A further request is refused, and the client tries again.

So a client without the key can only delay members, and only from an address of the gang. A member
always gets a place among the connections without a request.
"""

from collections import Counter
from typing import Optional, Sequence, Tuple

from rendezvous.rsh.frames import Request
from rendezvous.site.peers.barriers.limits import is_loopback, list_addresses, normalize
from rendezvous.site.peers.generations import Roster

MAX_PENDING = 64
MAX_COMMANDS = 256
# From the connection to the request.
PENDING_SECONDS = 10.0


def is_member_address(gang: Roster, listening: str, address: str) -> bool:
    """Return whether a connection from this address may come from a member.

    On a loopback interface, the Pods of a local cluster share 127.0.0.1.
    """
    address = normalize(address)
    if is_loopback(listening) and address in {"127.0.0.1", "::1"}:
        return True
    return any(address in list_addresses(peer) for peer in gang.peers)


def choose_evicted(pending: Sequence[str]) -> Optional[int]:
    """Choose the pending connection that a new one replaces; None if there is room.

    ``pending`` has the addresses, the oldest connection first.
    """
    if len(pending) < MAX_PENDING:
        return None
    most, _ = Counter(pending).most_common(1)[0]
    return pending.index(most)


def find_refusal(request: Request, own: Tuple[str, str, int], running: int) -> str:
    """Find why a request is refused; "" if it is not. ``own`` is attempt, role and index.

    The client tries again for some time: the Task may have moved, or a command may end.
    """
    meant = (request.attempt, request.role, request.index)
    if meant != own:
        attempt, role, index = own
        return f"this is {role}/{index} of attempt {attempt}, not the Task that is meant"
    if running >= MAX_COMMANDS:
        return f"{MAX_COMMANDS} commands run already"
    return ""

"""The messages of a barrier's connection, between ``client`` and ``hub``.

1. A process connects to the hub, which is the process of rank 0, from an address that the roster
   has for its Pod.
2. If the hub has the gang key, it sends ``{"nonce": A}``, and the process answers
   ``{"nonce": B, "proof": P}``. The hub checks the proof and answers ``{"proof": Q}``, which the
   process checks. Without the key, these lines are left out.
3. The process sends its arrival: ``{"name", "token", "attempt", "role", "index", "pod"}``. The
   name is that of the barrier, the token a number drawn for this call of ``barrier``, and the Pod
   its fingerprint in the roster, "" for one that leaves. At a start barrier of agents, there is
   also ``"members"``: the mark of the members with which the agent would start its process.
4. When one process of every Pod that computes has arrived at this barrier, the hub sends ``go`` to
   each, and hangs up. It keeps the tokens of the released processes. An arrival with a mark counts
   only if the hub knows the same members. The mark follows ``go``.
5. A process whose connection ends before that connects and arrives again, with the same token. If
   the hub has released that token meanwhile, it sends ``go`` at once, with that mark.

Agents send reports on connections of their own: after step 2, lines ``{"attempt", "role", "index",
"pod", "report"}``, each of which the hub answers by a line. Report and answer are those of
``rendezvous.core.hangs.reports``.

Each of these is a line of at most 4096 bytes, its end included; all but ``go`` are JSON. From the
connection to the arrival there are 10 seconds. The hub closes connections that break these rules.
"""

import hashlib
import json
from typing import Any, Dict, Iterable, Optional, Tuple

from ..gang_key import compute_proof

MAX_LINE_BYTES = 4096
# From the connection to the arrival.
FIRST_LINE_SECONDS = 10.0
GO = b"go\n"
# The sides of a connection. Their proofs differ, so that no proof can be sent back to its sender.
MEMBER = "member"
RANK_0 = "rank 0"


def mark_members(members: Iterable[Tuple[str, int, str]]) -> str:
    """Compute the mark of members: role, index and fingerprint of each, in any order."""
    text = "".join(f"{role} {index} {pod}\n" for role, index, pod in sorted(members))
    return hashlib.sha256(text.encode()).hexdigest()[:8]


def compute_side_proof(key: bytes, side: str, nonces: Tuple[str, str, str]) -> str:
    """Compute the proof of a side for the attempt, the nonce of rank 0 and that of the member."""
    return compute_proof(key, "barrier", side, *nonces)


def encode_go(mark: Optional[str]) -> bytes:
    """Encode the release, with the mark of the members if the arrival had one."""
    return b"go " + mark.encode() + b"\n" if mark else GO


def decode_go(line: bytes) -> Optional[str]:
    """Decode the mark of a release, "" if it has none; None if this is no release."""
    return line[2:].decode("ascii", "replace").strip() if line.startswith(b"go") else None


def encode_line(wire: Dict[str, Any]) -> bytes:
    """Encode a line, with its end."""
    return json.dumps(wire).encode() + b"\n"


def decode_line(line: bytes) -> Any:
    """Decode a line.

    Raises:
        ValueError: It is not JSON in UTF-8.
        RecursionError: It is nested too deep.
    """
    return json.loads(line.decode())

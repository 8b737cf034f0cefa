"""The connection of an agent to the agent of rank 0, on which it reports progress.

It is a connection to the hub of the barrier (``site/peers/barriers/hub.py``), so the gang key
authenticates it. It stays open. When it breaks, or when another Pod becomes rank 0, the next report
opens a new one.

The agent of rank 0 serves the hub. A training process of its Pod must not serve, because its hub
would answer no report: ``SERVED_BY_ENV`` prevents it.
"""

import os
import socket
import time
from typing import Any, Optional

from rendezvous.site.peers.barriers.client import DEFAULT_PORT, prove, read_line, start_hub
from rendezvous.site.peers.barriers.connecting import connect
from rendezvous.site.peers.barriers.protocol import encode_line
from rendezvous.site.peers.gang_key import GangKeyError, read_gang_key
from rendezvous.site.peers.generations import Peer, Roster, roster

_ANSWER_SECONDS = 5.0


class NoMemberError(Exception):
    """This Pod is no member of the newest generation, for example because it leaves."""


class ProgressLink:
    """A connection to rank 0."""

    def __init__(self) -> None:
        """Prepare; the first report connects."""
        self._connection: Optional[socket.socket] = None
        self._first: Optional[Peer] = None
        self._served: Optional[Roster] = None

    def exchange(self, report: Any) -> Any:
        """Send a report; return the answer.

        Raises:
            NoMemberError: This Pod is no member now.
            OSError, ValueError, GangKeyError: Rank 0 cannot be reached now.
        """
        try:
            return self._exchange(report)
        except NoMemberError:
            self.close()
            raise
        except RecursionError as e:
            self.close()
            raise ValueError("its answer is nested too deep") from e
        except (OSError, ValueError, GangKeyError):
            self.close()
            raise

    def serve(self) -> bool:
        """Serve the hub if this Pod is rank 0; return False if another process has its port.

        Raises:
            OSError, ValueError, GangKeyError: The volume or the gang key cannot be read now.
        """
        gang = roster()
        if gang.rank != 0 or gang is self._served:
            return True
        is_served = start_hub(gang, _find_port(), read_gang_key(gang.attempt))
        self._served = gang if is_served else None
        return is_served

    def _exchange(self, report: Any) -> Any:
        self.serve()
        gang = roster()
        own = next((p for p in gang.peers if (p.role, p.index) == (gang.role, gang.index)), None)
        if own is None or not gang.ranked:
            raise NoMemberError
        first = gang.ranked[0]
        if self._connection is None or self._first != first:
            self.close()
            key = read_gang_key(gang.attempt)
            self._connection, self._first = connect(own, first.address, _find_port()), first
            if key is not None:
                prove(self._connection, key, gang.attempt)
        line = {
            "attempt": gang.attempt,
            "role": own.role,
            "index": own.index,
            "pod": own.fingerprint,
            "report": report,
        }
        self._connection.sendall(encode_line(line))
        return read_line(self._connection, time.monotonic() + _ANSWER_SECONDS)

    def close(self) -> None:
        """Close the connection, if there is one."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def _find_port() -> int:
    return int(os.environ.get("FB_BARRIER_PORT") or DEFAULT_PORT)

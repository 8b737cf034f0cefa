"""``barrier``, in every process: connect to rank 0 and wait there.

``protocol`` describes the messages. Until this process is released:

1. Wait for a generation with a member that computes.
2. In the process of rank 0, start the hub, unless a process of this Pod serves it already, or the
   agent does, whose hub also takes reports. The agent serves if $FB_BARRIER_SERVED_BY is the id of
   another process, or if, without that variable, as in another container, ``.served`` in the volume
   is locked.
3. Connect to rank 0 (2 s at most), prove the gang key if it is mounted, and arrive.
4. Wait for the release. Every 0.5 s, check that rank 0 is the same, that this Pod is still a
   member, or still none, and that the mark of its members is the same. If not, begin again. If the
   connection fails, begin again after a pause that doubles from 50 ms to 1 s, because all members
   connect to the same rank 0.
"""

import contextlib
import fcntl
import os
import socket
import time
from typing import Any, Callable, NamedTuple, Optional

from ..gang_key import draw_nonce, is_proof, read_gang_key
from ..generations import LOOK_SECONDS, Roster, find_current, roster, wait
from ..logs import warn_once
from .connecting import CONNECT_SECONDS, connect
from .hub import serve
from .limits import Limits, make_room
from .protocol import (
    FIRST_LINE_SECONDS,
    MAX_LINE_BYTES,
    MEMBER,
    RANK_0,
    compute_side_proof,
    decode_go,
    decode_line,
    encode_line,
)

DEFAULT_PORT = 29600
SERVED_BY_ENV = "FB_BARRIER_SERVED_BY"
_SERVED_FILE = ".served"
_LOCK_TRIES = 20
_LONGEST_PAUSE_SECONDS = 1.0


class Visit(NamedTuple):
    """The wait of this process at a barrier."""

    name: str
    """Name of the barrier."""
    token: str
    """Identifies the process at this barrier, also when it comes again."""
    is_left: Callable[[], bool]
    """Returns whether to stop the wait; called every 0.5 s."""
    get_members: Callable[[], str] = str
    """Returns the mark of the members with which this process would start; "" for no mark."""


class Release(NamedTuple):
    """The release of a barrier."""

    gang: Roster
    """The generation that is current now."""
    members: str
    """The mark of the members at the release; "" without marks."""


def barrier(name: str, timeout: Optional[float] = None) -> Roster:
    """Wait until one process of every Pod that computes has come to the barrier of this name.

    A name can be used again. If the gang of rank 0 changes meanwhile, the barrier waits for added
    Pods and no longer for removed Pods. Returns the generation that is current at the release.

    Raises:
        TimeoutError: They did not come within ``timeout`` seconds.
        GangKeyError: The gang key is configured and cannot be used.
        ValueError: $FB_BARRIER_SOURCES is neither roster nor any.
    """
    deadline = None if timeout is None else time.monotonic() + timeout
    released = pass_barrier(name, deadline, _stay)
    if released is None:
        raise TimeoutError(f"barrier {name!r}: not all members arrived within {timeout} s")
    return released


def draw_token() -> str:
    """Draw a token for a visit."""
    return os.urandom(12).hex()


def pass_barrier(
    name: str, deadline: Optional[float], is_ready_to_go: Callable[[], bool]
) -> Optional[Roster]:
    """Wait at the barrier of this name; None after the deadline, or when this process has left.

    Args:
        name: of the barrier.
        deadline: in monotonic seconds; None: none.
        is_ready_to_go: returns whether to stop the wait; called every 0.5 s.

    Raises:
        TimeoutError, GangKeyError, ValueError: As ``barrier``.
    """
    released = visit_barrier(Visit(name, draw_token(), is_ready_to_go), deadline)
    return released.gang if released is not None else None


def _stay() -> bool:
    return False


def visit_barrier(visit: Visit, deadline: Optional[float]) -> Optional[Release]:
    """Wait at a barrier; None after the deadline, or when this process has left.

    Args:
        visit: name of the barrier, and the facts of this process.
        deadline: in monotonic seconds; None: none.

    Raises:
        TimeoutError, GangKeyError, ValueError: As ``barrier``.
    """
    pause = LOOK_SECONDS
    while True:
        began = time.monotonic()
        gang = wait(timeout=None if deadline is None else max(0.0, deadline - time.monotonic()))
        with contextlib.suppress(OSError):
            members = _await_release(gang, visit, deadline)
            if members is not None:
                return Release(roster(), members)
        if visit.is_left() or (deadline is not None and time.monotonic() >= deadline):
            return None
        if time.monotonic() - began > _LONGEST_PAUSE_SECONDS:
            pause = LOOK_SECONDS  # it waited there, or the connection took long enough
        time.sleep(pause * (0.5 + os.urandom(1)[0] / 512))
        pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)


def _await_release(gang: Roster, visit: Visit, deadline: Optional[float]) -> Optional[str]:
    """Connect to rank 0 and wait there; return the mark of the members at the release.

    None if rank 0 must be found again, or this process has to come again with another mark.
    """
    own = next((p for p in gang.peers if (p.role, p.index) == (gang.role, gang.index)), None)
    first, port = gang.ranked[0], int(os.environ.get("FB_BARRIER_PORT") or DEFAULT_PORT)
    key = read_gang_key(gang.attempt)
    if key is None:
        warn_once("barrier: connections are not authenticated, because no gang key is mounted")
    if gang.rank == 0 and not _is_served_by_agent():
        start_hub(gang, port, key)
    mark = visit.get_members()
    arrival = {
        "name": visit.name,
        "token": visit.token,
        "attempt": gang.attempt,
        "role": gang.role,
        "index": gang.index,
        "pod": own.fingerprint if own and gang.is_member else "",
    }
    if mark:
        arrival["members"] = mark
    with connect(own, first.address, port) as connection:
        if key is not None:
            prove(connection, key, gang.attempt)
        connection.sendall(encode_line(arrival))
        connection.settimeout(CONNECT_SECONDS / 4)
        while deadline is None or time.monotonic() < deadline:
            try:
                answer = connection.recv(16)
            except socket.timeout:
                if visit.is_left() or _must_come_again(gang, visit, mark):
                    return None
                continue
            if answer.startswith(b"{"):
                warn_once("barrier: rank 0 requires the gang key; mount it here, too")
            return decode_go(answer)
    return None


def _must_come_again(gang: Roster, visit: Visit, mark: str) -> bool:
    """Return whether this arrival no longer counts."""
    now = roster()
    if now.ranked[:1] != gang.ranked[:1] or now.is_member != gang.is_member:
        return True
    return visit.get_members() != mark


def lock_hub(directory: str) -> Optional[int]:
    """Keep other processes with this volume from serving, as long as this process runs.

    Returns:
        The descriptor of the lock; None if the file cannot be locked.
    """
    path = os.path.join(directory, _SERVED_FILE)
    try:
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        descriptor = os.open(path, flags, 0o644)
    except OSError:
        return None
    for _ in range(_LOCK_TRIES):
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            time.sleep(LOOK_SECONDS)  # a process checks it
        else:
            return descriptor
    os.close(descriptor)
    return None


def _is_served_by_agent() -> bool:
    """Return whether another process serves the hub: the agent of this Pod."""
    server = os.environ.get(SERVED_BY_ENV)
    if server is not None:
        return server != str(os.getpid())
    path = os.path.join(os.path.dirname(find_current()), _SERVED_FILE)
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    finally:
        os.close(descriptor)
    return False


def start_hub(gang: Roster, port: int, key: Optional[bytes]) -> bool:
    """Serve in this process, with files for all connections; return whether it serves.

    Raises:
        ValueError: $FB_BARRIER_SOURCES is neither roster nor any.
    """
    make_room(Limits(gang, {}).wanted)
    return serve(gang, port, key)


def prove(connection: socket.socket, key: bytes, attempt: str) -> None:
    """Prove the gang key to rank 0 and have it prove the same; OSError if it does not."""
    deadline, mine = time.monotonic() + FIRST_LINE_SECONDS, draw_nonce()
    try:
        nonces = (attempt, str(read_line(connection, deadline)["nonce"]), mine)
        proof = compute_side_proof(key, MEMBER, nonces)
        connection.sendall(encode_line({"nonce": mine, "proof": proof}))
        answer = read_line(connection, deadline)["proof"]
    except socket.timeout as e:
        warn_once(f"barrier: rank 0 does not answer in {FIRST_LINE_SECONDS:.0f} s")
        raise ConnectionError("rank 0 does not answer") from e
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as e:
        warn_once("barrier: rank 0 does not accept, or does not have, this attempt's gang key")
        raise ConnectionError(f"no proof of the gang key: {e}") from e
    if not is_proof(answer, compute_side_proof(key, RANK_0, nonces)):
        warn_once("barrier: rank 0 has another gang key")
        raise ConnectionError("no proof of the gang key")


def read_line(connection: socket.socket, deadline: float) -> Any:
    """Read a line and decode it.

    Raises:
        OSError: The connection broke, or the deadline in monotonic seconds is over.
        ValueError, RecursionError: The other side hung up, or this is no line of the protocol.
    """
    line = b""
    while not line.endswith(b"\n"):
        connection.settimeout(max(0.001, deadline - time.monotonic()))
        part = connection.recv(MAX_LINE_BYTES)
        line += part
        if not part or len(line) > MAX_LINE_BYTES:
            raise ValueError("it hung up" if not part else "its line is too long")
    return decode_line(line)

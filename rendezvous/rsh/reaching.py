"""Finds the member that the user names, and starts the command there.

1. Find the host among the members of the current generation: an address, or the name of a Pod.
2. Connect, prove the key, and send the request.
3. If there is no such member, if it does not listen, hangs up or refuses: repeat this with growing
   pauses until the time is over. A wrong key is final.
"""

from typing import Callable, NamedTuple, Optional

from framework.agent.clock import AgentClock
from framework.api.naming import build_pod_name
from rendezvous.core.target import Target
from rendezvous.rsh.channel import AuthenticationError, Channel, ChannelError, wait_for
from rendezvous.rsh.credentials import Credentials
from rendezvous.rsh.frames import (
    FROM_ENDPOINT,
    FrameError,
    Kind,
    Request,
    check_length,
    encode_request,
)
from rendezvous.site.peers.barriers.connecting import connect
from rendezvous.site.peers.barriers.limits import list_addresses, normalize
from rendezvous.site.peers.generations import Peer, Roster

_ANSWER_SECONDS = 10.0
_FIRST_PAUSE_SECONDS = 0.1
_LONGEST_PAUSE_SECONDS = 2.0


class UnreachableError(Exception):
    """The command cannot be started; the message has the reason."""


class Destination(NamedTuple):
    """The member that the client wants to reach, and the command."""

    host: str
    """An address or the name of a Pod."""
    port: int
    """The port of the endpoints."""
    command: bytes
    """The command line for the shell of that member."""
    timeout_seconds: float
    """For how long the client tries."""


def find_peer(gang: Roster, framework: str, host: str) -> Optional[Peer]:
    """Find a member by an address, or by the name of its Pod, also with a domain. Pure."""
    address, name = normalize(host), host.partition(".")[0]
    for peer in gang.peers:
        if address in list_addresses(peer):
            return peer
    for peer in gang.peers:
        if name == build_pod_name(framework, peer.role, peer.index):
            return peer
    return None


class Connector:
    """Tries until the command is started on a channel."""

    def __init__(
        self,
        target: Target,
        credentials: Credentials,
        read_roster: Callable[[], Roster],
        clock: AgentClock,
    ) -> None:
        """Start from the own Pod, ``target``."""
        self._target = target
        self._credentials = credentials
        self._read_roster = read_roster
        self._clock = clock

    def reach(self, destination: Destination) -> Channel:
        """Start the command.

        Raises:
            FrameError: The command is too long.
            UnreachableError: It could not be started in time.
        """
        check_length(destination.command)
        deadline = self._clock.monotonic() + destination.timeout_seconds
        pause = _FIRST_PAUSE_SECONDS
        while True:
            try:
                return self._try_once(destination)
            except AuthenticationError as e:
                raise UnreachableError(
                    f"it does not have the gang key of this attempt ({e})"
                ) from e
            except (OSError, ChannelError, FrameError) as e:
                if self._clock.monotonic() + pause >= deadline:
                    raise UnreachableError(
                        f"{e}, for {destination.timeout_seconds:g} s; look at the log of its agent"
                    ) from e
            self._clock.sleep(pause * self._clock.uniform(0.5, 1.0))
            pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)

    def _try_once(self, destination: Destination) -> Channel:
        gang = self._read_roster()
        peer = find_peer(gang, self._target.framework, destination.host)
        if peer is None:
            raise ChannelError("no member of the gang has this name or address")
        own = (gang.role, gang.index)
        source = next((p for p in gang.peers if (p.role, p.index) == own), None)
        connected = connect(source, peer.address, destination.port)
        channel = Channel(connected, self._credentials, FROM_ENDPOINT, is_server=False)
        try:
            request = Request(gang.attempt, peer.role, peer.index, destination.command)
            self._start(channel, request)
        except BaseException:
            channel.close()
            raise
        return channel

    def _start(self, channel: Channel, request: Request) -> None:
        clock = self._clock
        deadline = clock.monotonic() + _ANSWER_SECONDS
        channel.shake_hands(deadline, clock)
        channel.send(encode_request(request))
        while True:
            channel.flush()
            frame = channel.receive_one()
            if frame is not None:
                break
            if channel.is_ended:
                raise ChannelError("it hung up")
            if not channel.has_more:
                wait_for(channel.fileno(), channel.events, deadline, clock)
        if frame.kind is Kind.REFUSED:
            raise ChannelError(frame.content.decode("utf-8", "replace"))
        if frame.kind is not Kind.STARTED:
            raise FrameError(f"{frame.kind.name} is not expected here")

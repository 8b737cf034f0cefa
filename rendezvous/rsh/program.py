"""Wires the two ends of remote commands into the agent's program."""

import os
from typing import Callable, List, Mapping, Optional

from framework.agent.addresses import join_port
from framework.agent.clock import AgentClock
from framework.agent.report import LineReporter
from framework.api import constants
from rendezvous.agent import Setup
from rendezvous.core.target import parse_target
from rendezvous.process.children import Children
from rendezvous.rsh.client import FAULT_CODE, Client
from rendezvous.rsh.credentials import load_credentials
from rendezvous.rsh.endpoint import Endpoint, Parts
from rendezvous.rsh.frames import FrameError
from rendezvous.rsh.reaching import Connector, Destination, UnreachableError
from rendezvous.settings.options import Options
from rendezvous.site.peers.generations import Roster, read_current

_LAST_STREAM = 2


def run_client(
    host: str, words: List[str], env: Mapping[str, str], options: Options, clock: AgentClock
) -> int:
    """Run a command in another member; return its exit code, or 255.

    Raises:
        RefusedError: The gang key or a variable of the controller is missing.
    """
    _fill_streams()
    reporter = LineReporter("rendezvous", is_json=env.get(constants.BARRIER_LOG_ENV) == "json")
    target = parse_target(env)
    credentials = load_credentials(target.identity.instance_uid, env, is_server=False)
    # As ssh does: the remote shell gets the words as one text.
    command = b" ".join(os.fsencode(word) for word in words)
    destination = Destination(host, options.rsh_server_port, command, options.rsh_timeout_seconds)
    connector = Connector(target, credentials, _build_reader(options), clock)
    try:
        channel = connector.reach(destination)
    except (UnreachableError, FrameError) as e:
        reporter.say(f"rsh: {host}: {e}", "error")
        return FAULT_CODE
    return Client(channel, host, reporter).run()


class PreparedEndpoint:
    """An endpoint with its certificate. It is opened when the first generation is current."""

    def __init__(self, setup: Setup, env: Mapping[str, str], children: Children) -> None:
        """Load the certificate.

        Raises:
            RefusedError: The gang key is missing.
        """
        identity = setup.target.identity
        self._options = setup.options
        self._parts = Parts(
            (identity.instance_uid, identity.role, identity.index),
            load_credentials(identity.instance_uid, env, is_server=True),
            _build_reader(setup.options),
            children,
            setup.options.stop_grace_seconds,
            setup.reporter,
            setup.clock,
        )
        self._endpoint: Optional[Endpoint] = None

    def open(self) -> None:
        """Serve on the address that the roster has for this Pod.

        Raises:
            OSError: The port is taken, or the address is not of this host.
        """
        address = _find_own_address(self._parts.read_roster())
        self._endpoint = Endpoint(self._parts, address, self._options.rsh_server_port)
        self._endpoint.start()
        where = join_port(address, self._endpoint.port)
        self._parts.reporter.say(f"remote commands are served on {where}")

    def close(self) -> None:
        """Kill all commands; the program ends next."""
        if self._endpoint is not None:
            self._endpoint.close()


def _fill_streams() -> None:
    """Open /dev/null for closed standard streams, so that no socket gets their numbers."""
    while True:
        descriptor = os.open(os.devnull, os.O_RDWR)
        if descriptor > _LAST_STREAM:
            os.close(descriptor)
            return


def _build_reader(options: Options) -> Callable[[], Roster]:
    link = os.path.join(options.directory, "current")
    return lambda: read_current(link)


def _find_own_address(gang: Roster) -> str:
    for peer in gang.peers:
        if (peer.role, peer.index) == (gang.role, gang.index):
            return peer.address
    raise OSError("this Pod is not a member of the gang")

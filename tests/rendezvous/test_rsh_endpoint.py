"""The endpoint of remote commands when its Pod has no descriptor left."""

import errno
import socket
import ssl

import pytest

from framework.agent.clock import AgentClock
from framework.agent.report import LineReporter
from rendezvous.process.children import Children
from rendezvous.rsh.credentials import Credentials
from rendezvous.rsh.endpoint import Endpoint, Parts
from tests.rendezvous.test_rsh_admission import GANG
from tests.support.waiting import HANG_SECONDS


def test_connection_without_a_free_descriptor_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: socket.socket) -> socket.socket:
        raise OSError(errno.EMFILE, "Too many open files")

    clock = AgentClock()
    credentials = Credentials(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), b"")
    reporter = LineReporter("rendezvous", is_json=False)
    own = ("attempt", "worker", 0)
    parts = Parts(own, credentials, lambda: GANG, Children(clock), 1.0, reporter, clock)
    endpoint = Endpoint(parts, "127.0.0.1", 0)
    monkeypatch.setattr(socket.socket, "dup", refuse)
    endpoint.start()

    with socket.create_connection(("127.0.0.1", endpoint.port), HANG_SECONDS) as connection:
        assert connection.recv(1) == b""

import socket

import pytest

from framework.agent.clock import AgentClock
from framework.agent.probes import Probe, Prober
from tests.skips import DOES_NOT_APPLY
from tests.support.waiting import HANG_SECONDS


def make_probe(port: int, address: str = "127.0.0.1") -> Probe:
    return Probe("ps", 0, address, port, "")


def test_attempt_open_port_is_reached_and_a_closed_one_when_it_is_opened() -> None:
    prober = Prober(AgentClock())
    with socket.create_server(("127.0.0.1", 0)) as server, socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        opened, shut = (make_probe(listener.getsockname()[1]) for listener in (server, closed))
        prober.try_once([opened, shut], HANG_SECONDS)
        assert prober.reached == {opened}
        closed.listen()
        prober.try_once([shut], HANG_SECONDS)
        assert prober.reached == {opened, shut}


def test_attempt_more_than_fit_at_once_are_all_tried() -> None:
    with socket.create_server(("127.0.0.1", 0), backlog=256) as server:
        port = server.getsockname()[1]
        probes = [Probe("ps", i, "127.0.0.1", port, "") for i in range(150)]
        prober = Prober(AgentClock())
        prober.try_once(probes, HANG_SECONDS)
        assert prober.reached == set(probes)


def test_attempt_silent_address_ends_in_time() -> None:
    clock = AgentClock()
    with socket.socket() as full:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        port = full.getsockname()[1]
        fillers = [socket.socket() for _ in range(4)]
        for filler in fillers:
            filler.settimeout(0.0)
            filler.connect_ex(("127.0.0.1", port))
        prober = Prober(clock)
        started_at = clock.monotonic()
        prober.try_once([make_probe(port)], 0.2)
        assert clock.monotonic() - started_at < 60, "the kernel gives up after two minutes"
        for filler in fillers:
            filler.close()
    assert not prober.reached


@pytest.mark.skipif(not socket.has_dualstack_ipv6(), reason=f"{DOES_NOT_APPLY}no IPv6")
def test_attempt_ipv6_is_reached() -> None:
    with socket.create_server(("::1", 0), family=socket.AF_INET6) as server:
        probe = make_probe(server.getsockname()[1], "::1")
        prober = Prober(AgentClock())
        prober.try_once([probe], HANG_SECONDS)
        assert prober.reached == {probe}


def test_attempt_name_counts_only_with_the_members_address() -> None:
    prober = Prober(AgentClock())
    right = Probe("ps", 0, "127.0.0.1", 0, "localhost")
    stale = Probe("ps", 1, "10.9.9.9", 0, "localhost")
    prober.try_once([right, stale], HANG_SECONDS)
    assert prober.reached == {right}

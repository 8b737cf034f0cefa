"""Who may connect to an endpoint, whose connection makes place, and which requests are refused."""

from collections import Counter

import pytest

from rendezvous.rsh.admission import (
    MAX_COMMANDS,
    MAX_PENDING,
    choose_evicted,
    find_refusal,
    is_member_address,
)
from rendezvous.rsh.frames import Request
from rendezvous.rsh.reaching import find_peer
from rendezvous.site.peers.generations import Peer, Roster

OWN = ("0_uid", "worker", 1)
REQUEST = Request(*OWN, b"true")
PEERS = (
    Peer("launcher", 0, -1, "10.0.0.1", 1, "a", ("10.0.0.1", "2001:db8::1")),
    Peer("worker", 0, 0, "10.0.0.2", 1, "b"),
)
GANG = Roster(
    generation=1,
    attempt="0_uid",
    role="worker",
    index=0,
    rank=0,
    is_member=True,
    is_leaving=False,
    is_completing=False,
    peers=PEERS,
)


@pytest.mark.parametrize(
    ("listening", "address", "is_taken"),
    [
        ("10.0.0.2", "10.0.0.1", True),
        ("10.0.0.2", "::ffff:10.0.0.1", True),
        ("2001:db8::2", "2001:db8:0::1%eth0", True),
        ("10.0.0.2", "10.0.0.3", False),
        ("10.0.0.2", "127.0.0.1", False),
        # The Pods of a local cluster.
        ("127.0.9.1", "127.0.0.1", True),
        ("127.0.9.1", "127.0.66.6", False),
    ],
)
def test_connections_come_from_members(listening: str, address: str, *, is_taken: bool) -> None:
    assert is_member_address(GANG, listening, address) is is_taken


def test_members_find_a_place_whatever_one_address_does() -> None:
    pending = ["b"] + ["a"] * (MAX_PENDING - 1)
    for address in ("b", "c", "a", "d"):
        evicted = choose_evicted(pending)
        assert evicted is not None
        assert pending.pop(evicted) == "a"
        pending.append(address)
    assert Counter(pending) == {"a": MAX_PENDING - 4, "b": 2, "c": 1, "d": 1}


def test_oldest_connection_makes_place_and_only_if_none_is_left() -> None:
    assert choose_evicted(["a"] * (MAX_PENDING - 1)) is None
    assert choose_evicted(["b"] * 2 + ["a"] * (MAX_PENDING - 2)) == 2


def test_request_for_another_task_or_attempt_is_refused() -> None:
    assert find_refusal(REQUEST, OWN, 0) == ""
    for other in (REQUEST._replace(attempt="1_uid"), REQUEST._replace(index=0)):
        assert "this is worker/1 of attempt 0_uid" in find_refusal(other, OWN, 0)
    assert find_refusal(REQUEST, OWN, MAX_COMMANDS - 1) == ""
    assert "256 commands run already" in find_refusal(REQUEST, OWN, MAX_COMMANDS)


@pytest.mark.parametrize(
    ("host", "index"),
    [
        ("10.0.0.1", 0),
        ("2001:db8::1", 0),
        ("job-worker-0", 1),
        ("job-worker-0.job.default.svc", 1),
        ("job-worker-1", None),
        ("10.0.0.3", None),
        ("", None),
    ],
)
def test_host_is_an_address_or_the_name_of_a_pod(host: str, index: int | None) -> None:
    assert find_peer(GANG, "job", host) == (None if index is None else PEERS[index])

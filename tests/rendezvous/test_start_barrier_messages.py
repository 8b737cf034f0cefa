"""How many connections and lines an epoch takes at the agent of rank 0, in a gang of 1,000 members.

The process of rank 0 is real; the test is all others, each by a connection from its own address.
"""

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from framework.api.roster import Roster
from rendezvous.site.peers.barriers.limits import make_room
from rendezvous.site.peers.barriers.protocol import (
    GO,
    MEMBER,
    compute_side_proof,
    decode_line,
    encode_line,
)
from rendezvous.site.peers.gang_key import draw_nonce
from tests.rendezvous.gangs import build_role, build_roster
from tests.rendezvous.members import (
    Member,
    assert_passed,
    build_arrival,
    connect,
    open_members,
)
from tests.support.waiting import HANG_SECONDS

MEMBERS, EPOCHS = 1000, 2
KEY = "ab" * 32
# No connection is closed because this test is slow.
PATIENT = "from peers.barriers import client, hub\n"
PATIENT += f"client.FIRST_LINE_SECONDS = hub.FIRST_LINE_SECONDS = {2 * HANG_SECONDS}\n"


@pytest.fixture
def rank_0(tmp_path: Path) -> Iterator[Member]:
    key = tmp_path / "gang-key"
    key.write_text(KEY)
    with open_members(tmp_path, 1, setup=PATIENT, FB_GANG_KEY_FILE=str(key)) as members:
        yield members[0]


def build_address(index: int) -> str:
    return f"127.0.{9 + index // 200}.{1 + index % 200}"


def build_large_gang() -> Roster:
    role = build_role("worker", MEMBERS)
    members = tuple(m._replace(addresses=(build_address(m.index),)) for m in role.members)
    return build_roster(role._replace(members=members))


class Arrival:
    """A member at the barrier of an epoch, by one connection; keeps the lines that it receives."""

    def __init__(self, rank_0: Member, gang: Roster, index: int) -> None:
        self.received: list[bytes] = []
        self._gang, self._index = gang, index
        self._socket = connect(rank_0, build_address(index))
        self._lines = self._socket.makefile("rb")

    def prove(self) -> None:
        nonces = (self._gang.instance_uid, str(decode_line(self._read())["nonce"]), draw_nonce())
        proof = compute_side_proof(KEY.encode(), MEMBER, nonces)
        self._socket.sendall(encode_line({"nonce": nonces[2], "proof": proof}))

    def come(self, name: str) -> None:
        self._read()  # the proof of rank 0
        arrival = build_arrival(self._gang, self._index, f"{name} of {self._index}")
        self._socket.sendall(encode_line({**arrival, "name": name}))

    def read_rest(self) -> None:
        """Read until rank 0 closes the connection."""
        self.received += self._lines.readlines()

    def close(self) -> None:
        self._lines.close()
        self._socket.close()

    def _read(self) -> bytes:
        self.received.append(self._lines.readline())
        return self.received[-1]


def test_epoch_of_a_thousand_members_takes_one_connection_and_five_lines_of_each(
    rank_0: Member,
) -> None:
    """Two lines to rank 0, and three from it; nothing is sent while the others have not come."""
    make_room(MEMBERS)
    gang = build_large_gang()
    rank_0.show(gang)
    for epoch in range(EPOCHS):
        name = f"start 1 {epoch}"
        rank_0.come(name)
        with contextlib.ExitStack() as stack:
            arrivals = []
            for index in range(1, MEMBERS):
                arrivals.append(Arrival(rank_0, gang, index))
                stack.callback(arrivals[-1].close)
            for arrival in arrivals:
                arrival.prove()
            for arrival in arrivals:
                arrival.come(name)
            for arrival in arrivals:
                arrival.read_rest()
        assert {len(arrival.received) for arrival in arrivals} == {3}
        assert {arrival.received[-1] for arrival in arrivals} == {GO}
        assert_passed([rank_0], f"{name} 1")

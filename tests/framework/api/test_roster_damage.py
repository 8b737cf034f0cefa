"""A roster that was damaged or cut is refused by its own checksum: no agent acts on one."""

import pytest

from framework.api.roster import Roster, RosterError, decode_roster, encode_roster
from tests.support.builders import build_role_roster, build_roster

ROSTER = build_roster(build_role_roster("worker", 3))
STORED = encode_roster(ROSTER)


def decode(stored: bytes) -> Roster | None:
    try:
        return decode_roster(stored)
    except RosterError:
        return None


@pytest.mark.parametrize("flip", [0x01, 0x80, 0xFF])
def test_damaged_byte_is_refused_or_harmless(flip: int) -> None:
    taken = [
        decode(STORED[:place] + bytes([byte ^ flip]) + STORED[place + 1 :])
        for place, byte in enumerate(STORED)
    ]
    # Harmless is what gzip's header says of the time and of who wrote it, and padding.
    assert set(taken) <= {None, ROSTER}
    assert taken.count(ROSTER) < 10


def test_half_a_roster_is_refused() -> None:
    assert [decode(STORED[:length]) for length in range(len(STORED))] == [None] * len(STORED)

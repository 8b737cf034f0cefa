"""framework.api.roster: nothing is lost, few bytes, only RosterError.

Properties P9 and P10 of docs/design/invariants.md.
"""

import gzip
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from framework.api import roster as roster_module
from framework.api.constants import READINESS_MAX_BYTES, READINESS_MAX_MISSING
from framework.api.gangreadiness import GangReadiness, Missing, decode_readiness, encode_readiness
from framework.api.roster import (
    CompletedTask,
    FailedMember,
    Leaving,
    Roster,
    decode_roster,
    encode_roster,
    fingerprint_uid,
)
from framework.api.rostervalues import RosterError
from tests.support.builders import Wire, build_member, build_role_roster, build_roster
from tests.support.builders.cases import cases
from tests.support.builders.strategies import json_values, rosters


def wire_of(roster: Roster) -> Wire:
    wire: Wire = json.loads(gzip.decompress(encode_roster(roster)))
    return wire


@given(rosters())
def test_roster_encoded_and_decoded_is_the_same(roster: Roster) -> None:
    stored = encode_roster(roster)
    assert decode_roster(stored) == roster
    assert encode_roster(decode_roster(stored)) == stored


LEAVING = Leaving("worker", 4, "89abcdef", 7, "2026-01-01T00:00:00Z")
FAILED = FailedMember("worker", 4, "89abcdef", 1, 7, 137, "ContainerSigKillReceived")


def test_roster_wire_form_is_the_documented_one() -> None:
    role = build_role_roster("worker", 5, running=True)
    members = (
        role.members[0]._replace(addresses=("10.0.0.2", "fd00::2")),
        role.members[1],
        role.members[2]._replace(attempt_id=1),
    )
    completed = (CompletedTask(3, "Succeeded", "10.0.0.5"),)
    role = role._replace(members=members, completed=completed, absent=(7,))
    roster = build_roster(role, generation=7, leaving=[LEAVING], complete=False)
    assert wire_of(roster) == {
        "version": 1,
        "namespace": "default",
        "framework": "gang",
        "frameworkUID": roster.framework_uid,
        "attemptID": 0,
        "instanceUID": roster.instance_uid,
        "generation": 7,
        "complete": False,
        "phase": "Active",
        "roles": [
            {
                "name": "worker",
                "wanted": 5,
                "minimum": 5,
                "running": True,
                "indexes": "0-2",
                "addresses": ["10.0.0.2", "10.0.0.3", "10.0.0.4"],
                "fingerprints": "".join(m.fingerprint for m in members),
                "moreAddresses": {"0": ["fd00::2"]},
                "attemptIDs": {"2": 1},
                "completed": {"3": ["Succeeded", "10.0.0.5"]},
                "absent": [7],
            }
        ],
        "leaving": [LEAVING._asdict()],
    }


def test_roster_has_the_field_of_failed_members_only_if_a_member_failed() -> None:
    assert "failed" not in wire_of(build_roster())
    unknown = FAILED._replace(code=None, reason="")
    wire = wire_of(build_roster(failed=(FAILED, unknown)))
    entry = {
        "role": "worker",
        "index": 4,
        "fingerprint": "89abcdef",
        "attemptID": 1,
        "since": 7,
        "reason": "",
    }
    assert wire["failed"] == [
        entry | {"code": 137, "reason": "ContainerSigKillReceived"},
        entry,
    ]


def test_roster_of_10000_failed_members_is_below_24_bytes_a_task() -> None:
    role = build_role_roster("worker", 0, wanted=10_000)
    failed = tuple(
        FAILED._replace(index=index, fingerprint=fingerprint_uid(str(index)))
        for index in range(10_000)
    )
    stored = encode_roster(build_roster(role, failed=failed))
    assert len(stored) < 24 * 10_000
    assert decode_roster(stored).failed == failed


def test_roster_of_10000_tasks_is_below_12_bytes_a_task() -> None:
    stored = encode_roster(build_roster(build_role_roster("worker", 10_000)))
    assert len(stored) < 12 * 10_000
    assert len(decode_roster(stored).roles[0].members) == 10_000


def test_roster_completed_tasks_come_back_in_order_of_index() -> None:
    completed = tuple(CompletedTask(index, "Failed", "") for index in (2, 9, 10))
    role = build_role_roster(members=(), completed=completed)
    assert decode_roster(encode_roster(build_roster(role))).roles[0].completed == completed


def test_roster_counts_members_and_completed_of_all_roles() -> None:
    worker = build_role_roster("worker", 3, completed=(CompletedTask(3, "Failed", ""),), wanted=5)
    roster = build_roster(worker, build_role_roster("ps", 1))
    assert (worker.ready, roster.ready, roster.wanted) == (4, 5, 6)


def test_roster_finds_role_and_member_by_identity() -> None:
    roster = build_roster(build_role_roster("worker", 3), build_role_roster("ps", 1))
    assert roster.find_role("ps") is roster.roles[1]
    assert roster.find_role("chief") is None
    assert roster.find_member("worker", 2) == build_member("worker", 2)
    assert roster.find_member("worker", 3) is None
    assert roster.find_member("chief", 0) is None


def test_roster_is_same_gang_only_if_but_the_generation_differs() -> None:
    roster = build_roster(generation=1)
    assert roster.is_same_gang(build_roster(generation=2))
    assert not roster.is_same_gang(build_roster(generation=1, complete=False))


def test_fingerprint_is_short_stable_and_tells_pods_apart() -> None:
    assert fingerprint_uid("a") == "ca978112"
    assert len({fingerprint_uid(str(n)) for n in range(1000)}) == 1000


def store(wire: Any) -> bytes:
    return gzip.compress(json.dumps(wire).encode(), mtime=0)


def try_decode(stored: bytes) -> Roster | None:
    try:
        return decode_roster(stored)
    except RosterError as e:
        assert str(e)  # noqa: PT017  # some changes do no harm
        return None


@pytest.mark.parametrize("flip", [0x01, 0x80, 0xFF])
def test_damaged_byte_is_refused_or_harmless(flip: int) -> None:
    roster = build_roster(build_role_roster("worker", 3))
    stored = encode_roster(roster)
    taken = [
        try_decode(stored[:place] + bytes([byte ^ flip]) + stored[place + 1 :])
        for place, byte in enumerate(stored)
    ]
    # A change of the time or the system in gzip's header, or of padding, is harmless.
    assert set(taken) <= {None, roster}
    assert taken.count(roster) < 10


def test_part_of_a_roster_is_refused() -> None:
    stored = encode_roster(build_roster(build_role_roster("worker", 3)))
    assert not any(try_decode(stored[:length]) for length in range(len(stored)))


@given(st.binary(max_size=64))
def test_decode_of_any_bytes_is_an_error(raw: bytes) -> None:
    for stored in (raw, gzip.compress(raw)):
        with pytest.raises(RosterError):
            decode_roster(stored)


@given(st.data())
def test_decode_with_any_value_anywhere_never_fails_otherwise(data: st.DataObject) -> None:
    role = build_role_roster("worker", 3, completed=(CompletedTask(3, "Succeeded", ""),))
    wire = wire_of(build_roster(role, leaving=[LEAVING], failed=(FAILED,)))
    places = [wire, wire["roles"][0], wire["leaving"][0], wire["failed"][0]]
    place = data.draw(st.sampled_from(places))
    place[data.draw(st.sampled_from(sorted(place)))] = data.draw(json_values)
    decoded = try_decode(store(wire))
    assert decoded is None or decode_roster(encode_roster(decoded)) == decoded


@cases(
    "change message",
    {
        "later version": ({"version": 2}, "roster of version 2, not 1"),
        "no version": ({"version": None}, "roster of version None"),
        "text is no flag": ({"complete": "false"}, "'false' is not of type bool"),
        "number is no flag": ({"complete": 1}, "1 is not of type bool"),
        "flag is no number": ({"generation": True}, "True is not of type int"),
        "infinity": ({"generation": float("inf")}, "inf is not of type int"),
        "long number": ({"generation": 10**40}, "a number that does not fit 64 bits"),
        "null": ({"framework": None}, "None is not of type str"),
        "roles": ({"roles": {}}, "is not of type list"),
        "role": ({"roles": [5]}, "undecodable roster: TypeError"),
        "leaving": ({"leaving": [{"role": "a"}]}, "undecodable roster: KeyError"),
        "failed": ({"failed": [{"role": "a"}]}, "undecodable roster: KeyError"),
        "code": (
            {"failed": [wire_of(build_roster(failed=(FAILED._replace(code=2**31),)))["failed"][0]]},
            "2147483648 is not a completion code",
        ),
    },
)
def test_decode_of_a_changed_roster_names_the_fault(change: Wire, message: str) -> None:
    with pytest.raises(RosterError, match=message):
        decode_roster(store(wire_of(build_roster()) | change))


@cases(
    "change message",
    {
        "short": ({"addresses": ["10.0.0.2"]}, "columns of role 'worker' differ"),
        "number as address": ({"addresses": [1, 2, 3]}, "1 is not of type str"),
        "uneven": ({"fingerprints": "0" * 23}, "columns of role 'worker' differ"),
        "long": ({"indexes": "0-3"}, "columns of role 'worker' differ"),
        "endless": ({"indexes": "0-99999999999"}, "is not a range of indexes"),
        "backwards": ({"indexes": "2-0"}, "is not a range of indexes"),
        "negative": ({"indexes": "-1"}, "undecodable roster: ValueError"),
        "text": ({"indexes": "a"}, "undecodable roster: ValueError"),
        "completed": ({"completed": {"3": ["Failed"]}}, "undecodable roster"),
        "more addresses": ({"moreAddresses": {"0": "fd00::1"}}, "is not of type list"),
        "absent": ({"absent": ["1"]}, "'1' is not of type int"),
    },
)
def test_decode_of_a_changed_role_names_the_fault(change: Wire, message: str) -> None:
    wire = wire_of(build_roster(build_role_roster("worker", 3)))
    wire["roles"][0] |= change
    with pytest.raises(RosterError, match=message):
        decode_roster(store(wire))


def test_decode_of_a_blob_larger_than_the_bound_is_an_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(roster_module, "_MAX_DECOMPRESSED_BYTES", 100)
    with pytest.raises(RosterError, match="longer than 100 bytes"):
        decode_roster(encode_roster(build_roster()))


def test_decode_of_deep_nesting_is_an_error() -> None:
    with pytest.raises(RosterError, match="RecursionError"):
        decode_roster(gzip.compress(b"[" * 100_000))


missing_tasks = st.builds(
    Missing, st.text(max_size=63), st.integers(0, 10_000), st.text(max_size=300)
)


@given(st.integers(0, 10_000), st.integers(0, 10_000), st.lists(missing_tasks, max_size=15))
def test_readiness_is_at_most_2_kb_and_keeps_the_counts(
    ready: int, total: int, missing: list[Missing]
) -> None:
    text = encode_readiness(GangReadiness(ready, total, tuple(missing)))
    assert len(text.encode()) <= READINESS_MAX_BYTES
    decoded = decode_readiness(text)
    assert (decoded.ready, decoded.total) == (ready, total)
    assert len(decoded.missing) <= READINESS_MAX_MISSING


@cases(
    "reason width",
    {
        "whole": ("short", 5),
        "cut": ("x" * 300, 80),
        "every character is twelve bytes": ("😀" * 300, 0),
    },
)
def test_readiness_of_many_cuts_reasons_and_keeps_names(reason: str, width: int) -> None:
    role = "a" * 63
    missing = tuple(Missing(role, index, reason) for index in range(20))
    decoded = decode_readiness(encode_readiness(GangReadiness(5, 25, missing)))
    kept = tuple(Missing(role, index, reason[:width]) for index in range(10))
    assert decoded == GangReadiness(5, 25, kept)


def test_readiness_that_cannot_be_cut_names_no_task() -> None:
    missing = tuple(Missing("a" * 300, index, "") for index in range(10))
    assert decode_readiness(encode_readiness(GangReadiness(1, 2, missing))) == GangReadiness(
        1, 2, ()
    )


@pytest.mark.parametrize(
    "text",
    [
        "", "{", "[]", "null", "{}", "[" * 100_000,
        '{"ready": 1, "total": 2}',
        '{"ready": Infinity, "total": 2, "missing": []}',
        '{"ready": 1, "total": 2, "missing": [1]}',
        '{"ready": 1, "total": 2, "missing": [{"role": "a"}]}',
    ],
)  # fmt: skip
def test_text_that_is_no_readiness_is_an_error(text: str) -> None:
    with pytest.raises(RosterError, match="undecodable readiness"):
        decode_readiness(text)

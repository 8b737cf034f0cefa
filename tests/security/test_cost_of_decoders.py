"""The cost of hostile documents for the decoders of rosters, readiness, statuses and kept files.

Each document is small as stored and as large, deep or numerous as possible once it is unpacked.
The budget is CPU seconds and bytes of memory, per byte as stored and in all.
"""

import base64
import gzip
import json
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from controller.store import published
from framework.agent.framework_roster import FrameworkError, build_view, decompress_framework
from framework.agent.sources import parse_configmap
from framework.api import codec, constants
from framework.api.constants import READINESS_MAX_MISSING
from framework.api.fielderrors import FieldErrors
from framework.api.gangreadiness import decode_readiness
from framework.api.roster import MAX_ROSTER_TASKS, decode_stored_roster, encode_roster
from framework.api.rostervalues import RosterError
from framework.api.wire import MAX_ERRORS
from framework.kube.resources import CONFIGMAPS, FRAMEWORKS, PODS
from rendezvous.volume.writer import STATE_FILE, Writer
from tests.support.builders import (
    FRAMEWORK,
    NAMESPACE,
    build_configmap_wire,
    build_roster,
    build_status,
)
from tests.support.builders.forger import forge_configmap
from tests.support.measuring.cost import Operation, assert_costs_at_most
from tests.support.simulator.shell import Shell

MEGABYTE = 1_000_000
# Generous: a document costs at most 0.2 s on an idle core, measured under tracemalloc 1 s.
CPU_SECONDS = 10.0
ROSTER_MEMORY = 40 * MEGABYTE
ROSTER_MEMORY_PER_BYTE = 4_000
STATUS_MEMORY = 300 * MEGABYTE
MERGE = "application/merge-patch+json"


def pack(raw: bytes) -> str:
    return base64.b64encode(gzip.compress(raw, 9)).decode()


def build_document(*roles: dict[str, Any]) -> bytes:
    wire = {"version": 1, "namespace": "default", "framework": "gang", "frameworkUID": "uid"}
    wire |= {"attemptID": 0, "instanceUID": "0_uid", "generation": 1, "complete": True}
    wire |= {"phase": "Active", "roles": roles, "leaving": []}
    return json.dumps(wire, separators=(",", ":")).encode()


def build_role(**fields: Any) -> dict[str, Any]:
    wire = {"name": "worker", "wanted": 1, "minimum": 1, "running": False, "indexes": ""}
    wire |= {"addresses": [], "fingerprints": "", "moreAddresses": {}, "attemptIDs": {}}
    return {**wire, "completed": {}, "absent": [], **fields}


BOMBS = {
    "zeros": b"0" * 64 * MEGABYTE,
    "spaces": b" " * 3_900_000 + b"{}",
    "lists": b'{"version":1,"x":[' + b"[]," * 1_000_000 + b"[]]}",
    "objects": b'{"version":1,"x":[' + b'{"a":1},' * 400_000 + b"{}]}",
    "keys": b'{"version":1,"x":{' + b",".join(b'"%d":1' % i for i in range(159_000)) + b"}}",
    "strings": b'{"version":1,"x":[' + b",".join(b'"%022d"' % i for i in range(158_000)) + b"]}",
    "number": b'{"version":' + b"1" * 60_000 + b"}",
    "fraction": b'{"version":1.' + b"1" * 60_000 + b"}",
    "wide text": ('{"version":1,"x":"\U0001f600' + "a" * 3_900_000 + '"}').encode(),
    "nested lists": b"[" * 60_000,
    "nested objects": b'{"a":' * 12_000,
    "ranges": build_document(build_role(indexes=",".join(["0-9999"] * 9_000))),
    "one long range": build_document(build_role(indexes=f"0-{10**9}", addresses=["10.0.0.1"])),
    "long range": build_document(build_role(indexes="0-9999", addresses=["10.0.0.1"])),
    "roles": build_document(*[build_role()] * 9_000),
}


def check_budget(memory: float, decode: Operation, seconds: float = CPU_SECONDS) -> None:
    """Check the CPU seconds, those of measuring included, and the peak of memory of a call."""
    peaks = []

    def trace() -> None:
        tracemalloc.start()
        try:
            decode()
        finally:
            peaks.append(tracemalloc.get_traced_memory()[1])
            tracemalloc.stop()

    assert_costs_at_most(seconds, trace)
    assert max(peaks) < memory


def check_roster_budget(stored: str, decode: Operation) -> None:
    check_budget(min(ROSTER_MEMORY, MEGABYTE + ROSTER_MEMORY_PER_BYTE * len(stored)), decode)


# --- rosters -------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", BOMBS)
def test_hostile_roster_is_refused_within_the_budget(name: str) -> None:
    stored = pack(BOMBS[name])

    def decode() -> None:
        with pytest.raises(RosterError):
            decode_stored_roster(stored)

    check_roster_budget(stored, decode)


@pytest.mark.parametrize("name", ["zeros", "objects", "nested lists"])
def test_agent_reports_the_problem_of_a_hostile_roster(name: str) -> None:
    stored = pack(BOMBS[name])
    body = build_configmap_wire()
    body["binaryData"] = {constants.ROSTER_KEY: stored}

    def decode() -> None:
        configmap = parse_configmap(body)
        assert configmap.roster is None
        assert 0 < len(configmap.problem) < 200

    check_roster_budget(stored, decode)


def test_text_that_is_no_roster_is_refused() -> None:
    for stored in (None, 5, ["H4sI"], "", "H4s", "H4sI é", "====", "H4sI====", "A" * 2_000_000):
        with pytest.raises(RosterError):
            decode_stored_roster(stored)


def test_roster_followed_by_more_is_refused() -> None:
    blob = encode_roster(build_roster())
    with pytest.raises(RosterError, match="followed by more"):
        decode_stored_roster(base64.b64encode(blob + blob).decode())


@pytest.mark.parametrize(
    "change",
    [
        {"namespace": "a\nb"},
        {"framework": "a" * 1000},
        {"instanceUID": "é"},
        {"frameworkUID": "\ud800"},
        {"generation": -1},
        {"attemptID": 10**19},
        {"roles": [build_role(indexes="1,0", addresses=["a", "b"], fingerprints="0" * 16)]},
        {"roles": [build_role(indexes="0,0", addresses=["a", "b"], fingerprints="0" * 16)]},
        {"roles": [build_role(addresses=["\x1b[2J"], indexes="0", fingerprints="0" * 8)]},
        {"roles": [build_role(completed={"1" * 5_000: ["Succeeded", ""]})]},
        {"roles": [build_role(completed={"0": ["\x07", ""]})]},
        {"roles": [build_role(wanted=2**62)]},
        {"roles": [build_role(name=f"role{i}", wanted=10_000) for i in range(11)]},
        {"roles": [build_role(absent=list(range(100_001)))]},
    ],
    ids=str,
)
def test_roster_with_an_impossible_value_is_refused(change: dict[str, Any]) -> None:
    wire = json.loads(build_document(build_role())) | change
    with pytest.raises(RosterError):
        decode_stored_roster(pack(json.dumps(wire).encode()))


# --- readiness ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "[" * 250_000,
        "9" * 250_000,
        '{"ready": ' + "9" * 1_000 + ', "total": 1, "missing": []}',
        '{"ready": "1", "total": 1, "missing": []}',
        '{"ready": 0, "total": 1, "missing": ' + json.dumps([{"role": "a", "index": 0}] * 11) + "}",
        '{"ready": 0, "total": 1, "missing": {"a": 1}}',
        "\ud800",
    ],
    ids=range(7),
)
def test_hostile_readiness_is_refused_within_the_budget(text: str) -> None:
    def decode() -> None:
        with pytest.raises(RosterError, match="undecodable readiness"):
            decode_readiness(text)

    check_roster_budget(text, decode)


def test_readiness_with_half_a_character_is_made_printable() -> None:
    missing = [{"role": "worker", "index": 0, "reason": "\ud800!"}]
    readiness = decode_readiness(json.dumps({"ready": 0, "total": 1, "missing": missing}))
    assert readiness.missing[0].reason == "?!"


# --- statuses ------------------------------------------------------------------------------------

STATUSES = {
    "zeros": b"0" * 80 * MEGABYTE,
    "objects": b"[" + b'{"a":1},' * 300_000 + b"{}]",
    "roles": b"[" + b'{"taskStatuses":[{}]},' * 200_000 + b"{}]",
    "nested": b"[" * 100_000,
    "number": b"[" + b"1" * 3_000_000 + b"]",
}


def build_packed_status(stored: Any) -> dict[str, Any]:
    wire = codec.encode_status(build_status())
    packed = {"taskRoleStatuses": None, "taskRoleStatusesCompressed": stored}
    return {**wire, "attemptStatus": {**wire["attemptStatus"], **packed}}


@pytest.mark.parametrize("name", STATUSES)
def test_hostile_compressed_status_is_refused_within_the_budget(name: str) -> None:
    wire = build_packed_status(pack(STATUSES[name]))

    def decode() -> None:
        with pytest.raises(FieldErrors) as caught:
            codec.decode_status(wire)
        assert len(caught.value.errors) < 2 * MAX_ERRORS
        assert len(str(caught.value)) < 100 * 2 * MAX_ERRORS

    check_budget(STATUS_MEMORY, decode, 3 * CPU_SECONDS)


@pytest.mark.parametrize("name", ["zeros", "nested", "number"])
def test_agent_refuses_a_hostile_compressed_status(name: str) -> None:
    framework = {"status": build_packed_status(pack(STATUSES[name]))}
    with pytest.raises(FrameworkError, match="undecodable taskRoleStatusesCompressed"):
        decompress_framework(framework)


@pytest.mark.parametrize("is_attempt_aware", [True, False])
def test_view_of_many_tasks_without_a_status_is_built_within_the_budget(
    *,
    is_attempt_aware: bool,
) -> None:
    roles = [{"name": f"r{number}", "taskNumber": 10_000} for number in range(10)]
    framework = {"metadata": {"name": "gang"}, "spec": {"taskRoles": roles}}

    def build() -> None:
        view = build_view(framework, is_attempt_aware=is_attempt_aware)
        assert view.roster.wanted == MAX_ROSTER_TASKS
        assert [missing.index for missing in view.missing] == list(range(READINESS_MAX_MISSING))

    check_budget(MEGABYTE, build)


# --- kept files ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        f'{{"source": "configmap", "sourceGeneration": 1, "roster": "{pack(BOMBS["objects"])}"}}',
        "[" * 1_000_000,
        "9" * 1_000_000,
        '{"source": "configmap", "sourceGeneration": ' + "9" * 1_000_000 + ', "roster": ""}',
    ],
    ids=range(4),
)
def test_hostile_kept_state_is_ignored_within_the_budget(tmp_path: Path, text: str) -> None:
    (tmp_path / "gen-1").mkdir()
    (tmp_path / "gen-1" / STATE_FILE).write_text(text)
    check_budget(ROSTER_MEMORY, lambda: Writer(str(tmp_path)).read_generation(1))
    assert Writer(str(tmp_path)).read_generation(1) is None


# --- the controller's rosters ---------------------------------------------------------------------


@pytest.mark.looptime
async def test_controller_decodes_no_roster_of_a_forged_configmap(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    decoded: list[str] = []
    monkeypatch.setattr(published, "decode_stored_roster", decoded.append)
    shell = Shell()
    framework = shell.create_framework()
    body = forge_configmap(framework, roster=pack(BOMBS["objects"]))
    shell.storage.create(shell.type(CONFIGMAPS), NAMESPACE, body)
    shell.show()
    await shell.run(10.0)
    conditions = shell.get(FRAMEWORKS, FRAMEWORK)["status"]["conditions"]
    assert next(c for c in conditions if c["type"] == "Blocked")["reason"] == "NameTaken"
    assert decoded == []


@pytest.mark.looptime
async def test_own_roster_that_was_replaced_by_a_hostile_one_is_written_again() -> None:
    shell = Shell()
    pods, configmaps = shell.type(PODS), shell.type(CONFIGMAPS)
    shell.create_framework()
    await shell.run(1.0)
    status = {"podIP": "10.0.0.1", "podIPs": [{"ip": "10.0.0.1"}], "phase": "Running"}
    body = {"status": status}
    shell.storage.patch(pods, NAMESPACE, "gang-worker-0", body, MERGE, subresource="status")
    shell.show()
    await shell.run(1.0)
    own = shell.get(CONFIGMAPS, "gang-attempt")["binaryData"][constants.ROSTER_KEY]
    hostile = {"binaryData": {constants.ROSTER_KEY: pack(BOMBS["objects"])}}
    shell.storage.patch(configmaps, NAMESPACE, "gang-attempt", hostile, MERGE)
    shell.show()
    await shell.run(2.0)
    stored = shell.get(CONFIGMAPS, "gang-attempt")["binaryData"][constants.ROSTER_KEY]
    before, after = decode_stored_roster(own), decode_stored_roster(stored)
    assert after._replace(generation=before.generation) == before

"""The checks of agents before they decode or use a roster."""

import base64
import socket
from typing import Any

import pytest

from barrier.injector import find_fault
from framework.agent.addresses import is_pod_address
from framework.agent.clock import AgentClock
from framework.agent.probes import Probe, Prober
from framework.agent.sources import parse_configmap
from framework.api import constants
from framework.api.roster import Roster, encode_roster
from rendezvous.core.membership import build_view
from rendezvous.core.refusal import MembershipError
from tests.rendezvous.gangs import INSTANCE, build_gang, build_options, see
from tests.support.machine.openfiles import count_open_files, limit_open_files
from tests.support.waiting import HANG_SECONDS

UID = INSTANCE.partition("_")[2]


def build_configmap(content: bytes, **metadata: Any) -> dict[str, Any]:
    stored = base64.b64encode(content).decode()
    metadata |= {"uid": UID}
    return {"metadata": metadata, "binaryData": {constants.ROSTER_KEY: stored}}


def own(kind: str = "Framework", name: str = "gang") -> dict[str, Any]:
    owner = {"kind": kind, "name": name, "controller": True}
    return {"ownerReferences": [{"kind": "Node", "name": "x"}, owner]}


def replace_address(address: str) -> Roster:
    (role,) = build_gang(2).roles
    first, second = role.members
    members = (first, second._replace(addresses=(address,)))
    return build_gang(2)._replace(roles=(role._replace(members=members),))


@pytest.mark.parametrize(
    "address",
    [
        "0.0.0.0", "169.254.169.254", "224.0.0.1", "255.255.255.255", "::", "ff02::1", "fe80::1",
        "::ffff:169.254.169.254", "::ffff:0.0.0.0", "10.0.0.1%eth0", "010.0.0.1", "example.com", "",
    ],
)  # fmt: skip
def test_address_that_no_pod_has_is_refused(address: str) -> None:
    assert not is_pod_address(address)
    gang = replace_address(address)
    assert "worker/1" in find_fault(gang)
    with pytest.raises(MembershipError, match="worker/1"):
        build_view(gang, see(build_gang(2)).identity, build_options())


@pytest.mark.parametrize(
    "address",
    [
        "10.0.0.1", "127.0.9.1", "223.255.255.255", "2001:db8::1", "fd00::1", "::1",
        "::ffff:10.0.0.1",
    ],
)  # fmt: skip
def test_address_of_a_pod_is_accepted(address: str) -> None:
    assert is_pod_address(address)
    assert find_fault(replace_address(address)) == ""


def test_configmap_of_another_attempt_is_not_decoded(monkeypatch: pytest.MonkeyPatch) -> None:
    decoded = []

    def decode(stored: Any) -> Roster:
        decoded.append(stored)
        return build_gang(2)

    monkeypatch.setattr("framework.agent.sources.decode_stored_roster", decode)
    body = build_configmap(b"bomb")
    assert parse_configmap(body, "another-uid", "gang").roster is None
    assert decoded == []
    assert parse_configmap(body, UID, "gang").roster == build_gang(2)
    assert len(decoded) == 1


def test_roster_in_a_configmap_of_another_controller_is_ignored() -> None:
    content = encode_roster(build_gang(2))
    for metadata in (own("ReplicaSet"), own(name="other")):
        parsed = parse_configmap(build_configmap(content, **metadata), UID, "gang")
        assert parsed.roster is None
        assert "controls its ConfigMap, not the Framework gang" in parsed.problem
    for metadata in (own(), {}, {"ownerReferences": "x"}, {"ownerReferences": [1]}):
        assert parse_configmap(build_configmap(content, **metadata), UID, "gang").roster


def test_probes_of_many_members_open_few_files_at_a_time() -> None:
    """The barrier's levels above an address connect to every member; nothing is sent or read."""
    with socket.create_server(("127.0.0.1", 0), backlog=1024) as server:
        port = server.getsockname()[1]
        probes = [Probe("worker", index, "127.0.0.1", port, "") for index in range(500)]
        prober = Prober(AgentClock())
        with limit_open_files(count_open_files() + 80):
            prober.try_once(probes, HANG_SECONDS)
    assert prober.reached == set(probes)

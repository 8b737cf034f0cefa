"""A roster seen by one Pod: index and rank, own entry, coordinator, ports, slots, addresses."""

from typing import Any

import pytest

from framework.agent.gang import Identity
from framework.api.roster import CompletedTask, Member, RoleRoster
from rendezvous.core.membership import build_view
from rendezvous.core.refusal import MembershipError, RefusedError
from rendezvous.core.target import parse_target
from rendezvous.settings.kinds import RoleKind
from tests.rendezvous.gangs import (
    INSTANCE,
    build_gang,
    build_options,
    build_role,
    build_roster,
    get_uid,
    see,
)


def test_view_of_a_gang_with_gaps_keeps_indexes_and_gives_dense_ranks() -> None:
    view = see(build_roster(build_role("worker", [0, 2, 5], absent=(1,))), index=5)
    assert [(peer.index, peer.rank) for peer in view.peers] == [(0, 0), (2, 1), (5, 2)]
    assert view.own is not None
    assert (view.own.index, view.rank) == (5, 2)


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        ({}, ["master/0", "chief/0", "worker/0", "worker/1"]),
        ({"coordinator": "worker"}, ["worker/0", "worker/1", "master/0", "chief/0"]),
        ({"roles": "master=none"}, ["chief/0", "worker/0", "worker/1"]),
    ],
)
def test_ranks_put_the_coordinators_role_then_master_chief_and_workers(
    flags: dict[str, Any], expected: list[str]
) -> None:
    roster = build_roster(
        build_role("worker", 2, first=1),
        build_role("ps", 1, first=11),
        build_role("chief", 1, first=21),
        build_role("launcher", 1, first=31),
        build_role("master", 1, first=41),
    )
    view = see(roster, **flags)
    assert [str(peer) for peer in view.ranked] == expected
    assert str(view.coordinator) == expected[0]


NAMELESS = build_role("worker", 2)
NAMELESS = NAMELESS._replace(members=tuple(m._replace(fingerprint="") for m in NAMELESS.members))


@pytest.mark.parametrize(
    ("role", "index", "uid", "rank"),
    [
        (build_role("worker", 2), 1, get_uid("worker", 1), 1),
        (build_role("worker", 2), 1, "", 1),
        (NAMELESS, 1, get_uid("worker", 1), 1),
        (build_role("worker", 2), 1, "another-uid", -1),
        (build_role("worker", 2), 7, get_uid("worker", 7), -1),
    ],
    ids=["member", "unknown_uid", "source_without_uids", "replaced", "left"],
)
def test_own_entry_is_found_by_index_and_by_the_pod_uid_where_it_is_known(
    role: RoleRoster, index: int, uid: str, rank: int
) -> None:
    view = build_view(build_roster(role), Identity("worker", index, uid), build_options())
    assert (view.rank, view.own_kind, len(view.ranked)) == (rank, RoleKind.WORKER, 2)
    assert view.own == (view.ranked[1] if rank == 1 else None)


def test_completed_tasks_are_no_peers() -> None:
    completed = (CompletedTask(0, "Succeeded", "10.0.0.99"),)
    view = see(build_roster(build_role("worker", [1, 2], completed=completed)), index=1)
    assert [peer.index for peer in view.peers] == [1, 2]
    assert str(view.coordinator) == "worker/1"


def test_slots_by_default_are_one_for_those_with_a_rank_and_none_for_others() -> None:
    names = ("worker", "chief", "ps", "launcher", "evaluator")
    roster = build_roster(*(build_role(name, 1, first=10 * i) for i, name in enumerate(names)))
    assert [p.slots for p in see(roster).peers] == [1, 1, 0, 0, 0]
    slots = "8,launcher=2,chief=0"
    assert [p.slots for p in see(roster, slots=slots).peers] == [8, 0, 0, 2, 0]


def test_ports_with_index_differ_by_member() -> None:
    view = see(build_roster(build_role("worker", [0, 3])), ports="worker=2000+index")
    assert [peer.port for peer in view.peers] == [2000, 2003]


def test_port_above_the_last_is_refused() -> None:
    with pytest.raises(RefusedError, match="worker/3 would serve on port 65537"):
        see(build_roster(build_role("worker", [0, 3])), ports="65534+index")


@pytest.mark.parametrize(
    ("family", "expected"),
    [
        ("auto", ("10.0.0.2", "2001:db8::1")),
        ("ipv4", ("10.0.0.2",)),
        ("ipv6", ("2001:db8::1",)),
    ],
)
def test_address_of_a_dual_stack_member_is_of_the_wanted_family(
    family: str, expected: tuple[str, ...]
) -> None:
    view = see(build_gang(1, "dual"), ip_family=family)
    assert view.ranked[0].addresses == expected


def test_member_without_an_address_of_the_wanted_family_is_refused() -> None:
    with pytest.raises(RefusedError, match=r"worker/0 has no ipv6 address; set FB_IP_FAMILY"):
        see(build_gang(1), ip_family="ipv6")


def test_coordinator_that_computes_nothing_is_refused() -> None:
    with pytest.raises(
        RefusedError, match=r"'ps' is not master, chief or worker; name one of work"
    ):
        see(build_roster(build_role("worker", 1), build_role("ps", 1)), coordinator="ps")


def test_host_name_too_long_for_a_label_falls_back_then_ends() -> None:
    roster = build_roster(build_role("a" * 61, 1), build_role("b" * 62, 1))
    roster = roster._replace(framework="f" * 63)
    assert [p.host_name for p in see(roster, "a").peers] == ["a" * 61 + "-0", ""]


@pytest.mark.parametrize(
    ("role", "index", "instance", "message"),
    [
        ("", "0", "", "FC_TASKROLE_NAME=''"),
        ("w x", "0", "", "FC_TASKROLE_NAME='w x'"),
        ("w", "-1", "", "FC_TASK_INDEX='-1'"),
        ("w", "01", "", "FC_TASK_INDEX='01'"),
        ("w", "0", "0 1", "FC_FRAMEWORK_ATTEMPT_INSTANCE_UID='0 1'"),
    ],
)
def test_identity_of_broken_variables_is_refused(
    role: str, index: str, instance: str, message: str
) -> None:
    env = {"FC_TASKROLE_NAME": role, "FC_TASK_INDEX": index}
    with pytest.raises(MembershipError, match=message):
        parse_target({**env, "FC_FRAMEWORK_ATTEMPT_INSTANCE_UID": instance})


def test_identity_comes_from_the_controllers_variables() -> None:
    env = {
        "FC_TASKROLE_NAME": "worker",
        "FC_TASK_INDEX": "12",
        "FC_POD_UID": "u",
        "FC_FRAMEWORK_ATTEMPT_INSTANCE_UID": INSTANCE,
    }
    env.update(FC_FRAMEWORK_NAMESPACE="default", FC_FRAMEWORK_NAME="job")
    assert parse_target(env).identity == Identity("worker", 12, "u", INSTANCE)


@pytest.mark.parametrize(
    "role",
    [
        build_role("worker", [1, 0]),
        build_role("worker", [1, 1]),
        build_role("worker", 1)._replace(members=(Member(0, (), "0" * 8, 0),)),
        build_role("worker", 1)._replace(members=(Member(0, ("10.0.0.1 ",), "0" * 8, 0),)),
        build_role("worker", 1)._replace(members=(Member(0, ("10.0.0.1",), "0" * 7, 0),)),
        build_role("worker", 0, completed=(CompletedTask(0, "Gone", ""),)),
    ],
    ids=["order", "twice", "no address", "no clean address", "fingerprint", "state"],
)
def test_roster_with_what_no_roster_has_is_refused(role: RoleRoster) -> None:
    with pytest.raises(MembershipError):
        see(build_roster(role))


def test_roster_with_a_role_twice_is_refused() -> None:
    with pytest.raises(MembershipError, match="listed twice"):
        see(build_roster(build_role("worker", 1), build_role("worker", 1)))


def test_instance_uid_of_a_source_without_attempts_is_the_pods_own() -> None:
    roster = build_gang(1)._replace(instance_uid="")
    view = build_view(roster, Identity("worker", 0, "", INSTANCE), build_options())
    assert view.roster.instance_uid == INSTANCE

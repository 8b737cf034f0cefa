"""Rosters and views for the tests of rendezvous: small, legal, one line each."""

import json
from pathlib import Path

from framework.agent.gang import Identity
from framework.api.roster import (
    PHASE_ACTIVE,
    CompletedTask,
    FailedMember,
    Leaving,
    Member,
    RoleRoster,
    Roster,
    fingerprint_uid,
)
from rendezvous.core.membership import View, build_view
from rendezvous.settings.options import Options, parse_options

IPV4 = "ipv4"
IPV6 = "ipv6"
INSTANCE = "0_7b2f4a6c-0000-4000-8000-000000000000"


def get_address(family: str, number: int) -> str:
    if family == IPV6:
        return f"2001:db8::{number:x}"
    return f"10.0.{number // 250}.{number % 250 + 1}"


def get_uid(role: str, index: int) -> str:
    return f"uid-of-{role}-{index}"


def build_role(
    name: str,
    indexes: "range | list[int] | int",
    *,
    family: str = IPV4,
    first: int = 1,
    minimum: int | None = None,
    completed: tuple[CompletedTask, ...] = (),
    absent: tuple[int, ...] = (),
) -> RoleRoster:
    if isinstance(indexes, int):
        indexes = range(indexes)
    families = (IPV4, IPV6) if family == "dual" else (family,)
    members = tuple(
        Member(
            index,
            tuple(get_address(f, first + index) for f in families),
            fingerprint_uid(get_uid(name, index)),
            0,
        )
        for index in indexes
    )
    wanted = len(members) + len(completed)
    return RoleRoster(
        name=name,
        wanted=wanted,
        minimum=wanted if minimum is None else minimum,
        running=True,
        members=members,
        completed=completed,
        absent=absent,
    )


def build_failed(index: int, *, since: int, role: str = "worker") -> FailedMember:
    """The failure of a member of ``build_role``, killed in generation ``since``."""
    fingerprint = fingerprint_uid(get_uid(role, index))
    return FailedMember(role, index, fingerprint, 0, since, 137, "ContainerSigKillReceived")


def build_roster(
    *roles: RoleRoster, generation: int = 1, leaving: tuple[Leaving, ...] = ()
) -> Roster:
    return Roster(
        namespace="default",
        framework="job",
        framework_uid="f0f0f0f0-0000-4000-8000-000000000000",
        attempt_id=0,
        instance_uid=INSTANCE,
        generation=generation,
        complete=True,
        phase=PHASE_ACTIVE,
        roles=roles,
        leaving=leaving,
    )


def build_gang(count: int, family: str = IPV4, name: str = "worker") -> Roster:
    """A gang of workers only."""
    return build_roster(build_role(name, count, family=family))


def build_mixed(**counts: int) -> Roster:
    """A gang of these roles: the first has addresses from 10.0.0.2 on, the next from 10.0.0.12."""
    roles = enumerate(counts.items())
    return build_roster(*(build_role(name, n, first=10 * i + 1) for i, (name, n) in roles))


def with_address(roster: Roster, *addresses: str) -> Roster:
    """The gang, all of whose first role's members have these addresses."""
    role = roster.roles[0]
    members = tuple(member._replace(addresses=addresses) for member in role.members)
    return roster._replace(roles=(role._replace(members=members), *roster.roles[1:]))


def build_options(**flags: str) -> Options:
    return parse_options({}, flags)


def see(roster: Roster, role: str = "worker", index: int = 0, **flags: str) -> View:
    """What a Pod of the gang sees."""
    return build_view(roster, Identity(role, index, get_uid(role, index)), build_options(**flags))


# What another program may have written into peers.json.
BROKEN_MEMBERS = (
    "",
    "{}",
    "[]",
    "null",
    '{"own": 5}',
    "[" * 100_000,
    json.dumps({"own": {}, "roles": 7, "leaving": []}),
)


def write_members(volume: Path, content: str) -> None:
    """Write a generation into a volume as a program that is no agent may do."""
    folder = volume / f"other-{len(list(volume.glob('other-*')))}"
    folder.mkdir()
    (folder / "peers.json").write_text(content)
    link = volume / "other-link"
    link.symlink_to(folder.name)
    link.replace(volume / "current")

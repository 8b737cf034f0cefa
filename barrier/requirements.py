"""BARRIER_REQUIRE: the levels that the members of a role must reach before this Pod starts. Pure.

A Pod is not Running, and listens on no port, before its init containers have ended. A barrier that
requires this of its own role would wait for itself, and two roles that require it of each other
would wait for ever. Both are refused.
"""

import enum
from typing import Any, NamedTuple

from framework.agent.addresses import MAX_PORT
from framework.agent.dns_source import build_name
from framework.agent.probes import Probe
from framework.api import constants
from framework.api.naming import is_role_name
from framework.api.roster import RoleRoster, Roster

_EXAMPLES = "worker=running,ps=tcp:2222"
_SHOWN = 3


class Level(enum.Enum):
    """The levels of a member, in ascending order."""

    ADDRESS = "address"
    DNS = "dns"
    RUNNING = "running"
    ALL_RUNNING = "all-running"
    TCP = "tcp"

    @property
    def needs_running_pods(self) -> bool:
        """Return whether a member reaches it only after its init containers have ended."""
        return self in {Level.RUNNING, Level.ALL_RUNNING, Level.TCP}


class Requirement(NamedTuple):
    """One entry of BARRIER_REQUIRE. ``port`` is 0 except for TCP."""

    role: str
    level: Level
    port: int = 0

    def __str__(self) -> str:
        """Render the entry as in BARRIER_REQUIRE."""
        port = f":{self.port}" if self.port else ""
        return f"{self.role}={self.level.value}{port}"


class RequireError(ValueError):
    """The text is not a valid list of requirements."""


def parse_requirements(text: str) -> tuple[Requirement, ...]:
    """Parse ``ROLE=LEVEL,...``; a role may have several levels.

    Raises:
        RequireError: The text is not such a list.
    """
    parsed: list[Requirement] = []
    for part in text.split(",") if text else ():
        requirement = _parse_one(part.strip())
        if requirement in parsed:
            raise RequireError(f"{requirement} is given twice")
        parsed.append(requirement)
    return tuple(parsed)


def find_own_cycle(requirements: tuple[Requirement, ...], own_role: str) -> str:
    """Describe a requirement that makes this Pod wait for itself; "" if none does."""
    for requirement in requirements:
        if requirement.role == own_role and requirement.level.needs_running_pods:
            return (
                f"{requirement} in a Pod of role {own_role} waits for itself: no Pod is running "
                f"before its init containers end; ask for {own_role}=dns, or leave it out"
            )
    return ""


def find_cycle(
    framework: dict[str, Any], own_role: str, requirements: tuple[Requirement, ...]
) -> str:
    """Describe a cycle of roles that wait for one another, with the own role; "" if none is found.

    The requirements of other roles are read from their Pod templates. A value that is not in the
    template (``valueFrom``) is not checked.
    """
    edges = _read_edges(framework)
    edges[own_role] = [r for r in requirements if r.level.needs_running_pods]
    trail = _find_cycle_from(edges, own_role, own_role, {own_role})
    if not trail:
        return ""
    names = [own_role, *(requirement.role for requirement in trail)]
    steps = "; ".join(f"{role} waits for {step}" for role, step in zip(names, trail, strict=False))
    return (
        f"the roles wait for one another, so none can start: {steps}; remove one of these from "
        f"${constants.BARRIER_REQUIRE_ENV} in the Pod template of its role"
    )


def find_unknown_role(roster: Roster, requirements: tuple[Requirement, ...]) -> str:
    """Describe a requirement for a role that the gang lacks; "" if there is none."""
    names = [role.name for role in roster.roles]
    for requirement in requirements:
        if requirement.role not in names:
            known = ", ".join(names) or "none"
            return f"{requirement} is for an unknown role; the roles of the gang are: {known}"
    return ""


def find_ended(roster: Roster, requirements: tuple[Requirement, ...]) -> str:
    """Describe the Tasks whose end makes a requirement impossible in this attempt; "" if none."""
    for requirement in requirements:
        role = roster.find_role(requirement.role)
        if role is None or requirement.level is not Level.ALL_RUNNING:
            continue
        wanted = (task for task in role.completed if task.index not in role.absent)
        ended = [f"{role.name}/{task.index} has {task.state.lower()}" for task in wanted]
        if ended:
            more = f" and {len(ended) - _SHOWN} more" if len(ended) > _SHOWN else ""
            return (
                f"{requirement} cannot be met: {', '.join(ended[:_SHOWN])}{more}; a Task that has "
                "ended is not started again in this attempt"
            )
    return ""


class Unmet(NamedTuple):
    """The requirements that are not met: a message, and the probes to run."""

    message: str
    probes: tuple[Probe, ...]


def find_unmet(
    roster: Roster,
    requirements: tuple[Requirement, ...],
    reached: frozenset[Probe],
    pattern: str,
) -> Unmet | None:
    """Find the requirements that are not met; None if all are met."""
    faults, probes = [], []
    for requirement in requirements:
        role = roster.find_role(requirement.role)
        if role is None:
            faults.append(f"{requirement.role} is not seen yet")
        elif requirement.level in {Level.RUNNING, Level.ALL_RUNNING}:
            if not role.running:
                faults.append(f"{requirement.role} is not running yet")
        else:
            left = [
                p for p in _build_probes(roster, role, requirement, pattern) if p not in reached
            ]
            probes += left
            if left:
                faults.append(_describe_probes(left))
    if not faults:
        return None
    return Unmet("; ".join(faults), tuple(probes))


def _describe_probes(probes: list[Probe]) -> str:
    named = ", ".join(probe.describe() for probe in probes[:_SHOWN])
    more = len(probes) - _SHOWN
    return f"not reached yet: {named}" + (f" and {more} more" if more > 0 else "")


def _build_probes(
    roster: Roster, role: RoleRoster, requirement: Requirement, pattern: str
) -> list[Probe]:
    if requirement.level is Level.ADDRESS:
        return []
    is_dns = requirement.level is Level.DNS
    return [
        Probe(
            role.name,
            member.index,
            member.addresses[0],
            requirement.port,
            build_name(pattern, roster.namespace, roster.framework, role.name, member.index)
            if is_dns
            else "",
        )
        for member in role.members
    ]


def _parse_one(text: str) -> Requirement:
    role, found, rest = text.partition("=")
    word, has_port, port = rest.partition(":")
    levels = {level.value: level for level in Level}
    if not found or not is_role_name(role):
        raise RequireError(f"{text!r:.80} is not ROLE=LEVEL, as in {_EXAMPLES}")
    if word not in levels:
        raise RequireError(f"{word!r:.80} is not one of {', '.join(levels)}")
    level = levels[word]
    if level is not Level.TCP and not has_port:
        return Requirement(role, level)
    is_port = port.isascii() and port.isdigit() and len(port) <= len(str(MAX_PORT))
    if level is not Level.TCP or not is_port or not 0 < int(port) <= MAX_PORT:
        raise RequireError(f"{text!r:.80}: a port (1 to {MAX_PORT}) belongs to tcp alone")
    return Requirement(role, level, int(port))


def _read_edges(framework: dict[str, Any]) -> dict[str, list[Requirement]]:
    edges: dict[str, list[Requirement]] = {}
    try:
        for role in framework["spec"].get("taskRoles") or ():
            found: list[Requirement] = []
            spec = role["task"]["pod"].get("spec") or {}
            for container in spec.get("initContainers") or ():
                found += _read_requirements(container.get("env") or ())
            edges[str(role["name"])] = [r for r in found if r.level.needs_running_pods]
    except (KeyError, TypeError, AttributeError):
        return edges  # an unreadable template is not checked
    return edges


def _read_requirements(env: Any) -> tuple[Requirement, ...]:
    for entry in env:
        if entry.get("name") == constants.BARRIER_REQUIRE_ENV:
            try:
                return parse_requirements(str(entry.get("value") or ""))
            except RequireError:
                return ()
    return ()


def _find_cycle_from(
    edges: dict[str, list[Requirement]], role: str, target: str, seen: set[str]
) -> list[Requirement]:
    for requirement in edges.get(role, ()):
        if requirement.role == target:
            return [requirement]
        if requirement.role in seen:
            continue
        seen.add(requirement.role)
        rest = _find_cycle_from(edges, requirement.role, target, seen)
        if rest:
            return [requirement, *rest]
    return []

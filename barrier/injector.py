"""Renders injector.sh, which gives the containers of a Pod the addresses of their peers. Pure.

Its bytes are those of the original (microsoft/frameworkcontroller ``barrier.go``), because scripts
of users source it. The only difference: with a variable of more than 100 kB, every exec of a
process would fail, so such a variable is replaced by one with the name of a file.

Every account that may update Frameworks can write the status of a Framework. ``find_fault`` checks
that a roster has valid addresses and role names only, because a shell sources the script. Rules:
docs/design/agents.md, "Checks of a roster".
"""

from typing import NamedTuple

from framework.agent.addresses import find_family, is_pod_address
from framework.api.naming import is_role_name
from framework.api.roster import RoleRoster, Roster
from framework.api.text import quote_shell

INJECTOR_MODE = 0o755
LIST_MODE = 0o444
# Linux limits an environment variable, with its name, to 131072 bytes.
MAX_VARIABLE_BYTES = 100_000

_LONGEST_PORT = len(":65535")


class InjectorError(ValueError):
    """The roster has a value that must not be written to a shell script."""


class Injector(NamedTuple):
    """The script, and the files of long lists (name to content)."""

    script: bytes
    lists: dict[str, bytes]


def find_fault(roster: Roster) -> str:
    """Describe the first invalid role name or address; "" if all are valid."""
    for role in roster.roles:
        if not is_role_name(role.name):
            return f"{role.name!r} is not a valid role name"
        for member in role.members:
            if not member.addresses or not all(map(is_pod_address, member.addresses)):
                is_first_good = bool(member.addresses) and find_family(member.addresses[0])
                fault = "which no Pod has" if is_first_good else "no IP address"
                return f"{role.name}/{member.index} has {member.addresses!r}, {fault}"
        for task in role.completed:
            if task.address and not is_pod_address(task.address):
                where = f"{role.name}/{task.index}, {task.address!r}"
                return f"the address of {where}, is not an IP address"
    return ""


def render_injector(roster: Roster, directory: str) -> Injector:
    """Render injector.sh: addresses in order of the index, of completed Tasks the last address.

    A Task without an address is left out: an absent index, or a Task that was missing when the
    grace time of the quorum ended. ``directory`` is the directory of the files.

    Raises:
        InjectorError: A role name or an address is invalid.
    """
    fault = find_fault(roster)
    if fault:
        raise InjectorError(fault)
    lists: dict[str, bytes] = {}
    ips: list[str] = []
    addresses: list[str] = []
    for role in roster.roles:
        listed = _list_addresses(role)
        ips += _render_ips(role, listed, directory, lists)
        addresses += _render_addresses(role, listed, directory)
    lines = [
        "#!/bin/bash",
        "",
        "echo ./injector.sh: Start to inject environment variables",
        "",
        *ips,
        "",
        *addresses,
        "",
        "echo ./injector.sh: Succeeded to inject environment variables",
        "",
    ]
    return Injector("\n".join(lines).encode(), lists)


def _render_ips(
    role: RoleRoster, addresses: list[str], directory: str, lists: dict[str, bytes]
) -> list[str]:
    name, value = f"FB_{role.name.upper()}_IPS", ",".join(addresses)
    if len(value) <= MAX_VARIABLE_BYTES:
        return _export(name, value)
    lists[name] = value.encode() + b"\n"
    return _export(f"{name}_FILE", quote_shell(f"{directory}/{name}"))


def _render_addresses(role: RoleRoster, addresses: list[str], directory: str) -> list[str]:
    name, port = f"FB_{role.name.upper()}_ADDRESSES", f"${{FB_{role.name.upper()}_PORT}}"
    value = f":{port},".join(addresses) + (f":{port}" if addresses else "")
    length = sum(map(len, addresses)) + len(addresses) * (_LONGEST_PORT + 1)
    if length <= MAX_VARIABLE_BYTES:
        return _export(name, value)
    # Only the shell that sources the script knows the port, so it writes the list: with the builtin
    # printf (a program cannot take such a long argument), beside the script or, if that is
    # read-only, in /tmp.
    file = f"{name}_FILE"
    return [
        f'for {file} in {quote_shell(directory)} "${{TMPDIR:-/tmp}}"; do',
        f'  {file}="${{{file}}}/{name}-{port}"',
        f'  (umask 022; printf \'%s\\n\' "{value}" >"${{{file}}}.$$") 2>/dev/null || continue',
        f'  mv -f "${{{file}}}.$$" "${{{file}}}" && break',
        "done",
        f"export {file}",
        f"echo {file}=${{{file}}}",
    ]


def _list_addresses(role: RoleRoster) -> list[str]:
    addresses = {member.index: member.addresses[0] for member in role.members}
    addresses.update((task.index, task.address) for task in role.completed if task.address)
    return [address for _, address in sorted(addresses.items())]


def _export(name: str, value: str) -> list[str]:
    return [f"export {name}={value}", f"echo {name}=${{{name}}}"]

"""injector.sh as bytes: what a Pod's containers source to know their peers. Pure.

Called by ``release``. Its form is that of the Go original (microsoft/frameworkcontroller
``barrier.go``), byte by byte, because users' scripts source it. One thing differs: a variable of
more than 100 kB would make every exec of the container fail, so a file is named in its place.
"""

from typing import NamedTuple

from barrier.addresses import find_fault
from framework.api.roster import RoleRoster, Roster

INJECTOR_MODE = 0o755
LIST_MODE = 0o444
# Linux takes no string of an environment above 131072 bytes, name and all.
MAX_VARIABLE_BYTES = 100_000

_LONGEST_PORT = len(":65535")


class InjectorError(ValueError):
    """Something in the roster must not get into a file that a shell reads."""


class Injector(NamedTuple):
    """The script, and the lists beside it (file name to content) that it names."""

    script: bytes
    lists: dict[str, bytes]


def render_injector(roster: Roster, directory: str) -> Injector:
    """Render injector.sh: addresses in order of the index, completed Tasks with their last one.

    A Task without an address (an absent index, or one that came not before the quorum's grace
    ended) is left out, since an empty entry is an address to no consumer. ``directory`` is where
    the files will be.

    Raises:
        InjectorError: A role name or an address is none.
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
    return _export(f"{name}_FILE", _quote(f"{directory}/{name}"))


def _render_addresses(role: RoleRoster, addresses: list[str], directory: str) -> list[str]:
    name, port = f"FB_{role.name.upper()}_ADDRESSES", f"${{FB_{role.name.upper()}_PORT}}"
    value = f":{port},".join(addresses) + (f":{port}" if addresses else "")
    length = sum(map(len, addresses)) + len(addresses) * (_LONGEST_PORT + 1)
    if length <= MAX_VARIABLE_BYTES:
        return _export(name, value)
    # The port is known only to who sources this, so that one writes the list, by a builtin (no
    # program takes so long an argument): beside the script, or where that is read-only, in /tmp.
    file = f"{name}_FILE"
    return [
        f'for {file} in {_quote(directory)} "${{TMPDIR:-/tmp}}"; do',
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


def _quote(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"

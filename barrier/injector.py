"""injector.sh as bytes: what a Pod's containers source to know their peers. Pure.

Called by ``release``. Its form is that of the Go original (microsoft/frameworkcontroller
``barrier.go``), byte by byte, because users' scripts source it.
"""

from barrier.addresses import find_fault
from framework.api.roster import RoleRoster, Roster

INJECTOR_MODE = 0o755


class InjectorError(ValueError):
    """Something in the roster must not get into a file that a shell reads."""


def render_injector(roster: Roster) -> bytes:
    """Render injector.sh: addresses in order of the index, completed Tasks with their last one.

    A Task without an address (an absent index, or one that came not before the quorum's grace
    ended) is left out, since an empty entry is an address to no consumer.

    Raises:
        InjectorError: A role name or an address is none.
    """
    fault = find_fault(roster)
    if fault:
        raise InjectorError(fault)
    lines = [
        "#!/bin/bash",
        "",
        "echo ./injector.sh: Start to inject environment variables",
        "",
    ]
    for role in roster.roles:
        lines += _render_variable(role, "IPS", "")
    lines.append("")
    for role in roster.roles:
        lines += _render_variable(role, "ADDRESSES", f":${{FB_{role.name.upper()}_PORT}}")
    lines += ["", "echo ./injector.sh: Succeeded to inject environment variables", ""]
    return "\n".join(lines).encode()


def _render_variable(role: RoleRoster, kind: str, suffix: str) -> list[str]:
    name = f"FB_{role.name.upper()}_{kind}"
    addresses = {member.index: member.addresses[0] for member in role.members}
    addresses.update((task.index, task.address) for task in role.completed if task.address)
    entries = ",".join(addresses[index] + suffix for index in sorted(addresses))
    return [f"export {name}={entries}", f"echo {name}=${{{name}}}"]

"""Check what is about to be written into files that shells and launchers read.

Called by ``decision`` and ``injector``. Pure. A Framework's status is writable by whoever may
update Frameworks, and ``injector.sh`` is sourced: nothing but addresses and role names may get
into it. Rules: docs/design/agents.md, "Checks of a roster".
"""

import socket

from framework.agent.addresses import is_pod_address
from framework.api.naming import is_role_name
from framework.api.roster import Roster


def is_address(text: str) -> bool:
    """Return whether a text is an IPv4 or IPv6 address in its usual form, and nothing else.

    Every barrier of a gang asks it for every member at one moment, so C decides: ``inet_pton``
    takes no leading zeros, no short forms, no zone and no space around.
    """
    try:
        socket.inet_pton(socket.AF_INET6 if ":" in text else socket.AF_INET, text)
    except (OSError, ValueError):
        return False
    return True


def find_fault(roster: Roster) -> str:
    """Find the first role name or address that must not be written; "" if there is none."""
    for role in roster.roles:
        if not is_role_name(role.name):
            return f"{role.name!r} is no name of a task role"
        for member in role.members:
            if not member.addresses or not all(map(is_pod_address, member.addresses)):
                is_first_good = bool(member.addresses) and is_address(member.addresses[0])
                fault = "which no Pod has" if is_first_good else "no IP address"
                return f"{role.name}/{member.index} has {member.addresses!r}, {fault}"
        for task in role.completed:
            if task.address and not is_pod_address(task.address):
                return (
                    f"the address of {role.name}/{task.index}, {task.address!r}, is no IP address"
                )
    return ""

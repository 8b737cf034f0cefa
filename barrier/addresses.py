"""Check what is about to be written into files that shells and launchers read.

Called by ``decision`` and ``injector``. Pure. A Framework's status is writable by whoever may
update Frameworks, and ``injector.sh`` is sourced: nothing but addresses and role names may get
into it.
"""

import re

from framework.api.naming import is_role_name
from framework.api.roster import Roster

_IPV4_PART = r"(25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])"
_IPV4 = re.compile(rf"{_IPV4_PART}(\.{_IPV4_PART}){{3}}\Z")
_IPV6_LETTERS = re.compile(r"[0-9a-fA-F:.]{2,45}\Z")


def is_address(text: str) -> bool:
    """Tell whether a text is an IPv4 or IPv6 address and nothing else."""
    if _IPV4.match(text) is not None:
        return True
    if ":" not in text or _IPV6_LETTERS.match(text) is None:
        return False
    import ipaddress  # slow to load, and most clusters are IPv4

    try:
        ipaddress.IPv6Address(text)
    except ValueError:
        return False
    return True


def find_fault(roster: Roster) -> str:
    """Find the first role name or address that must not be written; "" if there is none."""
    for role in roster.roles:
        if not is_role_name(role.name):
            return f"{role.name!r} is no name of a task role"
        for member in role.members:
            if not member.addresses or not is_address(member.addresses[0]):
                return f"{role.name}/{member.index} has {member.addresses!r}, no IP address"
        for task in role.completed:
            if task.address and not is_address(task.address):
                return (
                    f"the address of {role.name}/{task.index}, {task.address!r}, is no IP address"
                )
    return ""

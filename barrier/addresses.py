"""Checks the role names and addresses of a roster before they are written to files. Pure.

A shell sources ``injector.sh``, and every account that may update Frameworks can write the status
of a Framework. So the script contains valid addresses and role names only. Rules:
docs/design/agents.md, "Checks of a roster".
"""

from framework.agent.addresses import find_family, is_pod_address
from framework.api.naming import is_role_name
from framework.api.roster import Roster


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
                return (
                    f"the address of {role.name}/{task.index}, {task.address!r}, is no IP address"
                )
    return ""

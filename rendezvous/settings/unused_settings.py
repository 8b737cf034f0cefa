"""Settings without effect: misspelt variables, and roles that are not in the gang. Pure.

Users have variables FB_* of their own, for injector.sh and for their programs: only names close to
that of a setting are taken for misspelt.
"""

import re
from typing import Dict, Iterator, List, Mapping

from framework.api.roster import Roster
from rendezvous.settings.options import OPTIONS, Options

_PREFIX = "FB_"
_CLOSE = 0.75
# Other variables FB_* in the environment: of this agent, of libraries, of injector.sh.
_NO_SETTINGS = frozenset(
    {
        "FB_ADDRESS",
        "FB_ANNOTATIONS_FILE",
        "FB_BARRIER_PORT",
        "FB_BARRIER_SERVED_BY",
        "FB_COORDINATOR_IP",
        "FB_FRAMEWORK",
        "FB_GENERATION",
        "FB_INDEX",
        "FB_RANK",
        "FB_ROLE",
        "FB_SIZE",
    }
)
_OF_ROLE = re.compile(r"FB_[A-Z0-9]+_(PORT|COUNT|IPS|ADDRESSES)\Z")


def list_misspelt(env: Mapping[str, str]) -> Iterator[str]:
    """List the variables with names similar to a setting, with that setting."""
    names = (option.env_name for option in OPTIONS)
    settings = sorted(name for name in names if name.startswith(_PREFIX))
    for name in sorted(env):
        is_read = name in settings or name in _NO_SETTINGS or _OF_ROLE.match(name)
        if is_read or not name.startswith(_PREFIX):
            continue
        from difflib import get_close_matches

        # Without the prefix, which would make all of them alike.
        words = {setting[len(_PREFIX) :]: setting for setting in settings}
        close = get_close_matches(name[len(_PREFIX) :].upper(), words, n=1, cutoff=_CLOSE)
        if close:
            yield f"{name}: there is no such setting; is {words[close[0]]} meant?"


def list_named_roles(options: Options, env: Mapping[str, str]) -> Dict[str, List[str]]:
    """List the roles that each setting names."""
    # FB_<ROLE>_PORT may name roles of other gangs, as for injector.sh.
    ports = [name for name in options.ports if f"FB_{name.upper()}_PORT" not in env]
    named = {"FB_PORTS": ports, "FB_ROLES": list(options.roles), "FB_SLOTS": list(options.slots)}
    return {setting: [name for name in names if name] for setting, names in named.items()}


def list_foreign_roles(named: Mapping[str, List[str]], roster: Roster) -> Iterator[str]:
    """List the roles of the settings that the gang does not have."""
    known = [role.name for role in roster.roles]
    for setting, names in named.items():
        for name in names:
            if name not in known:
                yield f"{setting}: the gang has no role {name!r}; it has {', '.join(known)}"

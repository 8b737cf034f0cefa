"""Settings with which the processes of a role cannot restart in place. Pure.

The agent refuses them, and `framework lint` finds them.

Rules: docs/design/recovery.md, "Restart in place".
"""

from typing import Collection, Iterator

from rendezvous.settings.options import Options

# The agents' deadline, which is 300 s longer, must be over before that of the controller (600 s).
MAX_STOP_GRACE_SECONDS = 240


def list_faults(options: Options, roles: Collection[str]) -> Iterator[str]:
    """List the faults, each with its remedy; ``roles`` are those that restart in place."""
    if not options.acknowledge:
        yield "reports need FB_ACKNOWLEDGE=auto, but it is off; leave FB_ACKNOWLEDGE out"
    if "" in options.reach or any(role in options.reach for role in roles):
        yield (
            "FB_REACH waits for a port of new members, but their processes start only when all "
            "members have come; leave FB_REACH out for roles that restart in place"
        )
    if options.stop_grace_seconds > MAX_STOP_GRACE_SECONDS:
        yield (
            f"FB_STOP_GRACE_SEC is {options.stop_grace_seconds:g}; write at most "
            f"{MAX_STOP_GRACE_SECONDS}, or the controller ends a Pod while others stop"
        )

"""FB_*: the gang as plain variables, for scripts that use no training framework. Pure.

FB_<ROLE>_IPS and FB_<ROLE>_ADDRESSES are those of the Go original's injector.sh with three
differences: only living members are listed (a completed Task is no peer), a port is a number, and
IPv6 is bracketed before it.
"""

from typing import Dict

from framework.agent.addresses import join_port
from rendezvous.core.membership import View
from rendezvous.renderers.rendered import Rendered
from rendezvous.settings.options import Options


def render(view: View, options: Options) -> Rendered:
    """Render the variables; a Pod that is not a member gets no rank and no address."""
    env: Dict[str, str] = {
        "FB_FRAMEWORK": view.framework,
        "FB_GENERATION": str(view.roster.generation),
        "FB_ROLE": view.identity.role,
        "FB_INDEX": str(view.identity.index),
        "FB_SIZE": str(len(view.ranked)),
    }
    if view.rank >= 0:
        env["FB_RANK"] = str(view.rank)
    if view.own is not None:
        env["FB_ADDRESS"] = view.own.address
    if view.coordinator is not None:
        env["FB_COORDINATOR_IP"] = view.coordinator.address
    for role in view.roles:
        prefix = "FB_" + role.name.upper()
        env[prefix + "_COUNT"] = str(len(role.peers))
        env[prefix + "_IPS"] = ",".join(peer.address for peer in role.peers)
        env[prefix + "_ADDRESSES"] = ",".join(join_port(p.address, p.port) for p in role.peers)
        port = options.ports.get(role.name) or options.ports[""]
        if not port.per_index:
            env[prefix + "_PORT"] = str(port.base)
    return Rendered({}, env)

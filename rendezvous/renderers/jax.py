"""JAX: the coordinator, the number of processes and the number of the own process. Pure.

JAX itself reads only the coordinator's address. Both numbers are arguments of
``jax.distributed.initialize``; ``peers.jax_world`` passes them from these variables. A Pod is one
process.
"""

from framework.agent.addresses import join_port
from rendezvous.core.membership import View
from rendezvous.core.refusal import NotConcernedError
from rendezvous.renderers.rendered import Rendered
from rendezvous.settings.options import Options


def render(view: View, options: Options) -> Rendered:
    """Render the three variables.

    Raises:
        NotConcernedError: The own role does not compute.
    """
    coordinator, rank = view.coordinator, view.rank
    if coordinator is None or rank < 0:
        raise NotConcernedError(f"{view.identity.role} is not one of JAX's processes")
    return Rendered(
        {},
        {
            "JAX_COORDINATOR_ADDRESS": join_port(coordinator.address, options.jax_coordinator_port),
            "JAX_NUM_PROCESSES": str(len(view.ranked)),
            "JAX_PROCESS_ID": str(rank),
        },
    )

"""PyTorch: variables for torchrun, static or elastic, and for a process group without it. Pure.

torchrun reads each of its arguments from ``PET_<NAME>``. An endpoint is always a literal address:
torch resolves names by IPv4 only. Rank 0, which scale-in removes last, serves the store. The id of
the run names the Framework attempt, so that an attempt never uses the store of the attempt before.
"""

from typing import Dict, Tuple

from framework.agent.addresses import bracket, join_port
from rendezvous.core.membership import Peer, View
from rendezvous.core.refusal import NotConcernedError, RefusedError
from rendezvous.renderers.rendered import Rendered
from rendezvous.settings.options import Options

ELASTIC = "elastic"
_C10D = "c10d"
_FRAMEWORK = "framework"


def render(view: View, options: Options) -> Rendered:
    """Render the variables.

    Raises:
        RefusedError: There is no endpoint, or the bounds exclude the gang.
    """
    own, coordinator, rank = view.own, view.coordinator, view.rank
    if own is None or coordinator is None or rank < 0:
        raise NotConcernedError(f"{view.identity.role} is not in PyTorch's process group")
    env = {
        "PET_NPROC_PER_NODE": options.torch_nproc or str(max(own.slots, 1)),
        "PET_LOCAL_ADDR": own.address,
        "PET_RDZV_ID": f"{view.framework}-{view.roster.instance_uid or view.roster.attempt_id}",
        "PYTHONUNBUFFERED": "1",
    }
    if options.torch_mode == ELASTIC:
        env.update(_render_elastic(view, options, coordinator))
    else:
        env.update(_render_static(view, options, coordinator))
    return Rendered({}, env)


def _render_static(view: View, options: Options, coordinator: Peer) -> Dict[str, str]:
    size, rank, port = str(len(view.ranked)), str(view.rank), str(options.torch_master_port)
    env = {
        "PET_NNODES": size,
        "PET_NODE_RANK": rank,
        # torchrun splits "address:port" at the last colon and wants IPv6 in brackets before it;
        # MASTER_ADDR goes to the store as it is.
        "PET_MASTER_ADDR": bracket(coordinator.address),
        "PET_MASTER_PORT": port,
        "PET_RDZV_BACKEND": "static",
        "MASTER_ADDR": coordinator.address,
        "MASTER_PORT": port,
    }
    is_single = options.torch_nproc in {"", "1"} and all(p.slots <= 1 for p in view.ranked)
    if is_single:
        # Without torchrun, a Pod is one process. Only torchrun can number several processes.
        env.update(WORLD_SIZE=size, RANK=rank, LOCAL_RANK="0")
    return env


def _render_elastic(view: View, options: Options, coordinator: Peer) -> Dict[str, str]:
    is_framework = options.torch_backend == _FRAMEWORK
    # That backend has no bounds: the members are those of the Framework.
    low, high = (1, len(view.ranked)) if is_framework else _choose_bounds(view, options)
    conf = [options.torch_rdzv_conf] if options.torch_rdzv_conf else []
    endpoint = options.torch_endpoint
    if options.torch_backend == _C10D and not endpoint:
        # Otherwise any torchrun on the endpoint's host may serve the store, which ends with it.
        conf.append("is_host=1" if view.rank == 0 else "is_host=0")
        endpoint = join_port(coordinator.address, options.torch_rdzv_port)
    elif is_framework and not endpoint:
        # The current rank 0 serves the store, so only the port of the endpoint is used.
        endpoint = join_port(coordinator.address, options.torch_rdzv_port)
    if not endpoint:
        raise RefusedError(
            f"{options.torch_backend} needs an endpoint", "set FB_TORCH_ENDPOINT=HOST:PORT"
        )
    env = {
        "PET_NNODES": f"{low}:{high}",
        "PET_RDZV_BACKEND": options.torch_backend,
        "PET_RDZV_ENDPOINT": endpoint,
        "PET_MAX_RESTARTS": str(options.torch_max_restarts),
        # torch 2.15 deadlocks without it when a node joins later or a lost one is replaced.
        "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1",
    }
    if conf:
        env["PET_RDZV_CONF"] = ",".join(conf)
    return env


def _choose_bounds(view: View, options: Options) -> Tuple[int, int]:
    present = len(view.ranked)
    if options.torch_nodes is not None:
        low, high = options.torch_nodes
        if present > high:
            raise RefusedError(
                f"{present} nodes are more than the {high} that FB_TORCH_NODES allows",
                "raise its maximum",
            )
        return low, high
    names = {peer.role for peer in view.ranked}
    roles = [role for role in view.roster.roles if role.name in names]
    # A Task that is completed never joins again.
    low = sum(max(role.minimum - len(role.completed), 0) for role in roles)
    high = sum(role.wanted - len(role.completed) for role in roles)
    return max(min(low, present), 1), max(high, present)

"""TF_CONFIG: TensorFlow's cluster, dense or sparse, and the evaluator's. Pure.

Dense: the cluster lists every worker, and ``task.index`` is the position in that list
(MultiWorkerMirroredStrategy requires index < length). Sparse: a worker gets only itself, under its
index, so that a parameter-server job need not restart when workers are added or removed. Chief and
ps get all members, also if indexes have gaps, because the resolver reads ``{"index": address}`` as
a list.
"""

import json
from typing import Any, Dict, List, Union

from framework.agent.addresses import join_port
from rendezvous.core.membership import Peer, View
from rendezvous.core.refusal import NotConcernedError, RefusedError
from rendezvous.renderers.rendered import Rendered, RenderedFile
from rendezvous.settings.kinds import RoleKind
from rendezvous.settings.options import Options

FILE_NAME = "tf_config.json"
SPARSE = "sparse"
_EVALUATOR = "evaluator"
_SINGLE = ("chief", "master", _EVALUATOR)

Job = Union[List[str], Dict[str, str]]


def render(view: View, options: Options) -> Rendered:
    """Render TF_CONFIG as a variable and as a file: compact JSON on one line.

    Raises:
        RefusedError: TensorFlow would refuse or misread the cluster.
    """
    jobs = _group_jobs(view, options)
    own = view.own
    own_type = _name_type(view.own_kind, options)
    if own is None or own_type not in jobs:
        raise NotConcernedError(f"{view.identity.role} is not in TensorFlow's cluster")
    cluster = _build_cluster(jobs, own, own_type, options)
    if own_type != _EVALUATOR:
        cluster.pop(_EVALUATOR, None)
    is_sparse = options.tf_mode == SPARSE
    index = own.index if is_sparse else jobs[own_type].index(own)
    config: Dict[str, Any] = {"cluster": cluster, "task": {"type": own_type, "index": index}}
    if options.tf_environment:
        config["environment"] = options.tf_environment
    if options.tf_rpc_layer:
        config["rpc_layer"] = options.tf_rpc_layer
    text = json.dumps(config, separators=(",", ":"))
    return Rendered({FILE_NAME: RenderedFile(text.encode() + b"\n")}, {"TF_CONFIG": text})


def _group_jobs(view: View, options: Options) -> Dict[str, List[Peer]]:
    """Group the members by TensorFlow's task type, in the usual order."""
    jobs: Dict[str, List[Peer]] = {}
    for kind in (
        RoleKind.CHIEF,
        RoleKind.MASTER,
        RoleKind.WORKER,
        RoleKind.PS,
        RoleKind.EVALUATOR,
    ):
        peers = view.list_kind(kind)
        if peers:
            jobs.setdefault(_name_type(kind, options), []).extend(peers)
    for name in _SINGLE:
        if len(jobs.get(name, ())) > 1:
            raise RefusedError(
                f"TensorFlow takes one {name}, and there are {len(jobs[name])}",
                "make them workers: FB_ROLES=<role>=worker",
            )
    if "chief" in jobs and "master" in jobs:
        raise RefusedError("TensorFlow takes a chief or a master", "map one of them by FB_ROLES")
    endpoints = [_join(peer) for peers in jobs.values() for peer in peers]
    if len(set(endpoints)) != len(endpoints):
        raise RefusedError(
            "two members would serve on the same address and port",
            "give them ports of their own: FB_PORTS=worker=2222+index",
        )
    if options.tf_mode == SPARSE:
        _check_sparse(view, jobs, options)
    return jobs


def _check_sparse(view: View, jobs: Dict[str, List[Peer]], options: Options) -> None:
    if "ps" not in jobs:
        raise RefusedError(
            "a sparse TF_CONFIG is for parameter servers; MultiWorkerMirroredStrategy needs every "
            "worker in it",
            "set FB_TF_MODE=dense",
        )
    for name, peers in jobs.items():
        roles = [r.name for r in view.roles if _name_type(r.kind, options) == name and r.peers]
        if len({peer.index for peer in peers}) != len(peers):
            raise RefusedError(
                f"the roles {', '.join(roles)} are all {name}, so their indexes coincide",
                "set FB_TF_MODE=dense, or make them one role",
            )


def _build_cluster(
    jobs: Dict[str, List[Peer]], own: Peer, own_type: str, options: Options
) -> Dict[str, Job]:
    if options.tf_mode != SPARSE:
        return {name: [_join(peer) for peer in peers] for name, peers in jobs.items()}
    cluster = {name: _build_job(peers) for name, peers in jobs.items()}
    if own_type == "worker":
        cluster["worker"] = {str(own.index): _join(own)}
    return cluster


def _build_job(peers: List[Peer]) -> Job:
    """Build a list if the indexes have no gaps, else the form that can have gaps."""
    peers = sorted(peers, key=lambda peer: peer.index)
    if [peer.index for peer in peers] == list(range(len(peers))):
        return [_join(peer) for peer in peers]
    return {str(peer.index): _join(peer) for peer in peers}


def _name_type(kind: RoleKind, options: Options) -> str:
    return options.tf_master_type if kind is RoleKind.MASTER else kind.value


def _join(peer: Peer) -> str:
    return join_port(peer.address, peer.port)

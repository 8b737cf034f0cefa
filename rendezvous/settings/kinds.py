"""What a task role is to a training job, whatever it is called. Pure."""

import enum
from typing import Iterable, Mapping


class RoleKind(enum.Enum):
    """The part a role plays. The values are the words users write."""

    CHIEF = "chief"
    MASTER = "master"
    WORKER = "worker"
    PS = "ps"
    EVALUATOR = "evaluator"
    LAUNCHER = "launcher"
    NONE = "none"


# Compute with their peers: they have a rank, and by default slots in host files. In rank order.
RANKED_KINDS = (RoleKind.MASTER, RoleKind.CHIEF, RoleKind.WORKER)

_KINDS_BY_NAME = {
    "chief": RoleKind.CHIEF,
    "driver": RoleKind.LAUNCHER,
    "eval": RoleKind.EVALUATOR,
    "evaluator": RoleKind.EVALUATOR,
    "launcher": RoleKind.LAUNCHER,
    "master": RoleKind.MASTER,
    "mpilauncher": RoleKind.LAUNCHER,
    "mpiworker": RoleKind.WORKER,
    "parameterserver": RoleKind.PS,
    "ps": RoleKind.PS,
    "server": RoleKind.PS,
    "worker": RoleKind.WORKER,
    "workers": RoleKind.WORKER,
}


def map_roles(names: Iterable[str], given: Mapping[str, RoleKind]) -> "dict[str, RoleKind]":
    """Map every role to its kind: as given, else by its name.

    A single role of a name that says nothing, in a gang without workers, is the workers. Several
    such roles are of no kind: a guess would put, for example, a TensorBoard among the peers.
    """
    kinds = {name: given.get(name) or _KINDS_BY_NAME.get(name) for name in names}
    unknown = [name for name, kind in kinds.items() if kind is None]
    is_obvious = len(unknown) == 1 and RoleKind.WORKER not in kinds.values()
    fallback = RoleKind.WORKER if is_obvious else RoleKind.NONE
    return {name: kind or fallback for name, kind in kinds.items()}

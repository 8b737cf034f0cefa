"""The function of a task role in a training job. Pure."""

import enum
from typing import Iterable, Mapping


class RoleKind(enum.Enum):
    """The function of a role. The values are the words of FB_ROLES."""

    CHIEF = "chief"
    MASTER = "master"
    WORKER = "worker"
    PS = "ps"
    EVALUATOR = "evaluator"
    LAUNCHER = "launcher"
    NONE = "none"


# The roles that compute together, in rank order: they have ranks, and by default slots.
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

    If no role is a worker and exactly one name is unknown, that role is the workers. Several
    unknown roles have no kind: a guess would put, for example, a TensorBoard among the peers.
    """
    kinds = {name: given.get(name) or _KINDS_BY_NAME.get(name) for name in names}
    unknown = [name for name, kind in kinds.items() if kind is None]
    is_obvious = len(unknown) == 1 and RoleKind.WORKER not in kinds.values()
    fallback = RoleKind.WORKER if is_obvious else RoleKind.NONE
    return {name: kind or fallback for name, kind in kinds.items()}

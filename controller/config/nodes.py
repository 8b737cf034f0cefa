"""The nodes that Tasks leave: the keys ``watchNodes``, ``leaveOnCordon`` and ``leaveTaints``."""

from dataclasses import dataclass

from controller.config.field_reader import FieldReader
from framework.api.nodes import Taint, parse_taint

MAX_LEAVE_TAINTS = 100

DEFAULT_LEAVE_TAINTS = tuple(
    Taint(key)
    for key in (
        # Kubernetes: the node is shut down, or was taken out of service by an administrator.
        "node.kubernetes.io/out-of-service",
        "node.cloudprovider.kubernetes.io/shutdown",
        # Autoscalers, before they drain a node.
        "ToBeDeletedByClusterAutoscaler",
        "karpenter.sh/disrupted",
        "karpenter.sh/disruption",
        # Termination handlers of clouds. Without rebalance-recommendation, after which a node often
        # stays.
        "aws-node-termination-handler/spot-itn",
        "aws-node-termination-handler/scheduled-maintenance",
        "aws-node-termination-handler/asg-lifecycle-termination",
        "cloud.google.com/impending-node-termination",
    )
)
"""Taints that are set before a node is removed. DeletionCandidateOfClusterAutoscaler is not one of
them, because the autoscaler may remove it again."""


@dataclass(frozen=True, slots=True)
class NodesConfig:
    """The nodes that Tasks leave, if their roles have ``recovery.leaveNodes``."""

    is_watched: bool = False
    """Whether nodes are watched; needs the right to list and watch them."""
    leaves_on_cordon: bool = True
    """Whether Tasks leave nodes that are cordoned."""
    leave_taints: tuple[Taint, ...] = DEFAULT_LEAVE_TAINTS
    """Taints at which Tasks leave; a taint without an effect stands for all effects."""


def read_nodes(reader: FieldReader) -> NodesConfig:
    """Read the keys about nodes."""
    default = NodesConfig()
    return NodesConfig(
        is_watched=reader.read_bool("watchNodes", default=default.is_watched),
        leaves_on_cordon=reader.read_bool("leaveOnCordon", default=default.leaves_on_cordon),
        leave_taints=_read_taints(reader),
    )


def _read_taints(reader: FieldReader) -> tuple[Taint, ...]:
    texts = reader.read_texts("leaveTaints")
    if texts is None:
        return DEFAULT_LEAVE_TAINTS
    if len(texts) > MAX_LEAVE_TAINTS:
        reader.fail("leaveTaints", f"{len(texts)} taints; give at most {MAX_LEAVE_TAINTS}")
        return ()
    taints = []
    for index, text in enumerate(texts):
        taint = parse_taint(text)
        if taint is None:
            message = f"{text!r:.400} is no taint; give KEY or KEY:EFFECT, for example "
            reader.fail(f"leaveTaints[{index}]", message + "example.com/maintenance:NoSchedule")
        else:
            taints.append(taint)
    return tuple(taints)

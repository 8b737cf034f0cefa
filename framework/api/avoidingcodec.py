"""Names in JSON of the types of avoided nodes."""

from framework.api import constants
from framework.api.avoiding import AvoidNodesSpec, NodeFailure
from framework.api.wire import INT, STR, TIME, Field, Struct

AVOID_NODES_SPEC = Struct(
    AvoidNodesSpec,
    Field(constants.FAILURES_FIELD, "failures", INT),
    Field(constants.WITHIN_SECONDS_FIELD, "within_seconds", INT),
    Field(constants.MAX_NODES_FIELD, "max_nodes", INT),
    example="{failures: 2}",
)

NODE_FAILURE = Struct(
    NodeFailure,
    Field("node", "node", STR),
    Field("time", "time", TIME, nullable=True),
)

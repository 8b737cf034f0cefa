"""Names in JSON of the types of leaving."""

from framework.api import constants
from framework.api.leaving import LeaveCount, LeaveNodesSpec, LeavingStatus
from framework.api.wire import INT, STR, TIME, Field, Struct

LEAVE_NODES_SPEC = Struct(
    LeaveNodesSpec,
    Field(constants.TIMEOUT_SECONDS_FIELD, "timeout_seconds", INT),
    Field(constants.MAX_LEAVES_FIELD, "max_leaves", INT),
    Field(constants.WITHIN_SECONDS_FIELD, "within_seconds", INT),
    example="{timeoutSeconds: 120}",
)

LEAVING_STATUS = Struct(
    LeavingStatus,
    Field("reason", "reason", STR),
    Field("message", "message", STR),
    Field("deadlineTime", "deadline_time", TIME, nullable=True),
)

LEAVE_COUNT = Struct(
    LeaveCount,
    Field("count", "count", INT),
    Field("sinceTime", "since_time", TIME, nullable=True),
)

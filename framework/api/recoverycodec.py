"""Names in JSON of the types of restarts in place."""

from framework.api import constants
from framework.api.avoidingcodec import AVOID_NODES_SPEC
from framework.api.leavingcodec import LEAVE_NODES_SPEC
from framework.api.recovery import (
    FailedProcess,
    InPlaceSpec,
    RecoverySpec,
    RecoveryStatus,
    RoleRestarts,
    StartBarrierStatus,
)
from framework.api.wire import BOOL, INT, STR, TIME, Field, Struct, list_kind

_IN_PLACE_SPEC = Struct(
    InPlaceSpec,
    Field(constants.MAX_RESTARTS_FIELD, "max_restarts", INT),
    Field(constants.WITHIN_SECONDS_FIELD, "within_seconds", INT),
    example="{maxRestarts: 3, withinSeconds: 3600}",
)

RECOVERY_SPEC = Struct(
    RecoverySpec,
    Field(
        constants.IN_PLACE_FIELD,
        "in_place",
        _IN_PLACE_SPEC.kind(),
        nullable=True,
        omit_value=None,
    ),
    Field(
        constants.LEAVE_NODES_FIELD,
        "leave_nodes",
        LEAVE_NODES_SPEC.kind(),
        nullable=True,
        omit_value=None,
    ),
    Field(
        constants.AVOID_NODES_FIELD,
        "avoid_nodes",
        AVOID_NODES_SPEC.kind(),
        nullable=True,
        omit_value=None,
    ),
)

_ROLE_RESTARTS = Struct(
    RoleRestarts, Field("role", "role", STR), Field("times", "times", list_kind(TIME))
)

_FAILED_PROCESS = Struct(
    FailedProcess,
    Field("role", "role", STR),
    Field("index", "index", INT),
    Field("podUIDFingerprint", "fingerprint", STR),
    Field("epoch", "epoch", INT),
    Field("code", "code", INT),
)

_START_BARRIER = Struct(
    StartBarrierStatus,
    Field("since", "since", INT),
    Field("beginTime", "begin_time", TIME, nullable=True, omit_value=None),
    Field("startedEpoch", "started_epoch", INT, nullable=True, omit_value=None),
    Field("served", "is_served", BOOL),
)

RECOVERY_STATUS = Struct(
    RecoveryStatus,
    Field("epoch", "epoch", INT),
    Field("decidedTime", "decided_time", TIME, nullable=True, omit_value=None),
    Field("reason", "reason", STR),
    Field("firstFailed", "first_failed", _FAILED_PROCESS.kind(), nullable=True, omit_value=None),
    Field("restarts", "restarts", list_kind(_ROLE_RESTARTS.kind()), omit_empty=True),
    Field("refused", "refused", list_kind(STR), omit_empty=True),
    Field("startBarrier", "start_barrier", _START_BARRIER.kind(), nullable=True, omit_value=None),
)

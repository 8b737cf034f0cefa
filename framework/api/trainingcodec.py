"""Names in JSON of the progress of a training."""

from framework.api.trainingstatus import TrainingStatus
from framework.api.wire import INT, STR, TIME, Field, Struct, list_kind

TRAINING_STATUS = Struct(
    TrainingStatus,
    Field("step", "step", INT),
    Field("totalSteps", "total_steps", INT, nullable=True, omit_value=None),
    Field("stepsPerSecond", "steps_per_second", STR, omit_empty=True),
    Field("remainingSeconds", "remaining_seconds", INT, nullable=True, omit_value=None),
    Field("slowest", "slowest", STR, omit_empty=True),
    Field("stragglerCount", "straggler_count", INT),
    Field("stragglers", "stragglers", list_kind(STR), omit_empty=True),
    Field("generation", "generation", INT),
    Field("updateTime", "update_time", TIME, nullable=True, omit_value=None),
)

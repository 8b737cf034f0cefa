"""The decision about a job for which the decision of its kind failed: an error of ours. Pure.

Only the condition Blocked with reason Undecidable is written, and an Event when it is new.
"""

from collections.abc import Mapping

from controller.kinds.decide.decision import Decision, Snapshot
from controller.kinds.decide.plan import Plan, build_decision
from framework.api.wire import format_time
from framework.kinds.compiled import Object
from framework.kinds.observing import (
    BLOCKED,
    MAX_MESSAGE,
    AddedCondition,
    read_conditions,
    split_added,
    update_added,
)
from framework.kinds.tfjob import types as tfjob

UNDECIDABLE = "Undecidable"
_TIMES = frozenset({"transitionTime", "lastUpdateTime", "lastTransitionTime"})


def describe_error(error: Exception) -> str:
    """Describe the error for the user of the job."""
    return (
        f"the controller cannot handle this job ({type(error).__name__}), and leaves it as it is: "
        "check its spec by framework lint; the log of the controller has the error"
    )


def decide_undecided(snapshot: Snapshot, error: Exception) -> Decision:
    """Decide to tell the user."""
    added = AddedCondition(BLOCKED, UNDECIDABLE, describe_error(error))
    status = snapshot.job.get("status")
    old = status if isinstance(status, Mapping) else {}
    ours, others = split_added(read_conditions(old))

    def build(condition: AddedCondition) -> Object:
        return _build_condition(snapshot, condition)

    # The others of ours stay as they are: nothing is known about them now.
    blocked = update_added(
        [c for c in ours if c["type"] == BLOCKED], [added], build, _TIMES, is_still_blocked=True
    )
    kept = [c for c in ours if c["type"] != BLOCKED]
    new = {**old, "conditions": [*blocked, *kept, *others]}
    return build_decision(snapshot, new, Plan(added_conditions=(added,)))


def _build_condition(snapshot: Snapshot, added: AddedCondition) -> Object:
    """Build the condition in the form of the kind."""
    time, type_ = format_time(snapshot.now), added.type
    if snapshot.job.get("kind") == tfjob.KIND:
        reason = f"{added.reason}: {added.message}"[:MAX_MESSAGE]
        return {"type": type_, "reason": reason, "transitionTime": time}
    times = {"lastUpdateTime": time, "lastTransitionTime": time}
    message = added.message[:MAX_MESSAGE]
    return {"type": type_, "status": "True", "reason": added.reason, "message": message, **times}

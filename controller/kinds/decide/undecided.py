"""The decision about a job that is too large, or whose decision raised an error. Pure.

Only the condition Blocked with reason TooLarge or Undecidable is written, also as the reason of the
status, and an Event when it is new.
"""

from collections.abc import Callable, Mapping
from datetime import datetime

from controller.kinds.decide.decision import Decision, Obstacle, Snapshot
from controller.kinds.decide.plan import Plan, build_decision
from framework.kinds.compiled import Object
from framework.kinds.observing import (
    BLOCKED,
    MAX_MESSAGE,
    AddedCondition,
    read_conditions,
    split_added,
    update_added,
)

UNDECIDABLE = "Undecidable"
TOO_LARGE = "TooLarge"
_TIMES = frozenset({"transitionTime", "lastUpdateTime", "lastTransitionTime"})


def describe_size(most: int) -> str:
    """Say that a job is too large: more than ``most`` bytes in JSON without its status."""
    # Without the exact size, which changes with each status: each new text causes an Event.
    return (
        f"the job has more than {most} bytes in JSON without its status, so the controller leaves "
        "it as it is: move files and long values into ConfigMaps or the image"
    )


def describe_error(error: Exception) -> str:
    """Describe the error for the user of the job."""
    return (
        f"the controller cannot handle this job ({type(error).__name__}), and leaves it as it is: "
        "check its spec by framework lint; the log of the controller has the error"
    )


def describe_scaler_error(error: Exception) -> str:
    """Describe an error in the decision about the scalers of a job, for its user."""
    return (
        f"the controller cannot handle its scalers ({type(error).__name__}), and leaves the job as "
        "it is: delete the ScaleIn or ScaleOut that has not ended; the log of the controller has "
        "the error"
    )


def decide_undecided(
    snapshot: Snapshot,
    obstacle: Obstacle,
    build: Callable[[AddedCondition, datetime], Object],
) -> Decision:
    """Decide to report an obstacle to the user.

    Args:
        snapshot: the job.
        obstacle: the reason why nothing else is decided.
        build: builds the JSON of a condition, in the form of the kind.
    """
    added = AddedCondition(BLOCKED, obstacle.reason, obstacle.message)
    status = snapshot.job.get("status")
    old = status if isinstance(status, Mapping) else {}
    ours, others = split_added(read_conditions(old))

    # Keep the other conditions that we added; this decision did not evaluate them.
    blocked = update_added(
        [c for c in ours if c["type"] == BLOCKED],
        [added],
        lambda condition: build(condition, snapshot.now),
        _TIMES,
        is_still_blocked=True,
    )
    kept = [c for c in ours if c["type"] != BLOCKED]
    reason = f"{obstacle.reason}: {obstacle.message}"[:MAX_MESSAGE]
    new = {**old, "reason": reason, "conditions": [*blocked, *kept, *others]}
    return build_decision(snapshot, new, Plan(added_conditions=(added,)))

"""Describes the progress of a training. Pure."""

from framework.api.trainingstatus import TrainingStatus

_MINUTE, _HOUR, _DAY = 60, 3600, 86400


def describe_training(training: TrainingStatus | None, *, has_ended: bool = False) -> str:
    """Describe how far a training is, or only its last step; "" if no agent has reported it.

    Example: ``step 41200 of 100000, 3.25 steps/s, 5 h left; slowest: worker/3``.
    """
    if training is None:
        return ""
    total = "" if training.total_steps is None else f" of {training.total_steps}"
    parts = [f"step {training.step}{total}"]
    if has_ended:
        return parts[0]
    if training.steps_per_second:
        parts.append(f"{training.steps_per_second} steps/s")
    if training.remaining_seconds is not None:
        parts.append(f"{_round_seconds(training.remaining_seconds)} left")
    slowest = f"; slowest: {training.slowest}" if training.slowest else ""
    return ", ".join(parts) + slowest + _describe_stragglers(training)


def _describe_stragglers(training: TrainingStatus) -> str:
    count, names = training.straggler_count, training.stragglers
    if count <= 0:
        return ""
    title = f"; {count} straggler{'s' * (count != 1)}"
    more = f" and {count - len(names)} more" if count > len(names) else ""
    return f"{title}: {', '.join(names)}{more}" if names else title


def _round_seconds(seconds: int) -> str:
    for unit, name in ((_DAY, "d"), (_HOUR, "h"), (_MINUTE, "min")):
        if seconds >= 2 * unit:
            return f"{round(seconds / unit)} {name}"
    return f"{seconds} s"

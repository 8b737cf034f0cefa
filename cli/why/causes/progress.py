"""Training that is to report its progress into the status, and has not. Pure."""

from collections.abc import Iterator
from datetime import timedelta

from cli.why.cause import Cause, Kind, Remedy
from cli.why.observation import Observation, TaskFacts, list_mappings
from framework.api.states import FrameworkState

# Before its first step, a training may load data and compile code for this long.
_SECONDS = 300
_SILENCE = (
    "no rank has called peers.progress yet (or printed its step, by FB_PROGRESS_PATTERN); or the "
    "service account of the Pods lacks the Role of deploy/agents/drain, which the log of the agent "
    "of rank 0 then says"
)


def find_silent_training(observation: Observation) -> Iterator[Cause]:
    """Find a gang that runs with FB_PROGRESS_STATUS=on, and has reported no step."""
    status = observation.status
    attempt = status.attempt_status if status is not None else None
    if status is None or attempt is None or attempt.training is not None:
        return
    if status.state is not FrameworkState.ATTEMPT_RUNNING or attempt.run_time is None:
        return
    if observation.now - attempt.run_time < timedelta(seconds=_SECONDS):
        return
    first = next((task for task in observation.tasks if _is_reporting(task)), None)
    if first is None:
        return
    log = observation.commands.build_framework("logs", observation.name, str(first.key))
    yield Cause(
        Kind.PROGRESS,
        "has reported no step, though FB_PROGRESS_STATUS is on",
        since=attempt.run_time,
        facts=(_SILENCE,),
        remedies=(
            Remedy("read the log of its agent", (log,)),
            Remedy("inject the agents again: `framework inject` gives them the right"),
        ),
    )


def _is_reporting(task: TaskFacts) -> bool:
    return any(
        (variable.get("name"), variable.get("value")) == ("FB_PROGRESS_STATUS", "on")
        for container in list_mappings(task.pod_spec.get("containers"))
        for variable in list_mappings(container.get("env"))
    )

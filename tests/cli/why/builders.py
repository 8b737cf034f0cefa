"""Observations of one gang, for the rules of ``framework why``."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from cli.why.cause import Cause, Kind
from cli.why.commands import Commands
from cli.why.observation import EventFacts, Observation, build_tasks, read_status
from cli.why.ranking import find_causes
from framework.api.codec import encode_status
from framework.api.completion import complete_task
from framework.api.states import FrameworkState, TaskState
from framework.api.types import (
    CompletionPolicyTriggerStatus,
    CompletionType,
    ContainerCompletionStatus,
    FrameworkAttemptCompletionStatus,
    FrameworkStatus,
    PodCompletionStatus,
    TaskAttemptCompletionStatus,
)
from framework.api.wire import format_time
from framework.kube.resources import Object
from tests.support.builders import (
    AT,
    FRAMEWORK,
    NAMESPACE,
    at,
    build_framework_wire,
    build_pod_wire,
    build_role_status,
    build_role_wire,
    build_status,
    end_attempt,
    end_task,
)

LATER = at(300)
LACKS_GPU = "0/3 nodes are available: 3 Insufficient nvidia.com/gpu. preemption: 0/3 x."
# Builds an observation; the kind of its root cause, words of it, and a command of a remedy.
Case = tuple[Callable[[], Observation], Kind, tuple[str, ...], str]


def observe(
    pods: Sequence[Object] = (),
    *,
    status: FrameworkStatus | None = None,
    number: int = 2,
    task_state: TaskState = TaskState.ATTEMPT_PREPARING,
    events: Mapping[int, Sequence[EventFacts]] | None = None,
    metadata: Mapping[str, Any] | None = None,
    spec: Mapping[str, Any] | None = None,
    role: Mapping[str, Any] | None = None,
    **fields: Any,
) -> Observation:
    """A gang of a role ``worker``, five minutes after its start."""
    if status is None:
        tasks = build_role_status("worker", number, task_state)
        status = build_status(tasks, state=FrameworkState.ATTEMPT_PREPARING)
    wire = build_framework_wire(build_role_wire("worker", number, **(role or {})), **(spec or {}))
    wire["metadata"] = {**wire["metadata"], **(metadata or {})}
    wire["status"] = {**encode_status(status), **fields.pop("wire_status", {})}
    decoded, fault = read_status(wire)
    by_name = {pod["metadata"]["name"]: pod for pod in pods}
    facts = build_tasks(wire, decoded, by_name) if decoded else ()
    with_events = [
        replace(task, events=tuple((events or {}).get(task.key.index, ()))) for task in facts
    ]
    return Observation(
        name=FRAMEWORK,
        namespace=NAMESPACE,
        now=LATER,
        framework=wire,
        commands=Commands(FRAMEWORK),
        status=decoded,
        fault=fault,
        tasks=tuple(with_events),
        **fields,
    )


def wait(reason: str, message: str = "", name: str = "main") -> Object:
    """The status of a container that waits."""
    return {"name": name, "state": {"waiting": {"reason": reason, "message": message}}}


def pending(index: int = 0, *containers: Object, **status: Any) -> Object:
    """A Pod on its node whose containers have not started."""
    return build_pod_wire(index=index, phase="Pending", containers=containers, **status)


def unscheduled(index: int, message: str, **spec: Any) -> Object:
    """A Pod that the scheduler cannot place."""
    condition = {
        "type": "PodScheduled",
        "status": "False",
        "reason": "Unschedulable",
        "message": message,
    }
    spec = {"nodeName": "", **spec}
    return build_pod_wire(index=index, phase="Pending", spec=spec, conditions=[condition])


def event(reason: str, message: str) -> EventFacts:
    """A Warning of the kubelet."""
    return EventFacts(reason, message, is_warning=True, since=AT, last=at(200))


def find_root(observation: Observation) -> Cause:
    causes = find_causes(observation)
    assert causes
    return causes[0]


def list_commands(cause: Cause) -> list[str]:
    return [command for remedy in cause.remedies for command in remedy.commands]


def check_rule(case: Case) -> None:
    """Check that the case's cause is found as the root cause."""
    build, kind, words, command = case
    cause = find_root(build())
    assert cause.kind is kind
    for text in words:
        assert text in cause.text
    assert any(command in line for line in list_commands(cause)), list_commands(cause)


def lose_image(index: int = 0) -> Object:
    return pending(index, wait("ImagePullBackOff", 'Back-off pulling image "r/x:1"'))


def fail(*containers: ContainerCompletionStatus, code: int = 1, **pod: Any) -> FrameworkStatus:
    """A status in which worker/0 failed, and with it the Framework."""
    completion = TaskAttemptCompletionStatus(
        code,
        "Phrase",
        CompletionType("Failed", ()),
        "x",
        PodCompletionStatus(containers=containers, **pod),
    )
    return fail_with(completion)


def fail_with(completion: TaskAttemptCompletionStatus) -> FrameworkStatus:
    role = build_role_status("worker", 2, TaskState.COMPLETED)
    ended = end_task(role.tasks[0], completion, completion_time=at(100))
    other = end_task(role.tasks[1], complete_task(-220, "x"))
    status = build_status(replace(role, tasks=(ended, other)), state=FrameworkState.COMPLETED)
    trigger = CompletionPolicyTriggerStatus("", "worker", 0)
    end = FrameworkAttemptCompletionStatus(
        completion.code, "Phrase", CompletionType("Failed", ()), "x", trigger
    )
    return end_attempt(status, end)


def barrier_pod(index: int) -> Object:
    """A Pod whose barrier runs."""
    init = {"name": "barrier", "image": "frameworkbarrier/framework-barrier"}
    state = {"name": "barrier", "state": {"running": {"startedAt": format_time(AT)}}}
    return build_pod_wire(
        index=index,
        phase="Pending",
        spec={"initContainers": [init]},
        init_containers=[state],
        containers=[wait("PodInitializing")],
    )

"""Tasks that ended with an error: crash, memory, agents, lost Pods. Pure."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from cli.texts.diagnostics import explain_diagnostics
from cli.texts.torchreport import strip_report
from cli.why.cause import Cause, Kind, Remedy
from cli.why.observation import (
    STARTING_STATES,
    Observation,
    TaskFacts,
    get_mapping,
    group_tasks,
    list_mappings,
)
from cli.why.remedies import (
    build_operation,
    build_template_path,
    change_template,
    repeat,
    replace_framework,
)
from framework.api.completion import (
    CONFIGMAP_EXTERNAL_DELETED,
    CONFIGMAP_LOCAL_CACHE_CREATION_TIMEOUT,
    CONTAINER_TRANSIENT_CONFLICT_FAILED,
    POD_CREATION_PERMANENT_ERROR,
    POD_CREATION_UNKNOWN_ERROR,
    POD_EXTERNAL_DELETED,
    POD_LOCAL_CACHE_CREATION_TIMEOUT,
)
from framework.api.constants import HUNG_EXIT_CODE
from framework.api.endings import INHERITED_CODES, describe_task_end
from framework.api.states import FrameworkState, TaskState
from framework.api.types import (
    ContainerCompletionStatus,
    FrameworkStatus,
    TaskAttemptCompletionStatus,
    TaskStatus,
)
from framework.api.wire import format_time

_REFUSED_CODES = frozenset({POD_CREATION_PERMANENT_ERROR, POD_CREATION_UNKNOWN_ERROR})
_LOST_CODES = frozenset({POD_EXTERNAL_DELETED, POD_LOCAL_CACHE_CREATION_TIMEOUT})
_LOST_CONFIGMAP_CODES = frozenset(
    {CONFIGMAP_EXTERNAL_DELETED, CONFIGMAP_LOCAL_CACHE_CREATION_TIMEOUT}
)
# Reasons of a Pod that its node ended or did not take.
_NODE_REASONS = frozenset(
    {
        "Evicted",
        "NodeLost",
        "NodeShutdown",
        "Terminated",
        "Shutdown",
        "Preempting",
        "NodeAffinity",
        "UnexpectedAdmissionError",
    }
)
_START_REASONS = frozenset({"StartError", "ContainerCannotRun"})
_OUT_OF = "OutOf"
_OOM_KILLED = "OOMKilled"
_QUANTITY = re.compile(r"^(\d+)([A-Za-z]*)$")
_MIN_RETRY_SECONDS = 1
_SHOWN_MISSING = 3
_TASK_FAILED = "TaskFailed"


@dataclass(frozen=True, slots=True)
class _End:
    """How the attempt of a Task ended; equal for Tasks that ended in the same way."""

    kind: Kind
    text: str
    container: str = ""
    verdict: str = ""
    """The message of the agents about a gang that stood still."""


def find_ends(observation: Observation) -> Iterator[Cause]:
    """Find Tasks that failed by themselves; first the Task that ended the attempt."""
    if _has_succeeded(observation):
        return
    decisive = _find_trigger(observation)
    found = []
    for task in observation.tasks:
        completion = task.status.attempt_status.completion_status
        if completion is None or not completion.type.is_failed:
            continue
        if completion.code in INHERITED_CODES | _REFUSED_CODES or task.status.deletion_pending:
            continue
        found.append((task, _describe(task, completion)))
    groups = list(group_tasks(observation.tasks, found))
    groups.sort(key=lambda group: decisive not in {task.key for task in group[1]})
    for end, tasks in groups:
        first = next((task for task in tasks if task.key == decisive), tasks[0])
        rest = [task for task in tasks if task is not first]
        yield _build_cause(observation, end, [first, *rest])


def find_repeated_ends(observation: Observation) -> Iterator[Cause]:
    """Find Tasks that start again, after attempts that all ended within seconds."""
    found = [
        (task, task.status.retry_policy_status.quick_end_count)
        for task in observation.tasks
        if task.status.state in STARTING_STATES and task.status.retry_policy_status.quick_end_count
    ]
    event = next((e for e in observation.events if e.reason == _TASK_FAILED), None)
    for count, tasks in group_tasks(observation.tasks, found):
        attempts = f"{count} attempt{'s' * (count != 1)}"
        yield Cause(
            Kind.CRASH,
            f"starts again; its last {attempts} ended within seconds of the start",
            tasks=tuple(task.key for task in tasks),
            since=event.since if event else None,
            quote=event.message if event else "",
            remedies=tuple(_list_remedies(observation, _End(Kind.CRASH, ""), tasks)),
        )


def find_lost_configmap(observation: Observation) -> Iterator[Cause]:
    """Find an attempt that ended because its ConfigMap was deleted."""
    status = observation.status
    end = status.attempt_status.completion_status if status else None
    if status is None or end is None or end.code not in _LOST_CONFIGMAP_CODES:
        return
    remedies = [_run_again(observation, "run it again")]
    if not observation.is_local:
        look = observation.commands.build_controller_search()
        text = "if two controllers act on this Framework, stop one of them first (an administrator)"
        remedies.insert(0, Remedy(text, (look,)))
    yield Cause(
        Kind.POD_LOST,
        "lost the ConfigMap of its attempt: another client, or a second controller, deleted it",
        since=status.attempt_status.completion_time,
        facts=tuple(_explain_retry(status, observation)),
        remedies=tuple(remedies),
    )


def _has_succeeded(observation: Observation) -> bool:
    status = observation.status
    end = status.attempt_status.completion_status if status else None
    return observation.is_completed and end is not None and end.type.is_succeeded


def _find_trigger(observation: Observation) -> tuple[str, int] | None:
    status = observation.status
    end = status.attempt_status.completion_status if status else None
    if end is None or end.trigger is None:
        return None
    return end.trigger.task_role_name, end.trigger.task_index


def _describe(task: TaskFacts, completion: TaskAttemptCompletionStatus) -> _End:
    pod = completion.pod
    if completion.code in _LOST_CODES:
        return _End(Kind.POD_LOST, describe_task_end(completion))
    if pod is not None and (pod.reason in _NODE_REASONS or pod.reason.startswith(_OUT_OF)):
        return _End(Kind.NODE, f"was ended by its node: {pod.reason}")
    container = find_failed(completion)
    name = container.name if container else ""
    if container is not None and container.reason == _OOM_KILLED:
        limit = _read_memory_limit(task, name)
        text = f"ran out of memory: its container {name} was killed"
        return _End(Kind.OUT_OF_MEMORY, f"{text} at its limit of {limit}" if limit else text, name)
    agent = _read_agent_message(container) if container else {}
    if container is not None and agent:
        return _describe_agent(container, agent)
    if container is not None and container.reason in _START_REASONS:
        return _End(Kind.CONFIG, f"cannot start the command of its container {name}", name)
    return _End(Kind.CRASH, describe_task_end(completion), name)


def _describe_agent(container: ContainerCompletionStatus, agent: Mapping[str, Any]) -> _End:
    missing = list_mappings(agent.get("missing"))
    if container.code == CONTAINER_TRANSIENT_CONFLICT_FAILED and missing:
        shown = [
            f"{each.get('role')}/{each.get('index')} ({each.get('reason')})"
            for each in missing[:_SHOWN_MISSING]
        ]
        more = f" and {len(missing) - len(shown)} more" if len(missing) > len(shown) else ""
        text = f"gave up waiting for the gang: its {container.name} missed {', '.join(shown)}{more}"
        return _End(Kind.GANG, text, container.name)
    said = agent.get("message") or agent.get("reason")
    if container.code == HUNG_EXIT_CODE:
        text = f"was killed by its agent in {container.name}, because the gang stood still"
        return _End(Kind.HANG, text, container.name, verdict=str(said))
    return _End(Kind.AGENT, f"ended because of its {container.name}: {said}", container.name)


def _build_cause(observation: Observation, end: _End, tasks: Sequence[TaskFacts]) -> Cause:
    first = tasks[0]
    completion = first.status.attempt_status.completion_status
    pod = completion.pod if completion else None
    container = find_failed(completion) if completion else None
    quote = pod.message if pod is not None and end.kind is Kind.NODE else ""
    if end.kind is Kind.CONFIG and container is not None:
        quote = container.message
    # The last lines before a hang do not help: the stacks are above them.
    has_log = bool(end.container) and end.kind is not Kind.HANG
    log = observation.get_log(first, end.container) if has_log else ()
    if not log and end.kind is Kind.CRASH and container is not None:
        lines = strip_report(container.message.splitlines())
        log = tuple(line for line in lines if line.strip())
    if not log and completion is not None and container is None:
        quote = quote or explain_diagnostics(completion.diagnostics)
    return Cause(
        end.kind,
        end.text,
        tasks=tuple(task.key for task in tasks),
        since=first.status.attempt_status.completion_time,
        quote=quote,
        facts=(*([end.verdict] if end.verdict else []), *_list_facts(observation, first.status)),
        log=log,
        remedies=tuple(_list_remedies(observation, end, tasks)),
    )


def _list_facts(observation: Observation, task: TaskStatus) -> Iterator[str]:
    status = observation.status
    if task.state is TaskState.ATTEMPT_COMPLETED:
        yield from _explain_retry(task, observation)
    elif status is not None and status.state is FrameworkState.ATTEMPT_COMPLETED:
        yield from _explain_retry(status, observation)


def _explain_retry(status: FrameworkStatus | TaskStatus, observation: Observation) -> Iterator[str]:
    """Explain when the next attempt starts."""
    is_waiting = status.state in {FrameworkState.ATTEMPT_COMPLETED, TaskState.ATTEMPT_COMPLETED}
    if not is_waiting:
        return
    retries = status.retry_policy_status
    delay = retries.retry_delay_seconds or 0
    at = status.transition_time + timedelta(seconds=delay)
    seconds = (at - observation.now).total_seconds()
    when = f"at {format_time(at)}, in {seconds:.0f} s" if seconds >= _MIN_RETRY_SECONDS else "now"
    yield f"the next attempt, number {retries.total_retried_count + 1}, starts {when}"


def _list_remedies(
    observation: Observation, end: _End, tasks: Sequence[TaskFacts]
) -> Iterator[Remedy]:
    commands = observation.commands
    key = str(tasks[0].key)
    match end.kind:
        case Kind.POD_LOST | Kind.NODE:
            yield _run_again(observation, "if nothing retries it, run it again")
        case Kind.OUT_OF_MEMORY:
            yield _raise_memory(observation, tasks, end.container)
        case Kind.AGENT:
            yield replace_framework(
                observation, "do what the message says, and replace the Framework"
            )
        case Kind.GANG:
            yield _run_again(observation, "give it what the missing Tasks need, and run it again")
        case Kind.HANG:
            words = ["logs", observation.name, key, "--container", end.container]
            text = "read the stacks in its log, the newest call of each first"
            yield Remedy(text, (commands.build_framework(*words),))
            yield replace_framework(
                observation,
                "if a step may take so long, raise FB_PROGRESS_TIMEOUT_SEC or declare the pause "
                "(peers.pause); else correct the program; and replace the Framework",
                tasks[0],
            )
        case _:
            words = ["logs", observation.name, key]
            words += ["--container", end.container] if end.container else []
            has_pod = tasks[0].pod is not None or observation.is_local
            if has_pod and end.kind is Kind.CRASH:
                yield Remedy("read the whole log", (commands.build_framework(*words),))
            what = "command" if end.kind is Kind.CONFIG else "program"
            yield replace_framework(
                observation, f"correct the {what}, and replace the Framework", tasks[0]
            )


def _run_again(observation: Observation, text: str) -> Remedy:
    if observation.is_completed:
        return Remedy(text, observation.commands.build_replacement())
    return repeat(observation, Remedy(text))


def _raise_memory(observation: Observation, tasks: Sequence[TaskFacts], name: str) -> Remedy:
    template = observation.get_template(tasks[0])
    for kind in ("initContainers", "containers"):
        for index, container in enumerate(list_mappings(template.get(kind))):
            if container.get("name") != name:
                continue
            resources = get_mapping(container, "resources")
            limit = str(get_mapping(resources, "limits").get("memory") or "")
            if not limit:
                break
            path = build_template_path(tasks[0], kind, str(index), "resources", "limits", "memory")
            operation = build_operation("replace", path, _double(limit))
            text = "give it more memory; twice as much may be enough"
            return change_template(observation, tasks, text, operation)
    text = "its node ran out of memory: set a memory request and limit of the container"
    return replace_framework(
        observation, f"{text} in the file, and replace the Framework", tasks[0]
    )


def _read_memory_limit(task: TaskFacts, container: str) -> str:
    for each in task.list_containers():
        if each.name == container:
            limits = get_mapping(get_mapping(each.spec, "resources"), "limits")
            return str(limits.get("memory") or "")
    return ""


def _double(quantity: str) -> str:
    found = _QUANTITY.match(quantity)
    return f"{int(found.group(1)) * 2}{found.group(2)}" if found else "QUANTITY"


def find_failed(completion: TaskAttemptCompletionStatus) -> ContainerCompletionStatus | None:
    """Find the container that gave the code of an attempt, or else the first that failed."""
    containers = completion.pod.containers if completion.pod is not None else ()
    failed = [c for c in containers if c.code != 0 or c.signal != 0]
    return next((c for c in failed if c.code == completion.code), failed[0] if failed else None)


def _read_agent_message(container: ContainerCompletionStatus) -> Mapping[str, Any]:
    """Read the termination message of an agent of this project; empty for another message."""
    if not container.message.startswith("{"):
        return {}
    try:
        found = json.loads(container.message)
    except (ValueError, RecursionError):
        return {}
    is_agents = isinstance(found, dict) and found.get("exitCode") == container.code
    return found if is_agents and found.get("message") else {}

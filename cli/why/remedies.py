"""Remedies that several rules share. Pure.

A change of a Pod template reaches a Task only with its next Pod. If the Task would be retried, the
template is changed and the Pod deleted. Otherwise the deletion would fail the Task, so the
Framework is replaced by a changed copy.
"""

from collections.abc import Sequence
from dataclasses import replace

from cli.why.cause import Cause, Remedy
from cli.why.observation import Observation, TaskFacts, get_mapping
from framework.api import constants
from framework.api.states import FrameworkState, TaskState
from framework.kube.resources import Object

# More names would fill the terminal.
_MAX_NAMED_PODS = 10
_ROLE = "framework-why"
_READING = "--verb=get,list"
_NODES = "nodes"
_FOREVER = (-1, -2)
_LIVE = frozenset(
    {TaskState.ATTEMPT_CREATION_REQUESTED, TaskState.ATTEMPT_PREPARING, TaskState.ATTEMPT_RUNNING}
)


def build_template_path(task: TaskFacts, *parts: str) -> str:
    """Build the path of a field of the Pod spec in the Framework, for a JSON patch."""
    return "/".join([f"/spec/taskRoles/{task.role_index}/task/pod/spec", *parts])


def build_operation(op: str, path: str, value: object = None) -> Object:
    """Build an operation of a JSON patch."""
    return {"op": op, "path": path} if op == "remove" else {"op": op, "path": path, "value": value}


def change_template(
    observation: Observation, tasks: Sequence[TaskFacts], text: str, *operations: Object
) -> Remedy:
    """Build the remedy that changes the Pod template of a role and lets its Tasks use it.

    Args:
        observation: what was read.
        tasks: the Tasks of one role that need the change.
        text: what it changes.
        operations: a JSON patch of the Framework; none if the user must edit the file.
    """
    commands = observation.commands
    if not operations:
        return replace_framework(observation, f"{text} in the file", tasks[0])
    pods = name_pods(observation, tasks)
    if (
        commands.job is not None
        or _is_final(observation, tasks)
        or pods is None
        or (pods and not _is_retried(observation, tasks))
    ):
        return Remedy(text, commands.build_replacement(operations))
    deletion = [commands.build_kubectl("delete", "pod", *pods)] if pods else []
    return Remedy(text, (commands.build_patch(operations), *deletion))


def change_spec(observation: Observation, text: str, *operations: Object) -> Remedy:
    """Build the remedy that changes the spec of the Framework, outside its Pod templates."""
    commands = observation.commands
    if observation.is_completed or commands.job is not None:
        return Remedy(text, commands.build_replacement(operations))
    return Remedy(text, (commands.build_patch(operations),))


def replace_framework(observation: Observation, text: str, task: TaskFacts | None = None) -> Remedy:
    """Build the remedy that replaces the Framework by a copy that the user has edited.

    Args:
        observation: what was read.
        text: what to edit.
        task: the Task whose Pod template has the fault; None for another part of the spec.
    """
    commands = observation.commands
    field = "spec"
    if task is not None and task.role_index is not None and commands.job is None:
        field = f"spec.taskRoles[{task.role_index}].task.pod.spec"
    read, replacement = commands.build_replacement()
    return Remedy(text, (read, f"# edit {field} in {observation.name}.yaml", replacement))


def name_job(observation: Observation, cause: Cause) -> Cause:
    """Name the job in remedies that replace it, because the Framework belongs to it."""
    commands = observation.commands
    job = commands.job
    if job is None:
        return cause
    said = f"change the {job.kind} {job.name}, whose controller made the Framework"
    remedies = (
        replace(each, text=f"{each.text}: {said}") if commands.replaces_job(each.commands) else each
        for each in cause.remedies
    )
    return replace(cause, remedies=tuple(remedies))


def build_grants(observation: Observation) -> list[str]:
    """Build the commands that grant the rights which the user lacks."""
    resources = dict.fromkeys(right.partition(" ")[2] for right in observation.missing_rights)
    own = [f"--resource={name}" for name in resources if name != _NODES]
    # The administrator may have another namespace than the user.
    namespace = ("-n", observation.namespace)
    grants: list[Sequence[str]] = []
    if own:
        grants.append(("create", "role", _ROLE, _READING, *own, *namespace))
        binding = ("create", "rolebinding", _ROLE, f"--role={_ROLE}", "--user=USER")
        grants.append((*binding, *namespace))
    if _NODES in resources:
        name = f"{_ROLE}-{_NODES}"
        grants.append(("create", "clusterrole", name, _READING, f"--resource={_NODES}"))
        binding = ("create", "clusterrolebinding", name, f"--clusterrole={name}", "--user=USER")
        grants.append(binding)
    return [observation.commands.build_global_kubectl(*words) for words in grants]


def name_pods(observation: Observation, tasks: Sequence[TaskFacts]) -> list[str] | None:
    """Return the words with which kubectl selects the Pods of Tasks; None if they are too many."""
    names = [task.pod_name for task in tasks if task.status.state in _LIVE]
    if len(names) <= _MAX_NAMED_PODS:
        return names
    role = tasks[0].key.role
    live = [t for t in observation.tasks if t.key.role == role and t.status.state in _LIVE]
    if len(live) > len(names):
        return None
    labels = {constants.FRAMEWORK_NAME: observation.name, constants.TASKROLE_NAME: role}
    return ["-l", ",".join(f"{key}={value}" for key, value in labels.items())]


def repeat(observation: Observation, remedy: Remedy) -> Remedy:
    """Add the commands that run the Framework again, if it has ended."""
    if not observation.is_completed:
        return remedy
    text = f"{remedy.text}, and run the Framework again"
    return Remedy(text, (*remedy.commands, *observation.commands.build_replacement()))


def _is_final(observation: Observation, tasks: Sequence[TaskFacts]) -> bool:
    """Return whether no attempt would use a changed template."""
    status = observation.status
    if status is None or status.state is FrameworkState.COMPLETED:
        return status is not None
    if observation.is_attempt_over:
        return status.retry_policy_status.retry_delay_seconds is None
    return any(task.status.state is TaskState.COMPLETED for task in tasks)


def _is_retried(observation: Observation, tasks: Sequence[TaskFacts]) -> bool:
    """Return whether Tasks of a role that lose their Pods are retried."""
    index = tasks[0].role_index
    if index is None:
        return False
    policy = get_mapping(get_mapping(observation.roles[index], "task"), "retryPolicy")
    count = policy.get("maxRetryCount")
    limit = count if isinstance(count, int) else 0
    if policy.get("fancyRetryPolicy") is True or limit in _FOREVER:
        return True
    return all(t.status.retry_policy_status.accountable_retried_count < limit for t in tasks)

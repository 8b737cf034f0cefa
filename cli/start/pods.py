"""Finds the Pod of a Task, and the container of it that a command is for."""

import re
from dataclasses import dataclass
from typing import Any, NamedTuple

from cli.exitcodes import CliError, ExitCode
from cli.files.templates import map_task_indices
from cli.frameworks import get_framework
from cli.invocation import build_command
from cli.loglines.query import find_status
from cli.texts.missing import explain_container, explain_task
from cli.texts.taskwords import suggest_pod, suggest_tasks
from framework.api import constants
from framework.api.naming import build_pod_name, is_role_name
from framework.kube.client import KubeClient
from framework.kube.errors import NotFoundError
from framework.kube.resources import PODS, Object

_TASK = re.compile(r"(?P<role>[a-z0-9]{1,63})/(?P<index>0|[1-9][0-9]{0,4})\Z")
_DEFAULT_CONTAINER = "kubectl.kubernetes.io/default-container"
_RUNNING = "Running"
_ENDED = frozenset({"Succeeded", "Failed"})


@dataclass(frozen=True, slots=True)
class TaskName:
    """A Task as a user names it."""

    framework: str
    role: str
    index: int

    def __str__(self) -> str:
        """Return ROLE/INDEX."""
        return f"{self.role}/{self.index}"


class PodChoice(NamedTuple):
    """The container that a command is for."""

    namespace: str
    pod: str
    container: str


def parse_task(framework: str, text: str) -> TaskName:
    """Read ROLE/INDEX.

    Raises:
        CliError: it has another form.
    """
    found = _TASK.match(text)
    if found is None:
        raise CliError(ExitCode.USAGE, _explain_form(framework, text))
    return TaskName(framework, found["role"], int(found["index"]))


def _explain_form(framework: str, text: str) -> str:
    pod = suggest_pod(framework)
    if pod is not None:
        return (
            f"{text!r} is not a Task; if {framework!r} is a name of a Pod, write NAME ROLE/INDEX "
            f"in its place: {pod[0]} {pod[1]}"
        )
    role = text if is_role_name(text) else "worker"
    meant = suggest_tasks(text).partition(" ")[0] or f"{role}/0"
    return f"{text!r} is not a Task: write it as {meant}"


async def find_pod(
    client: KubeClient,
    namespace: str,
    task: TaskName,
    container: str | None,
    *,
    runs_in_container: bool = True,
) -> PodChoice:
    """Find the Pod of a Task's current attempt.

    A Task has one Pod at a time, whose name is that of the Task.

    Args:
        client: of the cluster.
        namespace: of the Framework.
        task: the Task.
        container: None for the first of the Pod.
        runs_in_container: whether the container must run; else the Pod must have started.

    Raises:
        CliError: there is no such Framework, Task, Pod or container, or it does not run.
        KubeError: the server does not answer, or refuses.
    """
    pod = await _fetch_pod(client, namespace, task)
    phase = (pod.get("status") or {}).get("phase")
    if phase in _ENDED:
        logs = build_command("logs", task.framework, str(task), "-n", namespace)
        raise CliError(
            ExitCode.FAILED,
            f"{task} of {task.framework} has ended ({phase}), so nothing can run in its Pod; its "
            f"output: `{logs}`",
        )
    chosen = _choose_container(pod, task, container)
    fault = _explain_idle(pod, chosen if runs_in_container else None)
    if fault:
        why = build_command("why", task.framework, "-n", namespace)
        raise CliError(
            ExitCode.FAILED, f"{task} of {task.framework}: {fault}; `{why}` says what holds it"
        )
    return PodChoice(namespace, str(pod["metadata"]["name"]), chosen)


async def _fetch_pod(client: KubeClient, namespace: str, task: TaskName) -> Object:
    """Read the Pod of a Task; a Pod of this name without the label of the Framework is another."""
    name = build_pod_name(task.framework, task.role, task.index)
    try:
        pod = await client.get(PODS, namespace, name)
    except NotFoundError:
        raise await _explain_missing(client, namespace, task) from None
    labels = pod["metadata"].get("labels") or {}
    if labels.get(constants.FRAMEWORK_NAME) != task.framework:
        raise await _explain_missing(client, namespace, task)
    return pod


def _explain_idle(pod: Object, container: str | None) -> str:
    """Explain that a Pod or one of its containers does not run; "" if it does.

    Args:
        pod: as stored.
        container: None if each container is suitable.
    """
    if not pod["spec"].get("nodeName"):
        return "its Pod is not scheduled to a node yet"
    phase = (pod.get("status") or {}).get("phase")
    if container is None:
        return "" if phase == _RUNNING else "the containers of its Pod have not started yet"
    state: Any = find_status(pod, container).get("state") or {}
    if "running" in state:
        return ""
    if "terminated" in state:
        code = state["terminated"].get("exitCode")
        return f"its container {container} has ended (exit code {code}), so nothing can run in it"
    reason = (state.get("waiting") or {}).get("reason")
    return f"its container {container} " + (
        f"does not run ({reason})" if reason else "has not started yet"
    )


def _choose_container(pod: Object, task: TaskName, wanted: str | None) -> str:
    spec = pod["spec"]
    mains = [str(each["name"]) for each in spec["containers"]]
    inits = [str(each["name"]) for each in spec.get("initContainers") or ()]
    if wanted is None:
        annotated = (pod["metadata"].get("annotations") or {}).get(_DEFAULT_CONTAINER)
        return annotated if annotated in mains else mains[0]
    if wanted not in {*mains, *inits}:
        raise CliError(ExitCode.FAILED, explain_container(str(task), wanted, [*mains, *inits]))
    return wanted


async def _explain_missing(client: KubeClient, namespace: str, task: TaskName) -> CliError:
    """Build the error that says why a Task has no Pod."""
    framework = await get_framework(client, namespace, task.framework)
    known = map_task_indices(framework)
    absence = explain_task(task.framework, task.role, str(task.index), known)
    why = build_command("why", task.framework, "-n", namespace)
    waiting = (
        f"{task} of {task.framework} has no Pod now: it is not created yet, or the Task has ended; "
        f"`{why}` says which"
    )
    return CliError(ExitCode.FAILED, absence or waiting)

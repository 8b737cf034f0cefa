"""Containers that restart again and again, or are not ready. Pure."""

from collections.abc import Iterator
from datetime import timedelta

from cli.why.cause import Cause, Kind, Remedy
from cli.why.observation import ContainerFacts, Observation, TaskFacts, group_tasks, read_time
from cli.why.remedies import build_operation, build_template_path, change_template
from framework.api.endings import describe_container_end

# A container that has run for longer since its restart is not in a loop.
_CALM_SECONDS = 600
_BACK_OFF = "CrashLoopBackOff"
_NEVER = "Never"


def find_restarts(observation: Observation) -> Iterator[Cause]:
    """Find containers that Kubernetes restarts, so that the controller sees no failure."""
    found = []
    for task in observation.tasks:
        container = _find_restarting(observation, task)
        if container is not None:
            end = _describe_end(container)
            found.append((task, (container.name, container.is_init, end)))
    for (name, is_init, end), tasks in group_tasks(observation.tasks, found):
        task = tasks[0]
        container = next(c for c in task.list_containers() if c.name == name)
        policy = str(task.pod_spec.get("restartPolicy") or "Always")
        commands = observation.commands
        log = commands.build_framework(
            "logs", observation.name, str(task.key), "--container", name, "--previous"
        )
        remedies = [Remedy("read the log before its last restart, and correct it", (log,))]
        is_sidecar = is_init and container.spec.get("restartPolicy") == "Always"
        if policy != _NEVER and not is_sidecar:
            path = build_template_path(task, "restartPolicy")
            text = "let the controller see the end: restartPolicy Never"
            operation = build_operation("add", path, _NEVER)
            remedies.append(change_template(observation, tasks, text, operation))
        times = f"{container.restarts} time{'s' * (container.restarts != 1)}"
        yield Cause(
            Kind.RESTARTS,
            f"restarts its container {name}, which {end}",
            tasks=tuple(each.key for each in tasks),
            since=read_time(container.last.get("finishedAt")),
            facts=(f"Kubernetes restarted it {times}, because restartPolicy is {policy}",),
            log=observation.get_log(task, name),
            remedies=tuple(remedies),
        )


def find_unready(observation: Observation) -> Iterator[Cause]:
    """Find containers that run and whose probes fail."""
    found = []
    for task in observation.tasks:
        event = task.find_event("Unhealthy")
        container = next(
            (c for c in task.list_containers() if c.get_state("running") and not c.is_ready), None
        )
        is_running = task.phase == "Running" and not task.is_terminating
        if event is not None and container is not None and is_running:
            found.append((task, (container.name, event.message)))
    for (name, message), tasks in group_tasks(observation.tasks, found):
        event = tasks[0].find_event("Unhealthy")
        command = observation.commands.build_framework(
            "logs", observation.name, str(tasks[0].key), "--container", name
        )
        yield Cause(
            Kind.READINESS,
            f"runs, and its container {name} is not ready",
            tasks=tuple(each.key for each in tasks),
            since=event.since if event else None,
            quote=message,
            log=observation.get_log(tasks[0], name),
            remedies=(Remedy("read its log; correct the program or the probe", (command,)),),
        )


def _find_restarting(observation: Observation, task: TaskFacts) -> ContainerFacts | None:
    if task.is_terminating or task.phase not in {"Pending", "Running"}:
        return None
    limit = timedelta(seconds=_CALM_SECONDS)
    for container in task.list_containers():
        if not container.last or container.get_state("terminated"):
            continue
        ended = read_time(container.last.get("finishedAt"))
        is_waiting = container.get_state("waiting").get("reason") == _BACK_OFF
        if is_waiting or (ended is not None and observation.now - ended < limit):
            return container
    return None


def _describe_end(container: ContainerFacts) -> str:
    code, signal = container.last.get("exitCode"), container.last.get("signal")
    return describe_container_end(
        code if isinstance(code, int) else 0,
        signal if isinstance(signal, int) else 0,
        str(container.last.get("reason") or ""),
    )

"""Nodes that are lost, and Pods whose deletion does not end. Pure."""

from collections.abc import Iterator, Sequence
from datetime import timedelta

from cli.why.cause import Cause, Kind, Remedy
from cli.why.observation import (
    Observation,
    TaskFacts,
    find_condition,
    get_mapping,
    group_tasks,
    read_time,
)
from framework.kube.resources import Object

# A Pod is gone within seconds after its grace period.
_STUCK_SECONDS = 30


def find_lost_node(observation: Observation) -> Iterator[Cause]:
    """Find Pods on nodes that are not ready, or do not exist."""
    nodes = observation.nodes
    if nodes is None:
        return
    lost = {
        name
        for name in {task.node for task in observation.tasks if task.node}
        if name in nodes and not _is_ready(nodes[name])
    }
    found = [
        (task, task.node)
        for task in observation.tasks
        if task.node in lost and task.phase in {"Pending", "Running"}
    ]
    for node, tasks in group_tasks(observation.tasks, found):
        condition = find_condition(get_mapping(nodes[node], "status"), "Ready")
        commands = observation.commands
        yield Cause(
            Kind.NODE,
            f"is on the node {node}, which is not ready",
            tasks=tuple(task.key for task in tasks),
            since=read_time(condition.get("lastTransitionTime")),
            quote=str(condition.get("message") or ""),
            remedies=(
                Remedy(
                    "start the node again (an administrator)",
                    (commands.build_global_kubectl("describe", "node", node),),
                ),
                Remedy(
                    "if the machine is gone, delete the node, so that its Pods are deleted "
                    "(an administrator)",
                    (commands.build_global_kubectl("delete", "node", node),),
                ),
            ),
        )


def find_stuck_pod(observation: Observation) -> Iterator[Cause]:
    """Find Pods whose deletion does not end."""
    found: list[tuple[TaskFacts, tuple[str, ...]]] = []
    for task in observation.tasks:
        metadata = get_mapping(task.pod or {}, "metadata")
        deleted = read_time(metadata.get("deletionTimestamp"))
        if deleted is None:
            continue
        names = metadata.get("finalizers")
        finalizers = tuple(map(str, names)) if isinstance(names, list) else ()
        is_late = observation.now - deleted > timedelta(seconds=_STUCK_SECONDS)
        has_ended = task.phase in {"Succeeded", "Failed"}
        if (finalizers and (has_ended or is_late)) or is_late:
            found.append((task, finalizers))
    for finalizers, tasks in group_tasks(observation.tasks, found):
        metadata = get_mapping(tasks[0].pod or {}, "metadata")
        names = ", ".join(finalizers)
        text = (
            f"is being deleted, and the finalizer {names} of its Pod holds the deletion"
            if finalizers
            else f"is being deleted, and its node {tasks[0].node} does not end the Pod"
        )
        yield Cause(
            Kind.POD_DELETION,
            text,
            tasks=tuple(task.key for task in tasks),
            since=read_time(metadata.get("deletionTimestamp")),
            remedies=(_end_deletion(observation, tasks, finalizers),),
        )


def _end_deletion(
    observation: Observation, tasks: Sequence[TaskFacts], finalizers: Sequence[str]
) -> Remedy:
    commands = observation.commands
    names = [task.pod_name for task in tasks[:10]]
    if not finalizers:
        force = commands.build_kubectl("delete", "pod", *names, "--force", "--grace-period=0")
        return Remedy("if the node is gone, delete the Pod at once", (force,))
    patch = '[{"op":"remove","path":"/metadata/finalizers"}]'
    removals = tuple(
        commands.build_kubectl("patch", "pod", name, "--type=json", "-p", patch) for name in names
    )
    return Remedy("start the program that removes this finalizer, or remove it", removals)


def _is_ready(node: Object) -> bool:
    condition = find_condition(get_mapping(node, "status"), "Ready")
    # A node without the condition has just been added.
    return bool(condition.get("status", "True") == "True")

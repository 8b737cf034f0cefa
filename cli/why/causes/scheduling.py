"""Pods that no node can take. Pure."""

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from cli.why.cause import Cause, Kind, Remedy
from cli.why.observation import (
    Observation,
    TaskFacts,
    get_mapping,
    group_tasks,
    list_mappings,
    read_time,
)
from cli.why.remedies import (
    build_operation,
    build_template_path,
    change_spec,
    change_template,
    name_pods,
)
from cli.why.shortages import Lack, Shortage, parse_shortages
from cli.why.taints import find_taint, is_unfit
from framework.api import constants

FAILED_SCHEDULING = ("FailedScheduling", "Unschedulable")
"""Reasons of the Events with which schedulers say why a Pod has no node: Volcano has its own."""
_WORDS = {
    Lack.PODS: "too many Pods",
    Lack.CORDONED: "cordoned",
    Lack.SELECTOR: "its node selector or node affinity does not match",
    Lack.PORT: "no free host port for it",
    Lack.ANTI_AFFINITY: "its affinity to other Pods does not match",
    Lack.SPREAD: "its topology spread constraints do not match",
    Lack.VOLUME_NODE: "its volume is on another node",
    Lack.CLAIM_UNBOUND: "its PersistentVolumeClaim is not bound to a volume",
    Lack.NO_NODES: "the cluster has no nodes",
}
_SHOWN = 5
_SIMPLE_QUANTITY = re.compile(r"^\d+$")


def find_unschedulable(observation: Observation) -> Iterator[Cause]:
    """Find Pods that the scheduler cannot place, and name the shortage."""
    found = []
    for task in observation.tasks:
        condition = task.find_condition("PodScheduled")
        event = task.find_event(*FAILED_SCHEDULING)
        is_refused = condition.get("status") == "False" or (not condition and event is not None)
        if not is_unscheduled(task) or not is_refused:
            continue
        message = str(condition.get("message") or "") or (event.message if event else "")
        found.append((task, message))
    for message, tasks in group_tasks(observation.tasks, found):
        shortages = _name_taints(observation, tasks[0], parse_shortages(message))
        main = _choose(shortages)
        condition = tasks[0].find_condition("PodScheduled")
        yield Cause(
            Kind.VOLUME if main.lack in _CLAIMS else Kind.UNSCHEDULABLE,
            f"cannot be scheduled: {_describe_all(shortages, tasks[0])}",
            tasks=tuple(task.key for task in tasks),
            since=read_time(condition.get("lastTransitionTime")) or tasks[0].created_at,
            quote=message,
            facts=(
                *_describe_avoided(tasks),
                *_list_facts(observation, main, tasks[0]),
            ),
            remedies=(
                *_stop_avoiding(observation, tasks),
                *_list_remedies(observation, main, tasks),
            ),
        )


def find_held(observation: Observation) -> Iterator[Cause]:
    """Find Pods with scheduling gates."""
    found = [(task, gates) for task in observation.tasks if (gates := list_gates(task))]
    for gates, tasks in group_tasks(observation.tasks, found):
        patch = json.dumps([build_operation("remove", "/spec/schedulingGates")])
        commands = tuple(
            observation.commands.build_kubectl("patch", "pod", name, "--type=json", "-p", patch)
            for name in (name_pods(observation, tasks) or ())[:10]
        )
        names = ", ".join(gates)
        yield Cause(
            Kind.UNSCHEDULABLE,
            f"is held by the scheduling gate{'s' * (len(gates) > 1)} {names}",
            tasks=tuple(task.key for task in tasks),
            since=tasks[0].created_at,
            remedies=(Remedy("start the program that removes this gate, or remove it", commands),),
        )


_CLAIMS = frozenset({Lack.CLAIM_MISSING, Lack.CLAIM_UNBOUND})


def is_unscheduled(task: TaskFacts) -> bool:
    """Return whether a Pod waits for its scheduler."""
    is_waiting = task.phase == "Pending" and not task.node and not task.is_terminating
    return is_waiting and not list_gates(task)


def list_gates(task: TaskFacts) -> tuple[str, ...]:
    """List the scheduling gates of a Pod that has no node."""
    gates = list_mappings(task.pod_spec.get("schedulingGates"))
    return tuple(str(gate.get("name")) for gate in gates) if not task.node else ()


def _choose(shortages: Sequence[Shortage]) -> Shortage:
    """Choose the shortage to correct: not the taint of a control plane if there is another."""
    named = [s for s in shortages if "node-role.kubernetes.io/" not in s.name]
    return (named or list(shortages) or [Shortage(Lack.OTHER)])[0]


def _describe_all(shortages: Sequence[Shortage], task: TaskFacts) -> str:
    texts = [_describe(shortage, task) for shortage in shortages]
    return "; ".join(texts) or "the scheduler does not say why"


def _describe(shortage: Shortage, task: TaskFacts) -> str:
    nodes = f"{shortage.nodes} node{'s' * (shortage.nodes != 1)}"
    match shortage.lack:
        case Lack.RESOURCE:
            amount = _sum_requests(task, shortage.name)
            asked = f", of which it asks for {amount}" if amount else ""
            return f"{nodes} lack{'s' * (shortage.nodes == 1)} free {shortage.name}{asked}"
        case Lack.TAINT:
            taint = f"the taint {shortage.name.rstrip(': ')}" if shortage.name else "a taint"
            return f"{nodes}: {taint}, which it does not tolerate"
        case Lack.CLAIM_MISSING:
            return f"its PersistentVolumeClaim {shortage.name} does not exist"
        case Lack.CLAIM_UNBOUND | Lack.NO_NODES:
            return _WORDS[shortage.lack]
        case Lack.OTHER:
            return f"{nodes}: {shortage.text}" if shortage.nodes else shortage.text
        case lack:
            return f"{nodes}: {_WORDS[lack]}"


def _list_avoided(tasks: Sequence[TaskFacts]) -> list[str]:
    names = (name for task in tasks for name in task.status.attempt_status.avoided_nodes)
    return list(dict.fromkeys(names))


def _describe_avoided(tasks: Sequence[TaskFacts]) -> Iterator[str]:
    """Describe the nodes that the Tasks avoid, which the scheduler only counts."""
    names = _list_avoided(tasks)
    if names:
        shown = ", ".join(names[:_SHOWN])
        more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
        field = f"{constants.RECOVERY_FIELD}.{constants.AVOID_NODES_FIELD}"
        yield f"avoided, because of earlier failures there ({field}): {shown}{more}"


def _stop_avoiding(observation: Observation, tasks: Sequence[TaskFacts]) -> Iterator[Remedy]:
    index = tasks[0].role_index
    if index is None or not _list_avoided(tasks):
        return
    text = "repair the nodes that it avoids, or let the next Pod use them"
    recovery = get_mapping(observation.roles[index], constants.RECOVERY_FIELD)
    if recovery.get(constants.AVOID_NODES_FIELD) is None:
        pods = name_pods(observation, tasks) or [task.pod_name for task in tasks[:_SHOWN]]
        yield Remedy(text, (observation.commands.build_kubectl("delete", "pod", *pods),))
        return
    field = f"/spec/taskRoles/{index}/{constants.RECOVERY_FIELD}/{constants.AVOID_NODES_FIELD}"
    yield change_template(observation, tasks, text, build_operation("remove", field))


def _list_facts(observation: Observation, main: Shortage, task: TaskFacts) -> Iterator[str]:
    nodes = observation.nodes or {}
    if main.lack is Lack.RESOURCE and nodes:
        amounts = [(_read_allocatable(node, main.name), name) for name, node in nodes.items()]
        numbers = [(int(a), name) for a, name in amounts if _SIMPLE_QUANTITY.match(a)]
        if numbers:
            most, name = max(numbers)
            yield f"the node with the most {main.name} is {name}, with {most}"
    elif main.lack is Lack.CORDONED:
        names = _list_cordoned(observation)
        if names:
            yield f"cordoned: {', '.join(names)}"
    elif main.lack is Lack.SELECTOR:
        selector = get_mapping(task.pod_spec, "nodeSelector")
        if selector:
            yield f"its nodeSelector is {_join(selector)}"


def _list_remedies(
    observation: Observation, main: Shortage, tasks: Sequence[TaskFacts]
) -> Iterator[Remedy]:
    match main.lack:
        case Lack.RESOURCE:
            yield from _lower_request(observation, main, tasks)
        case Lack.CORDONED:
            names = _list_cordoned(observation) or ["NODE"]
            command = observation.commands.build_global_kubectl("uncordon", *names)
            yield Remedy("let the node take Pods again (an administrator)", (command,))
        case Lack.SELECTOR:
            yield from _match_nodes(observation, tasks)
        case Lack.TAINT:
            yield _tolerate(observation, main.name, tasks)
        case Lack.CLAIM_MISSING:
            yield create_claim(observation, main.name)
        case Lack.CLAIM_UNBOUND:
            command = observation.commands.build_kubectl("describe", "persistentvolumeclaims")
            yield Remedy(
                "look at the claim: its storage class must be able to serve it", (command,)
            )
        case Lack.PODS | Lack.PORT | Lack.ANTI_AFFINITY | Lack.SPREAD | Lack.NO_NODES:
            yield Remedy("add a node, or wait until one is free")
        case _:
            command = observation.commands.build_kubectl("describe", "pod", tasks[0].pod_name)
            yield Remedy("look at the Pod", (command,))
    yield from _run_fewer(observation, tasks)


def _name_taints(
    observation: Observation, task: TaskFacts, shortages: Sequence[Shortage]
) -> tuple[Shortage, ...]:
    """Find the name of the taint that the scheduler did not name."""
    return tuple(
        replace(each, name=find_taint(observation.nodes or {}, task.pod_spec))
        if each.lack is Lack.TAINT and not each.name
        else each
        for each in shortages
    )


def _tolerate(observation: Observation, taint: str, tasks: Sequence[TaskFacts]) -> Remedy:
    if not taint or is_unfit(taint):
        command = observation.commands.build_global_kubectl("describe", "nodes")
        what = "repair the nodes" if taint else "look at the taints of the nodes"
        return Remedy(f"{what} (an administrator)", (command,))
    path = build_template_path(tasks[0], "tolerations")
    toleration = {"key": taint.partition(":")[0].strip(), "operator": "Exists"}
    has_some = bool(observation.get_template(tasks[0]).get("tolerations"))
    operation = (
        build_operation("add", f"{path}/-", toleration)
        if has_some
        else build_operation("add", path, [toleration])
    )
    return change_template(observation, tasks, "tolerate the taint", operation)


def create_claim(observation: Observation, name: str) -> Remedy:
    """Build the remedy that creates a PersistentVolumeClaim."""
    spec = {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "10Gi"}}}
    body = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name},
        "spec": spec,
    }
    command = observation.commands.build_application(body)
    return Remedy("create it, with the size and access mode that you need", (command,))


def _lower_request(
    observation: Observation, main: Shortage, tasks: Sequence[TaskFacts]
) -> Iterator[Remedy]:
    if observation.is_local and main.name == constants.GPU_RESOURCE:
        needed = sum(_sum_requests(task, main.name) for task in observation.tasks) or 1
        yield Remedy(
            f"start the local cluster again with GPUs (or use `run --local --gpus {needed}`), and "
            "run the file again",
            observation.commands.build_local_restart(needed),
        )
    operations = []
    template = observation.get_template(tasks[0])
    fitting = max(
        (int(a) for node in (observation.nodes or {}).values()
         if _SIMPLE_QUANTITY.match(a := _read_allocatable(node, main.name))),
        default=0,
    )  # fmt: skip
    value = str(fitting) if fitting else "QUANTITY"
    for kind in ("initContainers", "containers"):
        for index, container in enumerate(list_mappings(template.get(kind))):
            for field in ("limits", "requests"):
                if main.name in get_mapping(get_mapping(container, "resources"), field):
                    name = main.name.replace("~", "~0").replace("/", "~1")
                    path = build_template_path(tasks[0], kind, str(index), "resources", field, name)
                    is_none = observation.nodes and not fitting
                    operations.append(
                        build_operation("remove", path)
                        if is_none
                        else build_operation("replace", path, value)
                    )
    if operations:
        text = f"ask for less {main.name}"
        yield change_template(observation, tasks, text, *operations)


def _match_nodes(observation: Observation, tasks: Sequence[TaskFacts]) -> Iterator[Remedy]:
    template = observation.get_template(tasks[0])
    selector = get_mapping(template, "nodeSelector")
    if not selector and not template.get("affinity") and _list_avoided(tasks):
        return
    if not selector:
        text = "change the node affinity of its template"
        yield change_template(observation, tasks, text)
        return
    labels = [f"{key}={value}" for key, value in selector.items()]
    node = next(iter(observation.nodes or {}), "NODE")
    command = observation.commands.build_global_kubectl("label", "node", node, *labels)
    yield Remedy("label a node that the selector is to choose (an administrator)", (command,))
    removal = build_operation("remove", build_template_path(tasks[0], "nodeSelector"))
    yield change_template(observation, tasks, "remove the nodeSelector", removal)


def _run_fewer(observation: Observation, tasks: Sequence[TaskFacts]) -> Iterator[Remedy]:
    role = [task for task in observation.tasks if task.key.role == tasks[0].key.role]
    fitting = len(role) - len(tasks)
    if fitting > 0 and tasks[0].role_index is not None:
        path = f"/spec/taskRoles/{tasks[0].role_index}/taskNumber"
        text = f"run with the {fitting} Task{'s' * (fitting != 1)} of {tasks[0].key.role} that fit"
        yield change_spec(observation, text, build_operation("replace", path, fitting))


def _list_cordoned(observation: Observation) -> list[str]:
    nodes = observation.nodes or {}
    return [name for name, node in nodes.items() if get_mapping(node, "spec").get("unschedulable")][
        :10
    ]


def _read_allocatable(node: Any, resource: str) -> str:
    return str(get_mapping(get_mapping(node, "status"), "allocatable").get(resource) or "")


def _sum_requests(task: TaskFacts, resource: str) -> int:
    """Sum up a resource that is counted in whole numbers; 0 if it is not."""
    total = 0
    for container in list_mappings(task.pod_spec.get("containers")):
        resources = get_mapping(container, "resources")
        amount = get_mapping(resources, "requests").get(resource) or get_mapping(
            resources, "limits"
        ).get(resource)
        if amount is not None and _SIMPLE_QUANTITY.match(str(amount)):
            total += int(amount)
    return total


def _join(pairs: Any) -> str:
    return ", ".join(f"{key}={value}" for key, value in pairs.items())

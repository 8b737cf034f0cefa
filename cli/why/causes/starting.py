"""Pods that have a node and do not start: volume, image, configuration, sandbox. Pure."""

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime

from cli.texts.sshkeys import FROM_FILES, MAKE_FILES
from cli.why.cause import Cause, Kind, Remedy
from cli.why.causes.scheduling import create_claim
from cli.why.kubeletmessages import (
    IMAGE_WAITS,
    ImageFault,
    MissingObject,
    classify_image_fault,
    find_missing_object,
    find_volume,
    is_root_refused,
    shorten_mount,
)
from cli.why.observation import (
    ContainerFacts,
    EventFacts,
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
    name_pods,
    replace_framework,
)
from framework.kinds.trainingjob.defaults import SSH_VOLUME

_CONFIG_ERROR = "CreateContainerConfigError"
_CONFIG_WAITS = frozenset(
    {
        _CONFIG_ERROR,
        "CreateContainerError",
        "RunContainerError",
        "PreCreateHookError",
        "PreStartHookError",
        "PostStartHookError",
    }
)
_MOUNT_EVENTS = ("FailedMount", "FailedAttachVolume", "FailedMapVolume")
_SANDBOX_EVENTS = ("FailedCreatePodSandBox", "FailedCreatePodContainer", "NetworkNotReady")
_IMAGE_EVENTS = ("Failed",)
# A large image takes minutes; the Event "Pulling" is then the newest.
_SLOW_SECONDS = 120


def find_image(observation: Observation) -> Iterator[Cause]:
    """Find images that cannot be pulled.

    The kubelet does not always give the reason, and Events are read for a few Pods only. So the
    reason of one Task counts for the other Tasks of its role.
    """
    found = []
    faults: dict[tuple[str, str, str], ImageFault] = {}
    explained = set()
    for task, container, reason in _walk_waiting(observation):
        if reason in IMAGE_WAITS:
            fault = classify_image_fault(reason, _collect(task, container, *_IMAGE_EVENTS))
            found.append((task, (container.name, container.image, container.path)))
            if fault is not ImageFault.OTHER:
                explained.add(task.key)
                faults.setdefault((task.key.role, container.name, container.image), fault)
    for (name, image, path), tasks in group_tasks(observation.tasks, found):
        fault = faults.get((tasks[0].key.role, name, image), ImageFault.OTHER)
        first = next((task for task in tasks if task.key in explained), tasks[0])
        yield Cause(
            Kind.IMAGE,
            f"cannot pull the image {image} of its container {name}{f': {fault}' if fault else ''}",
            tasks=tuple(task.key for task in tasks),
            since=_find_since(first, *_IMAGE_EVENTS),
            quote=_quote(first, name, *_IMAGE_EVENTS),
            remedies=tuple(_change_image(observation, tasks, name, path, fault)),
        )


def find_configuration(observation: Observation) -> Iterator[Cause]:
    """Find containers that cannot be created."""
    found = []
    for task, container, reason in _walk_waiting(observation):
        if reason in _CONFIG_WAITS:
            message = str(container.get_state("waiting").get("message") or "")
            found.append((task, (container.name, container.path, reason, message)))
    for (name, path, reason, message), tasks in group_tasks(observation.tasks, found):
        missing = find_missing_object(message) if reason == _CONFIG_ERROR else None
        what = missing.describe() if missing else f"{reason}: {message}".rstrip(": ")
        yield Cause(
            Kind.CONFIG,
            f"cannot create its container {name}: {what}",
            tasks=tuple(task.key for task in tasks),
            since=_find_since(tasks[0], "Failed"),
            quote=message,
            remedies=tuple(
                _supply(observation, tasks, path, missing, is_root=_is_root(reason, message))
            ),
        )


def find_volume_faults(observation: Observation) -> Iterator[Cause]:
    """Find volumes that cannot be mounted."""
    found = _list_unstarted(observation, _MOUNT_EVENTS)
    for message, tasks in group_tasks(observation.tasks, found):
        volume = find_volume(message)
        missing = find_missing_object(message)
        if missing is not None and not missing.name:
            missing = MissingObject(missing.kind, _find_source(tasks[0], volume), missing.key)
        what = missing.describe() if missing else shorten_mount(message)
        named = f" {volume}" if volume else ""
        event = tasks[0].find_event(*_MOUNT_EVENTS)
        yield Cause(
            Kind.VOLUME,
            f"cannot mount its volume{named}: {what}",
            tasks=tuple(task.key for task in tasks),
            since=event.since if event else None,
            quote=message,
            remedies=tuple(_mend_volume(observation, tasks, volume, missing)),
        )


def find_start_faults(observation: Observation) -> Iterator[Cause]:
    """Find Pods whose sandbox cannot be created, and Pods that start slowly."""
    found = _list_unstarted(observation, _SANDBOX_EVENTS)
    for message, tasks in group_tasks(observation.tasks, found):
        event = tasks[0].find_event(*_SANDBOX_EVENTS)
        yield Cause(
            Kind.POD_START,
            f"cannot be started by its node {tasks[0].node}",
            tasks=tuple(task.key for task in tasks),
            since=event.since if event else None,
            quote=message,
            remedies=(_look_at(observation, tasks[0], "look at the node: its runtime or network"),),
        )
    named = {task.key for task, _ in found}
    slow = [
        (task, task.node)
        for task in _list_created(observation)
        if task.key not in named and _is_slow(observation, task)
    ]
    for node, tasks in group_tasks(observation.tasks, slow):
        yield Cause(
            Kind.POD_START,
            f"has started no container on its node {node}, and no Event says why",
            tasks=tuple(task.key for task in tasks),
            since=tasks[0].created_at,
            remedies=(_look_at(observation, tasks[0], "look at the Pod and its node"),),
        )


def _walk_waiting(
    observation: Observation,
) -> Iterator[tuple[TaskFacts, ContainerFacts, str]]:
    """Yield the first container of each Pod that waits for its image or its configuration."""
    for task in _list_created(observation):
        for container in task.list_containers():
            reason = str(container.get_state("waiting").get("reason") or "")
            if reason in IMAGE_WAITS or reason in _CONFIG_WAITS:
                yield task, container, reason
                break


def _list_created(observation: Observation) -> list[TaskFacts]:
    return [t for t in observation.tasks if t.phase in {"Pending", "Running"} and t.node]


def _has_started(task: TaskFacts) -> bool:
    return any(c.get_state("running") or c.get_state("terminated") for c in task.list_containers())


def _is_slow(observation: Observation, task: TaskFacts) -> bool:
    created = task.created_at
    if task.phase != "Pending" or created is None or _has_started(task) or task.is_terminating:
        return False
    if any(reason in IMAGE_WAITS | _CONFIG_WAITS for reason in _list_waits(task)):
        return False
    is_explained = task.find_event("Pulling", *_MOUNT_EVENTS) is not None
    return not is_explained and (observation.now - created).total_seconds() > _SLOW_SECONDS


def _list_waits(task: TaskFacts) -> list[str]:
    return [str(c.get_state("waiting").get("reason") or "") for c in task.list_containers()]


def _collect(task: TaskFacts, container: ContainerFacts, *reasons: str) -> str:
    """Collect the messages about the start of a container: its state has only the reason."""
    waiting = container.get_state("waiting")
    event = _find_detailed_event(task, *reasons)
    said = (waiting.get("reason"), waiting.get("message"), event.message if event else "")
    return " ".join(str(text) for text in said if text)


def _list_unstarted(
    observation: Observation, reasons: Iterable[str]
) -> list[tuple[TaskFacts, str]]:
    """List the Tasks that have not started and have an Event of these reasons, with its message."""
    return [
        (task, event.message)
        for task in _list_created(observation)
        if (event := task.find_event(*reasons)) is not None and not _has_started(task)
    ]


def _find_detailed_event(task: TaskFacts, *reasons: str) -> EventFacts | None:
    """Find the Event with the details: others repeat the reason alone."""
    events = [e for e in task.events if e.reason in reasons and e.is_warning]
    return max(events, key=lambda event: len(event.message), default=None)


def _quote(task: TaskFacts, name: str, *reasons: str) -> str:
    event = _find_detailed_event(task, *reasons)
    for container in task.list_containers():
        if container.name == name:
            message = str(container.get_state("waiting").get("message") or "")
            reported = event.message if event else ""
            return max(reported, message, key=len)
    return event.message if event else ""


def _find_since(task: TaskFacts, *reasons: str) -> datetime | None:
    times = [e.since for e in task.events if e.reason in reasons and e.since]
    return min(times, default=task.created_at)


def _change_image(
    observation: Observation, tasks: Sequence[TaskFacts], name: str, path: str, fault: ImageFault
) -> Iterator[Remedy]:
    commands = observation.commands
    policy = build_template_path(tasks[0], path, "imagePullPolicy")
    if fault is ImageFault.NEVER:
        operation = build_operation("add", policy, "IfNotPresent")
        yield change_template(observation, tasks, "let the node pull it", operation)
    if fault is ImageFault.DENIED:
        arguments = ("docker-registry", "registry-credentials", "--docker-server=REGISTRY")
        account = ("--docker-username=USER", "--docker-password=PASSWORD")
        create = commands.build_creation("secret", *arguments, *account)
        secrets = build_template_path(tasks[0], "imagePullSecrets")
        operation = build_operation("add", secrets, [{"name": "registry-credentials"}])
        change = change_template(observation, tasks, "", operation)
        yield Remedy("give it credentials of the registry", (create, *change.commands))
    if fault is ImageFault.UNREACHABLE:
        yield _look_at(observation, tasks[0], "let the node reach the registry, or use another")
    pods = name_pods(observation, tasks)
    image = build_operation("replace", build_template_path(tasks[0], path, "image"), "IMAGE")
    if observation.is_attempt_over or commands.job is not None or not pods:
        yield change_template(observation, tasks, "name an image that exists", image)
        return
    selected = pods if pods[0] == "-l" else [f"pod/{name}" for name in pods]
    kind = ["pod"] if pods[0] == "-l" else []
    set_image = commands.build_kubectl("set", "image", *kind, *selected, f"{name}=IMAGE")
    text = "name an image that exists, in the template and in the Pods that wait"
    yield Remedy(text, (commands.build_patch([image]), set_image))


def _supply(
    observation: Observation,
    tasks: Sequence[TaskFacts],
    path: str,
    missing: MissingObject | None,
    *,
    is_root: bool,
) -> Iterator[Remedy]:
    if missing is not None:
        yield _create_missing(observation, missing)
    elif is_root:
        user = build_template_path(tasks[0], path, "securityContext")
        container = next((c for c in tasks[0].list_containers() if c.path == path), None)
        context = dict(get_mapping(container.spec if container else {}, "securityContext"))
        operation = build_operation("add", user, {**context, "runAsUser": 1000})
        yield change_template(observation, tasks, "let it run as another user", operation)
    else:
        text = "correct what the message names in the file, and replace the Framework"
        yield replace_framework(observation, text, tasks[0])


def _create_missing(observation: Observation, missing: MissingObject) -> Remedy:
    commands = observation.commands
    name = missing.name or "NAME"
    if missing.key:
        field = "stringData" if missing.kind == "secret" else "data"
        command = commands.build_merge(missing.kind, name, {field: {missing.key: "VALUE"}})
        return Remedy("add the key; the kubelet tries again by itself", (command,))
    words = ("secret", "generic") if missing.kind == "secret" else ("configmap",)
    command = commands.build_creation(*words, name, "--from-literal=KEY=VALUE")
    return Remedy("create it; the kubelet tries again by itself", (command,))


def _create_ssh_key(observation: Observation, missing: MissingObject) -> Remedy:
    """Create the Secret with the ssh key of a TrainingJob."""
    words = ("secret", "generic", missing.name or "NAME", *FROM_FILES)
    commands = (*MAKE_FILES, observation.commands.build_creation(*words))
    return Remedy(
        "create it with a new ssh key of the TrainingJob; the kubelet tries again by itself",
        commands,
    )


def _mend_volume(
    observation: Observation,
    tasks: Sequence[TaskFacts],
    volume: str,
    missing: MissingObject | None,
) -> Iterator[Remedy]:
    if missing is not None:
        is_ssh_key = volume == SSH_VOLUME and not missing.key
        create = _create_ssh_key if is_ssh_key else _create_missing
        yield create(observation, missing)
        return
    claim = _find_claim(tasks[0], volume)
    if claim and observation.claims.get(claim, {}) is None:
        yield create_claim(observation, claim)
        return
    yield _look_at(observation, tasks[0], "correct the volume or its storage")


def _find_source(task: TaskFacts, volume: str) -> str:
    """Find the name of the ConfigMap or Secret of a volume."""
    for entry in list_mappings(task.pod_spec.get("volumes")):
        if entry.get("name") == volume:
            secret = get_mapping(entry, "secret").get("secretName")
            return str(secret or get_mapping(entry, "configMap").get("name") or "")
    return ""


def _find_claim(task: TaskFacts, volume: str) -> str:
    for entry in list_mappings(task.pod_spec.get("volumes")):
        if entry.get("name") == volume:
            return str(get_mapping(entry, "persistentVolumeClaim").get("claimName") or "")
    return ""


def _is_root(reason: str, message: str) -> bool:
    return reason == _CONFIG_ERROR and is_root_refused(message)


def _look_at(observation: Observation, task: TaskFacts, text: str) -> Remedy:
    command = observation.commands.build_kubectl("describe", "pod", task.pod_name)
    return Remedy(text, (command,))

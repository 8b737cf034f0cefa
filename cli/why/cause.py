"""A cause: what holds a Framework or made it fail, since when, and what helps. Pure."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from framework.api.naming import TaskKey


class Kind(StrEnum):
    """The kinds of causes. The order is that of depth: an earlier kind can cause a later one."""

    UNREADABLE = "Unreadable"
    """The controller cannot read the Framework, or cannot write its status."""
    NO_CONTROLLER = "NoController"
    """No controller has seen the Framework, or its last change."""
    DELETION = "Deletion"
    """The Framework is being deleted, and a finalizer or its Pods hold the deletion."""
    STOPPED = "Stopped"
    """A user has stopped it; it cannot be started again."""
    NOT_STARTED = "NotStarted"
    """executionType is Create."""
    SUSPENDED = "Suspended"
    """spec.suspend is true."""
    DEADLINE = "Deadline"
    """It was active for longer than activeDeadlineSeconds."""
    LIMIT = "Limit"
    """A limit of the controller holds it."""
    INVALID_SPEC = "InvalidSpec"
    """The spec contradicts itself."""
    NO_TASKS = "NoTasks"
    """It asks for no Tasks."""
    NAME_TAKEN = "NameTaken"
    """An object of another owner has the name of one that must be created."""
    QUOTA = "Quota"
    """A quota of the namespace is used up."""
    REFUSED = "Refused"
    """The API server refuses to create a Pod, ConfigMap or Secret."""
    NODE = "Node"
    """The node of a Pod is lost, or the Pod was evicted from it."""
    UNSCHEDULABLE = "Unschedulable"
    """No node takes the Pod."""
    VOLUME = "Volume"
    """A volume cannot be mounted."""
    IMAGE = "Image"
    """An image cannot be pulled."""
    CONFIG = "Config"
    """A container cannot be created, for example because a ConfigMap is missing."""
    POD_START = "PodStart"
    """The Pod cannot be started for another reason, or takes long."""
    OUT_OF_MEMORY = "OutOfMemory"
    """A container was killed because of its memory."""
    AGENT = "Agent"
    """An agent of the Pod ended with an error of its own."""
    HANG = "Hang"
    """An agent killed a process, because the gang stood still and waited for it."""
    CRASH = "Crash"
    """A container ended with an error."""
    RESTARTS = "Restarts"
    """Kubernetes restarts a container again and again."""
    START = "Start"
    """The Pods of a gang run, and its processes wait for one another at the start barrier."""
    EPOCHS = "Epochs"
    """Processes fail and restart in their Pods, or may not restart any more."""
    POD_LOST = "PodLost"
    """A Pod was deleted by another client, or with its node."""
    API_SERVER = "APIServer"
    """The barrier cannot read its gang."""
    REQUIREMENT = "Requirement"
    """The gang is complete, and a barrier waits for what BARRIER_REQUIRE names."""
    READINESS = "Readiness"
    """The containers of a Task run, and one is not ready."""
    LEAVING = "Leaving"
    """Tasks leave before their nodes go."""
    DRAIN = "Drain"
    """Tasks that leave wait for the acknowledgements of agents."""
    POD_DELETION = "PodDeletion"
    """A Pod is being deleted and does not go."""
    POLICY = "Policy"
    """No number of Tasks can end the attempt as the completion policy says."""
    GANG = "Gang"
    """Barriers wait for Tasks, and nothing says why these are missing."""
    PROGRESS = "Progress"
    """The gang runs, and the progress that it is to report is not there."""


@dataclass(frozen=True, slots=True)
class Remedy:
    """A change that helps, and the commands that make it.

    Words in capitals in a command stand for a value that only the user knows.
    """

    text: str
    commands: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Cause:
    """One cause."""

    kind: Kind
    """Its kind, and so its depth."""
    text: str
    """The cause as a sentence without its subject: "cannot pull its image x"."""
    tasks: tuple[TaskKey, ...] = ()
    """The Tasks it is about; none if it is about the Framework."""
    since: datetime | None = None
    """When it began; None if it is not known."""
    quote: str = ""
    """The message of the server, scheduler or kubelet, unchanged; "" if there is none."""
    facts: tuple[str, ...] = ()
    """Further facts, a sentence each."""
    log: tuple[str, ...] = ()
    """The last lines of the container."""
    remedies: tuple[Remedy, ...] = ()
    """Changes that help, the best first."""

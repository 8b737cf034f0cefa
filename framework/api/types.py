"""The types of a Framework: frozen, so a decision can share what it does not change.

Called by everyone who reads or decides a Framework. Wire names live in ``codec``. Field meanings
that are not ours are those of microsoft/frameworkcontroller ``types.go``. Every type keeps the
wire fields it does not know in ``extra`` and writes them back.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, TypeAlias

from framework.api.states import FrameworkState, TaskState

Extra: TypeAlias = Mapping[str, Any]


class ExecutionType(StrEnum):
    """What the user wants now; Create -> Start -> Stop or Create -> Stop."""

    CREATE = "Create"
    START = "Start"
    STOP = "Stop"


class CompletedPodPolicy(StrEnum):
    """Ours: what becomes of a Pod whose Task is finally Completed."""

    DELETE = "Delete"
    RETAIN = "Retain"


@dataclass(frozen=True, slots=True)
class ObjectMeta:
    """The metadata the model reads; all other keys stay in ``extra``."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    creation_time: datetime | None = None
    deletion_time: datetime | None = None
    extra: Extra = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RetryPolicySpec:
    """When to retry. ``max_retry_count``: -1 every failure, -2 every completion."""

    fancy_retry_policy: bool = False
    max_retry_count: int = 0
    extra: Extra = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class CompletionPolicySpec:
    """Counts of Tasks that complete the attempt; below 1 is inactive."""

    min_failed_task_count: int = 0
    min_succeeded_task_count: int = 0
    extra: Extra = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class DrainSpec:
    """Ours: how long agents may take to let a scaled-down Task go, in seconds."""

    timeout_seconds: int = 0
    extra: Extra = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TaskSpec:
    """What every Task of a role is. ``pod`` is the template, an untouched dict."""

    retry_policy: RetryPolicySpec = field(default_factory=RetryPolicySpec)
    pod_graceful_deletion_timeout_seconds: int | None = None
    pod: Mapping[str, Any] = field(default_factory=dict)
    extra: Extra = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TaskRoleSpec:
    """A role: ``task_number`` Tasks of one kind, indexes [0, task_number).

    Ours: ``absent_task_indices`` wanted gaps; ``min_member_count`` quorum with which the gang may
    start, None = all; ``drain`` None = no drain.
    """

    name: str = ""
    task_number: int = 0
    completion_policy: CompletionPolicySpec = field(default_factory=CompletionPolicySpec)
    task: TaskSpec = field(default_factory=TaskSpec)
    absent_task_indices: tuple[int, ...] = ()
    min_member_count: int | None = None
    drain: DrainSpec | None = None
    extra: Extra = field(default_factory=dict)
    absent: frozenset[int] = field(init=False, compare=False, repr=False)
    """The wanted gaps below ``task_number``; others are ignored. Computed once: the core asks for
    it with every Task, and a user may list many."""

    def __post_init__(self) -> None:
        """Compute what is derived from the fields."""
        absent = frozenset(i for i in self.absent_task_indices if 0 <= i < self.task_number)
        object.__setattr__(self, "absent", absent)

    @property
    def wanted_count(self) -> int:
        """Count the wanted indexes: every total means these."""
        return self.task_number - len(self.absent)

    @property
    def quorum(self) -> int:
        """Count the members with which the gang may start."""
        if self.min_member_count is None:
            return self.wanted_count
        return min(self.min_member_count, self.wanted_count)


@dataclass(frozen=True, slots=True)
class FrameworkSpec:
    """What the user asks for. The controller never writes it."""

    description: str = ""
    execution_type: ExecutionType = ExecutionType.START
    retry_policy: RetryPolicySpec = field(default_factory=RetryPolicySpec)
    task_roles: tuple[TaskRoleSpec, ...] = ()
    completed_pod_policy: CompletedPodPolicy = CompletedPodPolicy.DELETE
    extra: Extra = field(default_factory=dict)

    def find_role(self, name: str) -> TaskRoleSpec | None:
        """Find a role by name: the first, where an old CRD let two have one name."""
        for role in self.task_roles:
            if role.name == name:
                return role
        return None

    @property
    def wanted_count(self) -> int:
        """Count the wanted Tasks of all roles."""
        return sum(role.wanted_count for role in self.task_roles)


@dataclass(frozen=True, slots=True)
class CompletionType:
    """Succeeded or Failed. ``attributes`` is None for a configured code without a type."""

    name: str = "Failed"
    attributes: tuple[str, ...] | None = ()
    extra: Extra = field(default_factory=dict)

    @property
    def is_succeeded(self) -> bool:
        """Return whether the completion is a success."""
        return self.name == "Succeeded"

    @property
    def is_failed(self) -> bool:
        """Return whether the completion is a failure."""
        return self.name == "Failed"

    def has_attribute(self, attribute: str) -> bool:
        """Return whether the type is, for example, Transient."""
        return attribute in (self.attributes or ())


@dataclass(frozen=True, slots=True)
class ContainerCompletionStatus:
    """How one container ended; a container that did not end has code 0 and no texts."""

    name: str = ""
    reason: str = ""
    message: str = ""
    signal: int = 0
    code: int = 0
    extra: Extra = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PodCompletionStatus:
    """How a Pod ended; init containers first."""

    reason: str = ""
    message: str = ""
    containers: tuple[ContainerCompletionStatus, ...] = ()
    extra: Extra = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class CompletionPolicyTriggerStatus:
    """Which Task completed the attempt."""

    message: str = ""
    task_role_name: str = ""
    task_index: int = 0
    extra: Extra = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TaskAttemptCompletionStatus:
    """Why a Task's attempt ended. Never changes once persisted."""

    code: int = 0
    phrase: str = ""
    type: CompletionType = field(default_factory=CompletionType)
    diagnostics: str = ""
    pod: PodCompletionStatus | None = None
    extra: Extra = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class FrameworkAttemptCompletionStatus:
    """Why a Framework's attempt ended. Never changes once persisted."""

    code: int = 0
    phrase: str = ""
    type: CompletionType = field(default_factory=CompletionType)
    diagnostics: str = ""
    trigger: CompletionPolicyTriggerStatus | None = None
    extra: Extra = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RetryPolicyStatus:
    """Retries done so far. ``retry_delay_seconds`` is set while a retry waits for its time.

    ``quick_end_count``: ours; so many attempts in a row, up to the last one, ended within seconds
    of their start.
    """

    total_retried_count: int = 0
    accountable_retried_count: int = 0
    retry_delay_seconds: int | None = None
    quick_end_count: int = 0
    extra: Extra = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TaskAttemptStatus:
    """One attempt of a Task. Its instance is the Pod with ``pod_uid``.

    Ours: ``accepts_unsigned``, set while a Pod is waited for that may carry no creation proof.
    """

    id: int
    start_time: datetime
    run_time: datetime | None = None
    completion_time: datetime | None = None
    instance_uid: str | None = None
    pod_name: str = ""
    pod_uid: str | None = None
    pod_node_name: str | None = None
    pod_ip: str | None = None
    pod_host_ip: str | None = None
    completion_status: TaskAttemptCompletionStatus | None = None
    accepts_unsigned: bool = False
    extra: Extra = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TaskStatus:
    """A Task. Ours: ``drain_deadline_time``, set while a scaled-down Task drains."""

    index: int
    instance_uid: str
    start_time: datetime
    state: TaskState
    transition_time: datetime
    attempt_status: TaskAttemptStatus
    run_time: datetime | None = None
    completion_time: datetime | None = None
    deletion_pending: bool = False
    retry_policy_status: RetryPolicyStatus = field(default_factory=RetryPolicyStatus)
    drain_deadline_time: datetime | None = None
    extra: Extra = field(default_factory=dict)

    @property
    def is_completed(self) -> bool:
        """Return whether the Task is finally Completed and still belongs to the gang."""
        return self.state is TaskState.COMPLETED and not self.deletion_pending

    @property
    def is_succeeded(self) -> bool:
        """Return whether the Task is finally Completed with success."""
        status = self.attempt_status.completion_status
        return self.is_completed and status is not None and status.type.is_succeeded

    @property
    def is_failed(self) -> bool:
        """Return whether the Task is finally Completed with failure."""
        status = self.attempt_status.completion_status
        return self.is_completed and status is not None and status.type.is_failed


@dataclass(frozen=True, slots=True)
class TaskRoleStatus:
    """A role's Tasks; ``tasks[i].index == i`` always."""

    name: str
    instance_uid: str
    tasks: tuple[TaskStatus, ...] = ()
    pod_graceful_deletion_timeout_seconds: int | None = None
    extra: Extra = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class FrameworkAttemptStatus:
    """One attempt of the Framework. Its instance is the ConfigMap with ``configmap_uid``.

    Ours: ``creator_keys``, the public keys of the controllers that create for the Framework, the
    newest last; ``accepts_unsigned``, set when the attempt began before there were such keys.
    """

    id: int
    start_time: datetime
    run_time: datetime | None = None
    completion_time: datetime | None = None
    instance_uid: str | None = None
    configmap_name: str = ""
    configmap_uid: str | None = None
    completion_status: FrameworkAttemptCompletionStatus | None = None
    task_roles: tuple[TaskRoleStatus, ...] = ()
    creator_keys: tuple[str, ...] = ()
    accepts_unsigned: bool = False
    extra: Extra = field(default_factory=dict)

    def find_role(self, name: str) -> TaskRoleStatus | None:
        """Find a role by name."""
        for role in self.task_roles:
            if role.name == name:
                return role
        return None

    def walk_tasks(self) -> Iterator[tuple[TaskRoleStatus, TaskStatus]]:
        """Walk every Task in status order."""
        for role in self.task_roles:
            for task in role.tasks:
                yield role, task


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition as Kubernetes API conventions have it. Ours."""

    type: str = ""
    status: str = "Unknown"
    observed_generation: int | None = None
    transition_time: datetime | None = None
    reason: str = ""
    message: str = ""
    extra: Extra = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class FrameworkStatus:
    """What the controller knows and did.

    Ours: ``conditions``, ``observed_generation``, ``ready_tasks`` ("3/5": running or succeeded of
    the wanted).
    """

    start_time: datetime
    state: FrameworkState
    transition_time: datetime
    attempt_status: FrameworkAttemptStatus
    run_time: datetime | None = None
    completion_time: datetime | None = None
    retry_policy_status: RetryPolicyStatus = field(default_factory=RetryPolicyStatus)
    conditions: tuple[Condition, ...] | None = None
    observed_generation: int | None = None
    ready_tasks: str | None = None
    extra: Extra = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Framework:
    """A Framework object. ``status`` is None until the controller first saw it."""

    metadata: ObjectMeta
    spec: FrameworkSpec
    status: FrameworkStatus | None = None
    extra: Extra = field(default_factory=dict)

    @property
    def key(self) -> str:
        """``namespace/name``: what queues and logs call it."""
        return f"{self.metadata.namespace}/{self.metadata.name}"

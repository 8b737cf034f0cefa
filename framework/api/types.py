"""The types of a Framework. They are frozen, so a decision can share unchanged parts.

Names in JSON are in ``codec``. Fields that are "not in the original" are extensions of this
project; the others have the meaning of microsoft/frameworkcontroller ``types.go``.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, TypeAlias

from framework.api.avoiding import NodeFailure
from framework.api.leaving import LeaveCount, LeavingStatus
from framework.api.objectmeta import ObjectMeta
from framework.api.recovery import RecoverySpec, RecoveryStatus
from framework.api.states import FrameworkState, TaskState
from framework.api.trainingstatus import TrainingStatus

Extra: TypeAlias = Mapping[str, Any]


class ExecutionType(StrEnum):
    """Whether the Framework is to run: Create -> Start -> Stop, or Create -> Stop."""

    CREATE = "Create"
    START = "Start"
    STOP = "Stop"


class CompletedPodPolicy(StrEnum):
    """Until when the Pod of a Completed Task is kept. Not in the original."""

    DELETE = "Delete"
    RETAIN_UNTIL_END = "RetainUntilEnd"
    RETAIN = "Retain"
    RETAIN_RUNNING = "RetainRunning"
    """As Retain, and Pods that live when the last attempt ends are left running."""

    @property
    def keeps_after_end(self) -> bool:
        """Whether Pods that have ended stay after the last attempt."""
        return self in {CompletedPodPolicy.RETAIN, CompletedPodPolicy.RETAIN_RUNNING}


@dataclass(frozen=True, slots=True)
class RetryPolicySpec:
    """When to retry. ``max_retry_count`` -1: after every failure, -2: after every completion."""

    fancy_retry_policy: bool = False
    max_retry_count: int = 0
    extra: Extra = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class CompletionPolicySpec:
    """Counts of Tasks that end the attempt; a count below 1 is inactive."""

    min_failed_task_count: int = 0
    min_succeeded_task_count: int = 0
    extra: Extra = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class DrainSpec:
    """The time that agents have before a scaled-down Task is deleted. Not in the original."""

    timeout_seconds: int = 0
    extra: Extra = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TaskSpec:
    """The template of each Task of a role. ``pod`` is the Pod template, an unchanged dict."""

    retry_policy: RetryPolicySpec = field(default_factory=RetryPolicySpec)
    pod_graceful_deletion_timeout_seconds: int | None = None
    pod: Mapping[str, Any] = field(default_factory=dict)
    extra: Extra = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TaskRoleSpec:
    """A role: Tasks with the same template."""

    name: str = ""
    """Name of the role, unique in the Framework."""
    task_number: int = 0
    """Number of indexes; a Task has an index of [0, task_number)."""
    completion_policy: CompletionPolicySpec = field(default_factory=CompletionPolicySpec)
    """Counts of Tasks that end the attempt of the Framework."""
    task: TaskSpec = field(default_factory=TaskSpec)
    """Template of each Task of the role."""
    absent_task_indices: tuple[int, ...] = ()
    """Indexes without a Task. Not in the original."""
    min_member_count: int | None = None
    """Quorum of the role; None: all wanted Tasks. Not in the original."""
    drain: DrainSpec | None = None
    """Drain of the role; None: no drain. Not in the original."""
    completed_pod_policy: CompletedPodPolicy | None = None
    """Until when Pods of Completed Tasks are kept; None: as the Framework says. Not in the
    original."""
    recovery: RecoverySpec | None = None
    """Recovery of the role; None: a failure ends its Pod. Not in the original."""
    extra: Extra = field(default_factory=dict)
    """Wire fields that this version does not know; they are written back."""
    absent: frozenset[int] = field(init=False, compare=False, repr=False)
    """``absent_task_indices`` below ``task_number``. Computed once, because it is read per Task."""

    def __post_init__(self) -> None:
        """Compute ``absent``."""
        absent = frozenset(i for i in self.absent_task_indices if 0 <= i < self.task_number)
        object.__setattr__(self, "absent", absent)

    @property
    def wanted_count(self) -> int:
        """Count the wanted Tasks."""
        return self.task_number - len(self.absent)

    @property
    def quorum(self) -> int:
        """Return the minimum of ready Tasks with which the gang is complete."""
        if self.min_member_count is None:
            return self.wanted_count
        return min(self.min_member_count, self.wanted_count)


@dataclass(frozen=True, slots=True)
class FrameworkSpec:
    """The desired state. Only users write it."""

    description: str = ""
    """Text of the user; no code reads it."""
    execution_type: ExecutionType = ExecutionType.START
    """Whether the Framework is to run."""
    retry_policy: RetryPolicySpec = field(default_factory=RetryPolicySpec)
    """When an attempt of the Framework is retried."""
    task_roles: tuple[TaskRoleSpec, ...] = ()
    """Roles, in the order of the user."""
    completed_pod_policy: CompletedPodPolicy = CompletedPodPolicy.DELETE
    """Until when Pods of Completed Tasks are kept; a role may override it. Not in the
    original."""
    suspend: bool = False
    """Whether the Framework is to have no Pods for now. Not in the original."""
    active_deadline_seconds: int | None = None
    """How long the Framework may be active; None: for ever. Not in the original."""
    ttl_seconds_after_finished: int | None = None
    """How long the Framework is kept after its end; None: as long as the controller's config says.
    Not in the original."""
    extra: Extra = field(default_factory=dict)
    """Wire fields that this version does not know; they are written back."""
    retains_pods: bool = field(init=False, compare=False, repr=False)
    """Whether Pods of a role stay after the end. Computed once, because it is read per Task."""

    def __post_init__(self) -> None:
        """Compute ``retains_pods``."""
        policies = {self.get_pod_policy(role) for role in self.task_roles}
        retains = any(each.keeps_after_end for each in policies or {self.completed_pod_policy})
        object.__setattr__(self, "retains_pods", retains)

    def get_pod_policy(self, role: TaskRoleSpec | None) -> CompletedPodPolicy:
        """Return until when Pods of a role are kept; None is a role that the spec lacks."""
        own = None if role is None else role.completed_pod_policy
        return self.completed_pod_policy if own is None else own

    def find_role(self, name: str) -> TaskRoleSpec | None:
        """Find a role by name; the first, because an old CRD allowed two with the same name."""
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
    """How a container ended. A container that did not end has code 0 and no texts."""

    name: str = ""
    """Name of the container."""
    reason: str = ""
    """Reason of the kubelet."""
    message: str = ""
    """Message of the kubelet or of the container."""
    signal: int = 0
    """Signal that ended it, 0 without one."""
    code: int = 0
    """Exit code."""
    extra: Extra = field(default_factory=dict)
    """Wire fields that this version does not know; they are written back."""


@dataclass(frozen=True, slots=True)
class PodCompletionStatus:
    """How a Pod ended; init containers first."""

    reason: str = ""
    message: str = ""
    containers: tuple[ContainerCompletionStatus, ...] = ()
    extra: Extra = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class CompletionPolicyTriggerStatus:
    """The Task that made the completion policy end the attempt."""

    message: str = ""
    task_role_name: str = ""
    task_index: int = 0
    extra: Extra = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TaskAttemptCompletionStatus:
    """Why an attempt of a Task ended. Never changes after it is persisted."""

    code: int = 0
    """Completion code."""
    phrase: str = ""
    """Name of the code."""
    type: CompletionType = field(default_factory=CompletionType)
    """Succeeded or Failed, with attributes such as Transient."""
    diagnostics: str = ""
    """Details for users."""
    pod: PodCompletionStatus | None = None
    """How the Pod ended; None without a Pod."""
    extra: Extra = field(default_factory=dict)
    """Wire fields that this version does not know; they are written back."""


@dataclass(frozen=True, slots=True)
class FrameworkAttemptCompletionStatus:
    """Why an attempt of the Framework ended. Never changes after it is persisted."""

    code: int = 0
    """Completion code."""
    phrase: str = ""
    """Name of the code."""
    type: CompletionType = field(default_factory=CompletionType)
    """Succeeded or Failed, with attributes such as Transient."""
    diagnostics: str = ""
    """Details for users."""
    trigger: CompletionPolicyTriggerStatus | None = None
    """Task that made the completion policy end the attempt."""
    extra: Extra = field(default_factory=dict)
    """Wire fields that this version does not know; they are written back."""


@dataclass(frozen=True, slots=True)
class RetryPolicyStatus:
    """The retries so far. ``retry_delay_seconds`` is set while a retry is delayed.

    ``quick_end_count`` counts the latest attempts in a row that ended within seconds of their
    start. It is not in the original.
    """

    total_retried_count: int = 0
    accountable_retried_count: int = 0
    retry_delay_seconds: int | None = None
    quick_end_count: int = 0
    extra: Extra = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TaskAttemptStatus:
    """An attempt of a Task: the Pod with ``pod_uid``."""

    id: int
    """Number of the attempt, from 0."""
    start_time: datetime
    """When it started."""
    run_time: datetime | None = None
    """When it first ran; None before."""
    completion_time: datetime | None = None
    """When it completed; None before."""
    instance_uid: str | None = None
    """Instance UID; None before the Pod is known."""
    pod_name: str = ""
    """Name of the Pod, the same for every attempt."""
    pod_uid: str | None = None
    """UID of the Pod; None before it is known."""
    pod_node_name: str | None = None
    """Node of the Pod."""
    pod_ip: str | None = None
    """Address of the Pod."""
    pod_host_ip: str | None = None
    """Address of the node."""
    completion_status: TaskAttemptCompletionStatus | None = None
    """Why the attempt ended; None before."""
    accepts_unsigned: bool = False
    """Whether a Pod without a creation proof is adopted. Not in the original."""
    leaving: LeavingStatus | None = None
    """Why it leaves before its node goes; None if it does not. Not in the original."""
    avoided_nodes: tuple[str, ...] = ()
    """Nodes on which its Pod does not run. Never changes in an attempt. Not in the original."""
    extra: Extra = field(default_factory=dict)
    """Wire fields that this version does not know; they are written back."""


@dataclass(frozen=True, slots=True)
class TaskStatus:
    """A Task."""

    index: int
    """Index in the role."""
    instance_uid: str
    """Derived UUID of the Task."""
    start_time: datetime
    """When the Task was added."""
    state: TaskState
    """State of the Task."""
    transition_time: datetime
    """When the state last changed."""
    attempt_status: TaskAttemptStatus
    """The current attempt."""
    run_time: datetime | None = None
    """When the Task first ran; None before."""
    completion_time: datetime | None = None
    """When the Task was Completed; None before."""
    deletion_pending: bool = False
    """Whether the Task is scaled down."""
    retry_policy_status: RetryPolicyStatus = field(default_factory=RetryPolicyStatus)
    """Retries of the Task."""
    drain_deadline_time: datetime | None = None
    """When the drain of the Task ends; None without one. Not in the original."""
    leaves: LeaveCount | None = None
    """How often the Task has left nodes; None: never. Not in the original."""
    node_failures: tuple[NodeFailure, ...] = ()
    """Recent failures of the Task on nodes, the oldest first. Not in the original."""
    extra: Extra = field(default_factory=dict)
    """Wire fields that this version does not know; they are written back."""

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
    """The Tasks of a role. Invariant: ``tasks[i].index == i``."""

    name: str
    instance_uid: str
    tasks: tuple[TaskStatus, ...] = ()
    pod_graceful_deletion_timeout_seconds: int | None = None
    extra: Extra = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class FrameworkAttemptStatus:
    """An attempt of the Framework: the ConfigMap with ``configmap_uid``."""

    id: int
    """Number of the attempt, from 0."""
    start_time: datetime
    """When it started."""
    run_time: datetime | None = None
    """When it first ran; None before."""
    completion_time: datetime | None = None
    """When it completed; None before."""
    instance_uid: str | None = None
    """Instance UID; None before the ConfigMap is known."""
    configmap_name: str = ""
    """Name of the ConfigMap, the same for every attempt."""
    configmap_uid: str | None = None
    """UID of the ConfigMap; None before it is known."""
    completion_status: FrameworkAttemptCompletionStatus | None = None
    """Why the attempt ended; None before."""
    task_roles: tuple[TaskRoleStatus, ...] = ()
    """Roles with their Tasks, in the order in which they were added."""
    creator_keys: tuple[str, ...] = ()
    """Public keys of the controllers that create objects, the newest last. Not in the original."""
    accepts_unsigned: bool = False
    """Whether the attempt began before creation proofs existed. Not in the original."""
    recovery: RecoveryStatus | None = None
    """Epochs of its processes; None before the first failure. Not in the original."""
    training: TrainingStatus | None = None
    """How far the training is; None if no agent reports it. Not in the original."""
    extra: Extra = field(default_factory=dict)
    """Wire fields that this version does not know; they are written back."""

    def find_role(self, name: str) -> TaskRoleStatus | None:
        """Find a role by name."""
        return next((role for role in self.task_roles if role.name == name), None)

    def walk_tasks(self) -> Iterator[tuple[TaskRoleStatus, TaskStatus]]:
        """Iterate over all Tasks in status order."""
        for role in self.task_roles:
            for task in role.tasks:
                yield role, task


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition of the Kubernetes API conventions. Not in the original."""

    type: str = ""
    """Type of the condition, unique in the status."""
    status: str = "Unknown"
    """True, False or Unknown."""
    observed_generation: int | None = None
    """Generation of the spec for which it was set."""
    transition_time: datetime | None = None
    """When the status last changed."""
    reason: str = ""
    """CamelCase reason."""
    message: str = ""
    """Details for users."""
    extra: Extra = field(default_factory=dict)
    """Wire fields that this version does not know; they are written back."""


@dataclass(frozen=True, slots=True)
class FrameworkStatus:
    """The observed state. Only controllers write it."""

    start_time: datetime
    """When a controller first saw the Framework."""
    state: FrameworkState
    """State of the Framework."""
    transition_time: datetime
    """When the state last changed."""
    attempt_status: FrameworkAttemptStatus
    """The current attempt."""
    run_time: datetime | None = None
    """When the Framework first ran; None before."""
    completion_time: datetime | None = None
    """When the Framework was Completed; None before."""
    retry_policy_status: RetryPolicyStatus = field(default_factory=RetryPolicyStatus)
    """Retries of the Framework."""
    conditions: tuple[Condition, ...] | None = None
    """Conditions; None if never written. Not in the original."""
    observed_generation: int | None = None
    """Generation of the spec that this status is for. Not in the original."""
    ready_tasks: str | None = None
    """For example 3/5: running or succeeded Tasks of the wanted. Not in the original."""
    active_start_time: datetime | None = None
    """Since when the deadline counts; None while it does not count. Not in the original."""
    extra: Extra = field(default_factory=dict)
    """Wire fields that this version does not know; they are written back."""


@dataclass(frozen=True, slots=True)
class Framework:
    """A Framework object. ``status`` is None until a controller has written one."""

    metadata: ObjectMeta
    spec: FrameworkSpec
    status: FrameworkStatus | None = None
    extra: Extra = field(default_factory=dict)

    @property
    def key(self) -> str:
        """``namespace/name``, the key of queues and logs."""
        return f"{self.metadata.namespace}/{self.metadata.name}"

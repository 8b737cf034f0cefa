"""Gangs of many Tasks in the stages of their life, for the tests of cost."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from controller.core.actions import ActionKey
from controller.core.objects.ownership import build_creation_key
from controller.core.snapshot import Failure, PublishedRoster, Snapshot
from framework.api.completion import FRAMEWORK_ATTEMPT_COMPLETION
from framework.api.pods import PodView
from framework.api.states import FrameworkState, TaskState
from framework.api.types import FrameworkSpec, FrameworkStatus, TaskStatus
from tests.support.builders import (
    AT,
    at,
    build_configmap,
    build_framework,
    build_pod,
    build_role,
    build_role_roster,
    build_role_status,
    build_roster,
    build_spec,
    build_status,
    end_task,
)


@dataclass(frozen=True)
class LargeGang:
    """A gang of ``size`` Tasks that ``roles`` roles share evenly."""

    size: int
    roles: int

    @property
    def share(self) -> int:
        """Tasks of one role."""
        return self.size // self.roles

    @property
    def half(self) -> "LargeGang":
        """The same gang with half of the Tasks."""
        return LargeGang(self.size // 2, self.roles)

    @property
    def names(self) -> list[str]:
        return [f"worker{number}" for number in range(self.roles)]

    def build_spec(self, **role: Any) -> FrameworkSpec:
        """The spec; ``role`` are more attributes of each role."""
        return build_spec(*(build_role(name, self.share, **role) for name in self.names))

    def build_status(
        self, task_state: TaskState, state: FrameworkState = FrameworkState.ATTEMPT_RUNNING
    ) -> FrameworkStatus:
        """The status with every Task in one state."""
        return _build_status(self, task_state, state)

    def build_ended(
        self, task_state: TaskState, state: FrameworkState = FrameworkState.ATTEMPT_RUNNING
    ) -> FrameworkStatus:
        """The same, each Task with a completion."""
        status = self.build_status(task_state, state)
        return change_tasks(status, lambda task: end_task(task, FRAMEWORK_ATTEMPT_COMPLETION))

    def build_pods(self, phase: str = "Running", message: str = "") -> Mapping[str, PodView]:
        """Every Task's Pod, by name."""
        return _build_pods(self, phase, message)

    def build_published(self, **fields: Any) -> PublishedRoster:
        """The published roster of the complete gang; ``fields`` are those of the roster."""
        roles = (build_role_roster(name, self.share) for name in self.names)
        return PublishedRoster(build_roster(*roles, **fields), has_version_annotation=True)


@lru_cache(maxsize=16)
def _build_status(gang: LargeGang, task_state: TaskState, state: FrameworkState) -> FrameworkStatus:
    roles = (build_role_status(name, gang.share, task_state) for name in gang.names)
    return build_status(*roles, state=state)


@lru_cache(maxsize=16)
def _build_pods(gang: LargeGang, phase: str, message: str) -> dict[str, PodView]:
    pods = (
        build_pod(name, index, phase, message=message)
        for name in gang.names
        for index in range(gang.share)
    )
    return {pod.name: pod for pod in pods}


def change_tasks(
    status: FrameworkStatus, change: Callable[[TaskStatus], TaskStatus]
) -> FrameworkStatus:
    roles = tuple(
        replace(role, tasks=tuple(map(change, role.tasks)))
        for role in status.attempt_status.task_roles
    )
    return replace(status, attempt_status=replace(status.attempt_status, task_roles=roles))


def mark_gone(task: TaskStatus) -> TaskStatus:
    return replace(end_task(task, FRAMEWORK_ATTEMPT_COMPLETION), deletion_pending=True)


def build_failures(status: FrameworkStatus, code: int) -> dict[ActionKey, Failure]:
    """A create of each Task's Pod that failed with an HTTP code."""
    failure = Failure(code, "denied by a webhook", "", 3, AT, AT)
    return {build_creation_key(task): failure for _, task in status.attempt_status.walk_tasks()}


def build_snapshot(
    spec: FrameworkSpec,
    status: FrameworkStatus | None,
    pods: Mapping[str, PodView] | None = None,
    **fields: Any,
) -> Snapshot:
    """A Snapshot an hour after all events; ``fields`` are more of its attributes."""
    known: dict[str, Any] = {"configmap": build_configmap(), "pods": pods or {}, "now": at(3600)}
    return Snapshot(framework=build_framework(spec, status), **(known | fields))

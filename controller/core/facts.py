"""Facts that follow from the Snapshot and the settings alone, computed once for each decision."""

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import TypeAlias

from controller.core.actions import ObjectKind, Verb
from controller.core.settings import Settings
from controller.core.snapshot import Failure, Snapshot
from framework.api.naming import TaskKey
from framework.api.types import FrameworkStatus, TaskStatus

Name: TypeAlias = tuple[ObjectKind, str]


@dataclass(frozen=True, slots=True)
class Facts:
    """Indexes of a Snapshot: there may be ten thousand Tasks, requests and failures."""

    stored_tasks: Mapping[TaskKey, TaskStatus]
    """The Tasks of the stored status."""
    creates_in_flight: AbstractSet[Name]
    """The objects whose creates are sent and not answered."""
    refused_creates: Mapping[Name, Failure]
    """By object, the failure of a create that failed so often that the next create must wait."""


def build_facts(snapshot: Snapshot, settings: Settings) -> Facts:
    """Build the facts of one decision."""
    return Facts(
        stored_tasks=_index_tasks(snapshot.framework.status),
        creates_in_flight={
            (key.kind, key.name) for key in snapshot.in_flight if key.verb is Verb.CREATE
        },
        refused_creates={
            (key.kind, key.name): failure
            for key, failure in snapshot.failures.items()
            if key.verb is Verb.CREATE and failure.consecutive_failures >= settings.free_refusals
        },
    )


def _index_tasks(status: FrameworkStatus | None) -> dict[TaskKey, TaskStatus]:
    if status is None:
        return {}
    return {
        TaskKey(role.name, task.index): task for role, task in status.attempt_status.walk_tasks()
    }

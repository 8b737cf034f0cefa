"""Computes the changes of a Framework: the patch, and the notes about it. Pure.

A patch is a JSON patch. It tests the values from which the change was computed: the UID, and for
each changed field the value that was read. If one of these has changed meanwhile, the API server
refuses the whole patch, and the change is computed again from the new object (``cli.steer.apply``).
The status is not tested, because the controller writes it all the time.
"""

from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, TypeAlias

from cli.exitcodes import CliError, ExitCode
from cli.invocation import build_command
from framework.api.codec import decode_framework
from framework.api.completion import STOP_FRAMEWORK_REQUESTED, is_left_running
from framework.api.fielderrors import FieldErrors
from framework.api.states import FRAMEWORK_FROZEN, FrameworkState
from framework.api.types import ExecutionType, Framework, FrameworkSpec, FrameworkStatus
from framework.kube.resources import Object

_EXECUTION = "executionType"


@dataclass(frozen=True, slots=True)
class Change:
    """A change of one Framework."""

    verb: str
    """The verb that kubectl prints: ``scaled``; ``unchanged`` if there is nothing to do."""
    operations: tuple[Object, ...] = ()
    """The JSON patch; empty if there is nothing to do."""
    notes: tuple[str, ...] = ()
    """Consequences of the change, a sentence each."""
    warnings: tuple[str, ...] = ()
    """Consequences that the user may not expect."""


Computation: TypeAlias = Callable[["Gang"], Change]


@dataclass(frozen=True, slots=True)
class Gang:
    """A Framework as it was read: the object and its decoded form."""

    body: Object
    decoded: Framework
    live_pod_uids: frozenset[str] | None = None
    """UIDs of its Pods that have not ended; None if the Pods were not read."""

    @property
    def name(self) -> str:
        """Name of the Framework."""
        return self.decoded.metadata.name

    @property
    def uid(self) -> str:
        """UID of the Framework."""
        return self.decoded.metadata.uid

    @property
    def spec(self) -> FrameworkSpec:
        """The spec."""
        return self.decoded.spec

    @property
    def status(self) -> FrameworkStatus | None:
        """The status; None before the controller has seen the Framework."""
        return self.decoded.status

    @property
    def is_completed(self) -> bool:
        """Return whether the Framework has ended for good."""
        return self.status is not None and self.status.state is FrameworkState.COMPLETED

    @property
    def is_completing(self) -> bool:
        """Return whether its attempt ends: the next one, if there is one, begins with the spec."""
        return self.status is not None and self.status.state in FRAMEWORK_FROZEN

    @property
    def is_current(self) -> bool:
        """Return whether the controller has seen this spec."""
        seen = None if self.status is None else self.status.observed_generation
        return seen is not None and seen >= self.decoded.metadata.generation

    @property
    def has_left_pods(self) -> bool:
        """Return whether the Framework has ended, and left Pods running."""
        tasks = () if self.status is None else self.status.attempt_status.walk_tasks()
        return self.is_completed and any(
            is_left_running(task.attempt_status.completion_status) for _, task in tasks
        )

    def describe_end(self) -> str:
        """Describe how it ended: ``Succeeded``, ``Stopped``, or ``Failed: PodFailed``."""
        ended = None if self.status is None else self.status.attempt_status.completion_status
        if ended is None:
            return "Completed"
        if ended.code == STOP_FRAMEWORK_REQUESTED:
            return "Stopped"
        return ended.type.name if ended.type.is_succeeded else f"{ended.type.name}: {ended.phrase}"


def read_gang(body: Object, live_pod_uids: frozenset[str] | None = None) -> Gang:
    """Read a Framework.

    Args:
        body: the Framework.
        live_pod_uids: UIDs of its Pods that have not ended, and maybe of others; None if the Pods
            were not read.

    Raises:
        CliError: it cannot be read.
    """
    try:
        return Gang(body, decode_framework(body), live_pod_uids)
    except FieldErrors as e:
        name = str(body["metadata"].get("name"))
        raise CliError(ExitCode.FAILED, *(f"{name}: {error}" for error in e.errors)) from e


def compute_start(gang: Gang) -> Change:
    """Compute the start of a Framework that was created with executionType Create.

    Raises:
        CliError: it was stopped, or has ended.
    """
    over = explain_over(gang)
    if over:
        raise CliError(ExitCode.USAGE, f"{gang.name}: {over}; {explain_again(gang.name)}")
    if gang.spec.execution_type is ExecutionType.START:
        return Change("unchanged", notes=("it is started already",))
    return Change("started", set_field(gang, ExecutionType.START.value, _EXECUTION))


def compute_stop(gang: Gang) -> Change:
    """Compute the stop of a Framework."""
    if gang.is_completed and not gang.has_left_pods:
        return Change("unchanged", notes=(f"it has ended already ({gang.describe_end()})",))
    if gang.spec.execution_type is ExecutionType.STOP:
        return Change("unchanged", notes=("it is stopped already",))
    note = "its Pods are deleted; the Framework stays as a record, and cannot be started again"
    if gang.has_left_pods:
        note = f"it has ended already ({gang.describe_end()}); the Pods left running are deleted"
    return Change("stopped", set_field(gang, ExecutionType.STOP.value, _EXECUTION), (note,))


def explain_over(gang: Gang) -> str:
    """Explain why no attempt of a Framework will start; "" if an attempt may start."""
    if gang.is_completed:
        return f"has ended ({gang.describe_end()})"
    return "is stopped" if gang.spec.execution_type is ExecutionType.STOP else ""


def explain_again(name: str) -> str:
    """Explain how to run an ended Framework again."""
    run, delete = build_command("run", "--replace", "FILE"), build_command("delete", name)
    return f"to run it again, use `{run}`, or `{delete}` and apply it again"


def set_field(gang: Gang, value: Any, *path: str | int) -> tuple[Object, ...]:
    """Build the operations that set a field of the spec, if no client changed it meanwhile."""
    return (*build_guard(gang), *build_replacement(gang, value, *path))


def build_guard(gang: Gang) -> tuple[Object, ...]:
    """Build the test that the Framework was not deleted and created again."""
    return ({"op": "test", "path": "/metadata/uid", "value": gang.uid},)


def build_replacement(gang: Gang, value: Any, *path: str | int) -> tuple[Object, ...]:
    """Build the operations that set a field of the spec to a value, if it is as it was read."""
    test = build_test(gang, *path)
    return test, {"op": "add", "path": test["path"], "value": value}


def build_test(gang: Gang, *path: str | int) -> Object:
    """Build the test that a field of the spec is as it was read; null if it was absent.

    The API server takes an absent field for null in a test, although RFC 6902 makes it an error.
    """
    value: Any = gang.body["spec"]
    for key in path[:-1]:
        value = value[key]
    pointer = "".join(f"/{key}" for key in ("spec", *path))
    return {"op": "test", "path": pointer, "value": value.get(path[-1])}


def apply_operations(body: Object, operations: Sequence[Object]) -> Object:
    """Apply the operations that this module builds, for --dry-run=client."""
    changed = deepcopy(body)
    for operation in operations:
        if operation["op"] != "add":
            continue
        *parents, last = operation["path"].lstrip("/").split("/")
        target: Any = changed
        for key in parents:
            target = target[int(key) if isinstance(target, list) else key]
        target[last.replace("~1", "/")] = operation["value"]
    return changed

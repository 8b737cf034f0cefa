"""Computes changes of the size of roles: ``scale`` and ``remove``. Pure.

A size is a number of Tasks. ``taskNumber`` also counts absent indexes, so it is larger than the
size if an index below it is absent. Example: indexes 0, 1, 2 and 4 exist, 3 is absent, taskNumber
is 5. A size of 3 is taskNumber 3, a size of 5 is taskNumber 6.

Rules: docs/design/scaling.md.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from cli.authoring.rules import find_unreachable_ends
from cli.exitcodes import CliError, ExitCode
from cli.invocation import build_command
from cli.steer.changes import (
    Change,
    Computation,
    Gang,
    apply_operations,
    build_guard,
    build_test,
    explain_again,
    explain_over,
)
from cli.texts.missing import explain_task
from framework.api.constants import ABSENT_TASK_INDICES_FIELD, MAX_TASK_NUMBER, MAX_TASKS
from framework.api.naming import TaskKey
from framework.api.types import ExecutionType, FrameworkSpec, TaskRoleSpec
from framework.api.validation import describe_task_limit
from framework.kube.resources import Object

# Each new value is computed from both old values, and the position of the role from its name.
_READ = ("name", "taskNumber", ABSENT_TASK_INDICES_FIELD)
# The most names of Tasks in a sentence.
_SHOWN = 5


@dataclass(frozen=True, slots=True)
class _Resize:
    """A role before and after the change."""

    position: int
    before: TaskRoleSpec
    task_number: int
    absent: tuple[int, ...]

    @property
    def after(self) -> TaskRoleSpec:
        """The role after the change."""
        return TaskRoleSpec(
            self.before.name,
            self.task_number,
            absent_task_indices=self.absent,
            min_member_count=self.before.min_member_count,
        )

    @property
    def leaving(self) -> list[int]:
        """Indexes of Tasks that leave."""
        return _subtract(self.before, self.after)

    @property
    def joining(self) -> list[int]:
        """Indexes of new Tasks."""
        return _subtract(self.after, self.before)


def scaling(sizes: Mapping[str, int], current: Mapping[str, int]) -> Computation:
    """Return the computation of ``scale``.

    Args:
        sizes: number of Tasks by role.
        current: numbers that the roles must have now, or nothing is changed.
    """

    def compute(gang: Gang) -> Change:
        check_resizable(gang)
        for role, number in current.items():
            found = find_role(gang, role)[1].wanted_count
            if found != number:
                raise CliError(
                    ExitCode.FAILED,
                    f"{gang.name}: {role}: expected {number} Tasks, but there are {found}: nothing "
                    "was changed; change --current-replicas, or leave it out",
                )
        resizes = [_resize(gang, role, size) for role, size in sizes.items()]
        _check_total(gang, resizes)
        return _build_change(gang, resizes, "scaled")

    return compute


def removal(tasks: Sequence[TaskKey], *, is_undo: bool) -> Computation:
    """Return the computation of ``remove``, and with ``is_undo`` of ``remove --undo``."""

    def compute(gang: Gang) -> Change:
        check_resizable(gang)
        by_role: dict[str, set[int]] = {}
        for task in tasks:
            _, known = find_role(gang, task.role)
            if not (is_undo and task.index in known.absent_task_indices):
                _check_index(gang, known, task)
            by_role.setdefault(task.role, set()).add(task.index)
        resizes, notes = [], []
        for name, indexes in by_role.items():
            position, role = find_role(gang, name)
            listed = role.absent_task_indices
            idle = sorted(i for i in indexes if (i in listed) is not is_undo)
            if idle:
                state = "not absent" if is_undo else "absent already"
                notes.append(f"{name_tasks(name, idle)}: {state}")
            kept = tuple(i for i in listed if i not in indexes)
            absent = kept if is_undo else (*kept, *sorted(indexes))
            if set(absent) != set(listed):
                resizes.append(_Resize(position, role, role.task_number, tuple(sorted(absent))))
        change = _build_change(gang, resizes, "restored" if is_undo else "removed")
        undo = _offer_undo(gang, resizes) if not is_undo else []
        return Change(
            change.verb, change.operations, (*notes, *change.notes, *undo), change.warnings
        )

    return compute


def check_resizable(gang: Gang) -> None:
    """Refuse a Framework that has ended, or was stopped.

    Raises:
        CliError: no Task of it runs again.
    """
    over = explain_over(gang)
    if over:
        raise CliError(
            ExitCode.USAGE,
            f"{gang.name}: {over}, and no Task of it runs again; {explain_again(gang.name)}",
        )


def name_tasks(role: str, indexes: Sequence[int]) -> str:
    """Name Tasks of a role, a few of many: ``worker/2, worker/3 and 6 more``."""
    names = ", ".join(f"{role}/{index}" for index in indexes[:_SHOWN])
    return f"{names} and {len(indexes) - _SHOWN} more" if len(indexes) > _SHOWN else names


def find_role(gang: Gang, name: str) -> tuple[int, TaskRoleSpec]:
    """Find a role and its position in the spec.

    Raises:
        CliError: the Framework has no such role.
    """
    for position, role in enumerate(gang.spec.task_roles):
        if role.name == name:
            return position, role
    raise CliError(ExitCode.FAILED, str(explain_task(gang.name, name, None, map_indices(gang))))


def _check_index(gang: Gang, role: TaskRoleSpec, task: TaskKey) -> None:
    if task.index >= role.task_number:
        missing = explain_task(gang.name, task.role, str(task.index), map_indices(gang))
        raise CliError(ExitCode.FAILED, str(missing))


def map_indices(gang: Gang) -> dict[str, Sequence[int]]:
    """Map each role to the indexes of its Tasks."""
    return {role.name: _list_wanted(role) for role in gang.spec.task_roles}


def _list_wanted(role: TaskRoleSpec) -> Sequence[int]:
    indexes = range(role.task_number)
    return [i for i in indexes if i not in role.absent] if role.absent else indexes


def _resize(gang: Gang, name: str, size: int) -> _Resize:
    position, role = find_role(gang, name)
    number = size
    for index in sorted(set(role.absent_task_indices)):
        # Each absent index below the number makes it one larger.
        number += int(index < number)
    if number > MAX_TASK_NUMBER:
        gaps = f" with {number - size} absent indexes" if number > size else ""
        raise CliError(
            ExitCode.USAGE,
            f"{gang.name}: spec.taskRoles[{position}].taskNumber: {name}={size}{gaps} is more "
            f"than {MAX_TASK_NUMBER}, the most that a role may have; lower it",
        )
    return _Resize(position, role, number, role.absent_task_indices)


def _check_total(gang: Gang, resizes: Sequence[_Resize]) -> None:
    before = sum(role.task_number for role in gang.spec.task_roles)
    after = before + sum(resize.task_number - resize.before.task_number for resize in resizes)
    if after > MAX_TASKS and after > before:
        raise CliError(
            ExitCode.USAGE,
            f"{gang.name}: spec.taskRoles: would have {after} Tasks; "
            + describe_task_limit(MAX_TASKS),
        )


def _build_change(gang: Gang, resizes: Sequence[_Resize], verb: str) -> Change:
    operations: list[Object] = []
    for resize in resizes:
        changes: dict[str, object] = {}
        if resize.task_number != resize.before.task_number:
            changes["taskNumber"] = resize.task_number
        if set(resize.absent) != set(resize.before.absent_task_indices):
            changes[ABSENT_TASK_INDICES_FIELD] = list(resize.absent)
        if changes:
            role = ("taskRoles", resize.position)
            tests = {field: build_test(gang, *role, field) for field in _READ}
            sets = ({"op": "add", "path": tests[f]["path"], "value": changes[f]} for f in changes)
            operations += [*tests.values(), *sets]
    is_created = gang.spec.execution_type is ExecutionType.CREATE
    has_pods = not (gang.spec.suspend or is_created)
    notes = [note for resize in resizes for note in _explain(resize, has_pods=has_pods)]
    if not operations:
        return Change("unchanged", notes=tuple(notes))
    if gang.spec.suspend:
        notes.append("the Framework is suspended, so this is for its next attempt")
    elif gang.is_completing:
        notes.append("the attempt ends now, so this is for the next attempt, if there is one")
    patch = (*build_guard(gang), *operations)
    return Change(verb, patch, tuple(notes), tuple(_warn(gang, resizes, patch)))


def _explain(resize: _Resize, *, has_pods: bool) -> Iterable[str]:
    before, after = resize.before, resize.after
    name = before.name
    if before.wanted_count == after.wanted_count and not (resize.leaving or resize.joining):
        yield f"{name}: {_count(after.wanted_count)}"
        return
    yield f"{name}: {before.wanted_count} -> {_count(after.wanted_count)}"
    if resize.joining:
        yield f"new: {name_tasks(name, resize.joining)}"
    if resize.leaving:
        drain = before.drain
        how = (
            "its Pod is deleted"
            if drain is None
            else f"its peers have {drain.timeout_seconds} s to acknowledge that it leaves, then "
            "its Pod is deleted"
        )
        many = "each: " if len(resize.leaving) > 1 else ""
        consequence = f"; {many}{how}" if has_pods else ""
        yield f"leaving: {name_tasks(name, resize.leaving)}{consequence}"
    if after.absent and resize.task_number != before.task_number:
        yield f"still absent: {name_tasks(name, sorted(after.absent))}"


def _warn(gang: Gang, resizes: Sequence[_Resize], patch: Sequence[Object]) -> Iterable[str]:
    for resize in resizes:
        count, least = resize.after.wanted_count, resize.before.min_member_count
        name = resize.before.name
        if count == 0:
            yield f"{name} has no Tasks then"
        elif least is not None and count < least <= resize.before.wanted_count:
            yield (
                f"{name}: {_count(count)}, fewer than its minMemberCount of {least}: the gang of "
                f"an attempt is complete with {count} then"
            )
    if _count_wanted(gang.spec, resizes) == 0:
        yield "without any Task, the Framework ends only when it is stopped or deleted"
    known = {(f.path, f.message) for f in find_unreachable_ends(gang.body)}
    for found in find_unreachable_ends(apply_operations(gang.body, patch)):
        if (found.path, found.message) not in known and found.rule != "no-tasks":
            yield f"{found.path}: {found.message}; {found.fix}"


def _count_wanted(spec: FrameworkSpec, resizes: Sequence[_Resize]) -> int:
    changes = (r.after.wanted_count - r.before.wanted_count for r in resizes)
    return spec.wanted_count + sum(changes)


def _offer_undo(gang: Gang, resizes: Sequence[_Resize]) -> list[str]:
    names = [f"{r.before.name}/{index}" for r in resizes for index in r.leaving]
    if not names:
        return []
    more = ["..."] if len(names) > _SHOWN else []
    command = build_command("remove", "--undo", gang.name, *names[:_SHOWN], *more)
    return [f"to bring back: `{command}`"]


def _subtract(role: TaskRoleSpec, other: TaskRoleSpec) -> list[int]:
    kept = range(other.task_number)
    return [
        index
        for index in range(role.task_number)
        if index not in role.absent and (index not in kept or index in other.absent)
    ]


def _count(number: int) -> str:
    return "1 Task" if number == 1 else f"{number} Tasks"

"""Builds the lines that ``framework describe`` prints. Pure.

The order: identity and state, conditions, roles, the Tasks that need attention, the other Tasks,
the nodes that Tasks avoid, the missing members of the gang, the failures so far, and the last
Events. Without ``shows_all`` each part is short, so that the whole fits on a screen or two also for
a thousand Tasks.
"""

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import TypeAlias

from cli.printing.columns import Aligner
from cli.running.folding import TaskRow, count_states, fold_tasks, name_tasks
from cli.running.table import wrap_row
from cli.running.viewbuilder import build_view
from cli.running.views import GangView, TaskLine, TaskPhase
from cli.see import policies
from cli.see.eventlog import EVENT_HEADER, EventRecord
from cli.see.observation import ObservedFramework
from cli.texts.reasons import read_readiness
from cli.texts.trainingwords import describe_training
from framework.api import constants
from framework.api.codec import decode_spec, decode_status
from framework.api.durations import format_age, parse_time
from framework.api.endings import describe_epoch
from framework.api.fielderrors import FieldErrors
from framework.api.text import make_printable
from framework.api.types import Condition, FrameworkSpec, FrameworkStatus, TaskRoleSpec
from framework.kube.resources import Object

_SHOWN_TASKS = 12
_SHOWN_EVENTS = 8
_SHOWN_FAILURES = 5
_EVENT_LIFETIME = timedelta(hours=1)
"""How long kube-apiserver keeps Events by default (--event-ttl)."""
_INDENT = "  "
# In the message of GangReady, before the missing Tasks.
_MISSING = "; waiting for "
_FAILURES = frozenset({"TaskFailed", "AttemptCompleted", "Completed"})
_Line: TypeAlias = tuple[str, int]
"""A line, and where its last column begins."""
_NEWS = ("True", "GangReady")
_TASK_HEADER = ("TASK", "STATE", "ATTEMPT", "NOTE")
_PLACED_HEADER = ("TASK", "STATE", "ATTEMPT", "NODE", "IP", "NOTE")


def describe(
    observed: ObservedFramework, now: datetime, *, shows_all: bool = False, width: int | None = None
) -> list[str]:
    """Describe a Framework.

    Args:
        observed: the objects of the Framework.
        now: for ages and the time to the next attempt.
        shows_all: each Task with its node, all conditions, failures and Events.
        width: columns of the terminal, in which the last column is wrapped; None: it is not.
    """
    lines = _Description(observed, now, shows_all=shows_all).build()
    texts = ((make_printable(text), start) for text, start in lines)
    if width is None:
        return [text for text, _ in texts]
    return [line for text, start in texts for line in wrap_row(text, start, width)]


class _Description:
    """The parts of one description."""

    def __init__(self, observed: ObservedFramework, now: datetime, *, shows_all: bool) -> None:
        self._observed = observed
        self._now = now
        self._shows_all = shows_all
        self._view = build_view(observed.collect_objects(), now)
        self._spec, self._status = _decode(observed.framework)
        self._missing, self._total = read_readiness(observed.configmap)

    def build(self) -> Iterable[_Line]:
        yield from self._describe_head()
        yield from self._describe_conditions()
        yield from self._describe_roles()
        yield from self._describe_tasks()
        yield from self._describe_avoided()
        yield from self._describe_missing()
        yield from self._describe_failures()
        yield from self._describe_events()

    def _describe_head(self) -> Iterable[_Line]:
        metadata, view, status = self._observed.framework["metadata"], self._view, self._status
        created = metadata.get("creationTimestamp")
        rows = [
            ("Name", str(metadata.get("name"))),
            ("Namespace", str(metadata.get("namespace"))),
            ("Created", f"{created} ({format_age(created, self._now)} ago)"),
            ("State", _describe_state(view, status, self._now)),
        ]
        if view.note:
            rows.append(("Reason", view.note))
        if status is not None and status.ready_tasks:
            rows.append(("Tasks", f"{status.ready_tasks} run or have succeeded"))
        if self._spec.description:
            rows.append(("Description", self._spec.description))
        rows.append(("Retries", self._describe_retries()))
        if epoch := self._describe_epoch():
            rows.append(("Epoch", epoch))
        if training := self._describe_training():
            rows.append(("Training", training))
        rows += policies.list_lifetime(self._spec, status, self._now)
        width = max(len(title) for title, _ in rows) + 3
        for title, text in rows:
            yield f"{title + ':':{width}}{text}", width

    def _describe_retries(self) -> str:
        allowed = f"allowed: {policies.describe_retries(self._spec.retry_policy)}"
        if self._status is None:
            return allowed
        return f"{policies.describe_retried(self._status.retry_policy_status)}; {allowed}"

    def _describe_epoch(self) -> str:
        """Describe the epoch of the processes; "" if they have never restarted in place."""
        recovery = self._status.attempt_status.recovery if self._status is not None else None
        if recovery is None or recovery.decided_time is None:
            return ""
        age = format_age(recovery.decided_time.isoformat(), self._now)
        times = "once" if recovery.epoch == 1 else f"{recovery.epoch} times"
        count = f"processes have failed {times} in this attempt, last {age} ago"
        return f"{recovery.epoch} ({count}): {describe_epoch(recovery)}"

    def _describe_training(self) -> str:
        """Describe how far the training is; "" if no agent reports it."""
        attempt = self._status.attempt_status if self._status is not None else None
        training = attempt.training if attempt is not None else None
        if attempt is None or training is None or training.update_time is None:
            return ""
        if attempt.completion_status is not None:
            return f"last {describe_training(training, has_ended=True)}"
        age = format_age(training.update_time.isoformat(), self._now)
        return f"{describe_training(training)} ({age} ago)"

    def _describe_conditions(self) -> Iterable[_Line]:
        conditions = (self._status.conditions if self._status is not None else None) or ()
        shown = [c for c in conditions if self._shows_all or c.status in _NEWS or c.type in _NEWS]
        rows = [
            [
                c.type,
                c.status,
                format_age(c.transition_time and c.transition_time.isoformat(), self._now),
                self._describe_condition(c),
            ]
            for c in shown
        ]
        return _build_section("Conditions", ("TYPE", "STATUS", "FOR", "REASON"), rows)

    def _describe_condition(self, condition: Condition) -> str:
        """Describe it without the missing Tasks, which have a part of their own."""
        has_part = bool(self._missing) and not self._shows_all
        message = condition.message.partition(_MISSING)[0] if has_part else condition.message
        return f"{condition.reason}: {message}" if message else condition.reason

    def _describe_roles(self) -> Iterable[_Line]:
        rows = [self._build_role_row(role) for role in self._spec.task_roles]
        header = ("ROLE", "TASKS", "STATES", "RETRIES", "WHAT ENDS THE ATTEMPT")
        return _build_section("Roles", header, rows)

    def _build_role_row(self, role: TaskRoleSpec) -> list[str]:
        lines = [line for line in self._view.tasks if line.key.role == role.name]
        more = policies.describe_role(role)
        retried = 0
        found = self._status.attempt_status.find_role(role.name) if self._status else None
        for task in found.tasks if found is not None else ():
            retried += task.retry_policy_status.total_retried_count
        allowed = policies.describe_task_retries(role.task)
        return [
            role.name,
            f"{role.wanted_count} ({more})" if more else str(role.wanted_count),
            count_states(lines) or "-",
            f"{retried} so far; {allowed}" if retried else allowed,
            policies.describe_completion(role.completion_policy),
        ]

    def _describe_tasks(self) -> Iterable[_Line]:
        if self._shows_all:
            rows = [self._build_placed_row(task) for task in self._view.tasks]
            yield from _build_section("Tasks", _PLACED_HEADER, rows)
            return
        folded = fold_tasks(self._view.tasks)
        urgent = [row for row in folded if _needs_attention(row.line)]
        quiet = [row for row in folded if not _needs_attention(row.line)]
        left = _SHOWN_TASKS
        for title, part in (("Tasks that need attention", urgent), ("Tasks", quiet)):
            shown = part[: max(left, 1)]
            left -= len(shown)
            yield from _build_section(title, _TASK_HEADER, map(_build_task_row, shown))
            hidden = sum(len(row.indices) for row in part[len(shown) :])
            if hidden:
                yield f"{_INDENT}... and {hidden} more Tasks: --all shows them", 0

    def _build_placed_row(self, task: TaskLine) -> list[str]:
        node, address = "", ""
        role = self._status.attempt_status.find_role(task.key.role) if self._status else None
        if role is not None and task.key.index < len(role.tasks):
            attempt = role.tasks[task.key.index].attempt_status
            node, address = attempt.pod_node_name or "", attempt.pod_ip or ""
        return [str(task.key), task.state, str(task.attempt), node, address, task.note]

    def _describe_avoided(self) -> Iterable[_Line]:
        """Describe on which nodes Tasks failed so often that their Pods do not run there."""
        if self._status is None or self._view.is_completed:
            return
        found = [
            (f"{role.name}/{task.index}", task.attempt_status.avoided_nodes)
            for role, task in self._status.attempt_status.walk_tasks()
            if task.attempt_status.avoided_nodes
        ]
        shown = found if self._shows_all else found[:_SHOWN_TASKS]
        rows = [[name, ", ".join(nodes)] for name, nodes in shown]
        yield from _build_section("Nodes that Tasks avoid", ("TASK", "NODES"), rows)
        if len(shown) < len(found):
            yield f"{_INDENT}... and {len(found) - len(shown)} more Tasks: --all shows them", 0

    def _describe_missing(self) -> Iterable[_Line]:
        """Describe which members the barriers wait for, as the controller published it."""
        if not self._missing or self._view.is_completed:
            return ()
        # Many Tasks wait for the same reason, such as an image that cannot be pulled.
        groups: dict[tuple[str, str], list[int]] = {}
        for key, reason in self._missing.items():
            groups.setdefault((key.role, reason), []).append(key.index)
        rows = [
            [name_tasks(role, sorted(indexes)), reason]
            for (role, reason), indexes in groups.items()
        ]
        title = f"The gang of {self._total} is not complete; its barriers wait for"
        if len(self._missing) == constants.READINESS_MAX_MISSING:
            title += ", among others"
        return _build_section(title, ("TASK", "REASON"), rows)

    def _describe_failures(self) -> Iterable[_Line]:
        records = [
            record
            for record in self._observed.list_events()
            if record.type == "Warning" and record.reason in _FAILURES
        ]
        return self._build_events("Failures so far", records, _SHOWN_FAILURES)

    def _describe_events(self) -> Iterable[_Line]:
        records = self._observed.list_events()
        yield from self._build_events("Events", records, _SHOWN_EVENTS)
        created = parse_time(self._observed.framework["metadata"].get("creationTimestamp"))
        horizon = self._now - _EVENT_LIFETIME
        is_whole = created is None or created >= horizon
        if self._observed.events is None or is_whole or any(e.first_at < horizon for e in records):
            return
        yield "Older Events are gone: a cluster keeps them for one hour by default.", 0

    def _build_events(
        self, title: str, records: Sequence[EventRecord], most: int
    ) -> Iterable[_Line]:
        shown = records if self._shows_all else records[-most:]
        rows = [record.build_row(self._now) for record in shown]
        if len(shown) < len(records):
            title += f" (the last {len(shown)} of {len(records)}; --all shows all)"
        return _build_section(title, EVENT_HEADER, rows)


def _decode(framework: Object) -> tuple[FrameworkSpec, FrameworkStatus | None]:
    """Decode spec and status; the view has the reason if one cannot be decoded."""
    try:
        spec = decode_spec(framework.get("spec"))
    except FieldErrors:
        spec = FrameworkSpec()
    try:
        return spec, decode_status(framework.get("status"))
    except FieldErrors:
        return spec, None


def _describe_state(view: GangView, status: FrameworkStatus | None, now: datetime) -> str:
    if status is None:
        return view.state
    age = format_age(status.transition_time.isoformat(), now)
    return f"{view.state} for {age}, attempt {view.attempt} ({status.state})"


def _needs_attention(task: TaskLine) -> bool:
    has_trouble = task.phase in {TaskPhase.RESTARTING, TaskPhase.RETRYING}
    return bool(task.note) or task.is_own_failure or has_trouble


def _build_task_row(row: TaskRow) -> list[str]:
    task = row.line
    return [row.name, task.state, str(task.attempt), task.note]


def _build_section(
    title: str, header: Sequence[str], rows: Iterable[Sequence[str]]
) -> Iterable[_Line]:
    """Build a titled table; nothing without rows."""
    table = list(rows)
    if not table:
        return
    yield f"{title}:", 0
    lines = [f"{_INDENT}{line}".rstrip() for line in Aligner().align([header, *table])]
    start = lines[0].rindex(header[-1])
    for line in lines:
        yield line, start

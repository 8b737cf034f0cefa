"""The part of a decision that all kinds share: a job's Framework and other objects. Pure.

1. The job does not own the Framework of its name: the job is Blocked, and nothing else is done.
2. The Framework does not exist: ask whether it can be created, because the objects beside it give
   rights on a Framework of this name. Then create those objects, the RoleBindings as the last of
   them, and then the Framework. After the end of the job, it is not created again.
3. The Framework exists: create missing Services, put changed ones back, delete those that are not
   wanted any more (``services``). Replace the Framework if the job has changed (its hash differs)
   or another client has changed the Framework (its hash is that of the job, its spec is not). An
   executionType of Stop stays, because it is final.
4. The Framework is being deleted: it is not changed. It is Completed: Services are deleted if the
   job wants none now, and workers are removed that a scaler has added to a suspended job.

Invariants: no object that the job does not own is replaced or deleted; no RoleBinding is created
for a Framework that cannot be created, or to a Role that the job does not own. Except for the
Framework, the job owns only the objects that a controller has created for it (``creators``).

Example: another client sets taskNumber of the role worker to 5. The job gets the condition
FrameworkEdited with the field and what to change instead, and taskNumber becomes 2 again.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from controller.core.decision import EventType
from controller.kinds.decide.creators import update_creators
from controller.kinds.decide.decision import (
    Action,
    Create,
    CreateKey,
    Decision,
    EmitEvent,
    Replace,
    Snapshot,
    TryCreate,
    WriteStatus,
)
from controller.kinds.decide.ownership import (
    HASH_ANNOTATION,
    build_labels,
    find_difference,
    get_metadata,
    hash_spec,
    is_owned,
    mark,
)
from controller.kinds.decide.services import SERVICE, plan_services
from controller.kinds.decide.workers import decode_workers
from framework.api import codec, constants
from framework.api.fielderrors import FieldErrors
from framework.api.types import ExecutionType, Framework
from framework.kinds.compiled import Compiled, Object
from framework.kinds.observing import (
    BLOCKED,
    EDITED,
    INVALID_SPEC,
    WORKERS_FAILED,
    AddedCondition,
    is_completed,
    read_conditions,
)

_BINDING = "RoleBinding"
NAME_TAKEN, REFUSED = "NameTaken", "Refused"


@dataclass(frozen=True, slots=True)
class Plan:
    """The actions for the objects of a job."""

    question: tuple[Action, ...] = ()
    """The dry run that asks whether the Framework can be created, before all creates."""
    creates: tuple[Action, ...] = ()
    """Objects beside the Framework, which are created before it."""
    framework: tuple[Action, ...] = ()
    """The create or replacement of the Framework."""
    changes: tuple[Action, ...] = ()
    """Services that are put back, or not wanted any more."""
    added_conditions: tuple[AddedCondition, ...] = ()
    """Problems that the status shows."""
    has_more: bool = False
    """Whether Services are left for the next decision."""
    has_settled_services: bool = False
    """Whether the Services were compared, and all are as wanted."""

    @property
    def is_pending(self) -> bool:
        """Return whether something is to be created or replaced; this may fail again."""
        return bool(self.creates or self.framework)


def is_deleting(body: Mapping[str, Any]) -> bool:
    """Return whether an object is being deleted."""
    return bool(get_metadata(body).get("deletionTimestamp"))


def find_framework(snapshot: Snapshot) -> Framework | None:
    """Decode the Framework of the job; None if it does not exist or cannot be read."""
    wire = snapshot.framework
    if wire is None or not is_owned(wire, snapshot.job):
        return None
    try:
        return codec.decode_framework(wire)
    except FieldErrors:
        return None


def plan_objects(
    snapshot: Snapshot,
    compiled: Compiled,
    framework: Framework | None,
    beside: tuple[Action, ...] = (),
    *,
    is_ended: bool,
    has_services: bool = True,
) -> Plan:
    """Plan the creates, replacements and deletes of a job.

    Args:
        snapshot: the job and its objects.
        compiled: the objects that were compiled from the job.
        framework: the result of ``find_framework`` for the snapshot.
        beside: creates of this kind only, such as that of an ssh key.
        is_ended: whether the Framework of the job has been seen Completed.
        has_services: whether the job wants its Services now.
    """
    blocked = find_obstacle(snapshot)
    if blocked is not None:
        return Plan(added_conditions=(blocked,))
    stored = snapshot.framework
    if stored is not None and is_deleting(stored):
        return Plan()
    is_at_end = is_completed(framework) or (stored is None and is_ended)
    if snapshot.has_settled_services and stored is not None and not is_at_end:
        plan = Plan(has_settled_services=True)
    else:
        plan = _plan_services(snapshot, compiled if has_services else None, is_at_end=is_at_end)
    if is_at_end and not snapshot.has_new_workers:
        return plan
    if stored is not None:
        return _plan_change(snapshot, stored, compiled, plan, beside)
    body = _build_framework(compiled.framework, snapshot)
    return replace(
        plan,
        question=(TryCreate(body),),
        creates=(*_create_others(snapshot, compiled), *beside, *plan.creates),
        framework=() if plan.has_more else (Create(body),),
    )


def _plan_services(snapshot: Snapshot, compiled: Compiled | None, *, is_at_end: bool) -> Plan:
    """Plan the Services; without ``compiled``, no Service is wanted."""
    if is_at_end and compiled is not None and not snapshot.has_new_workers:
        # The Pods stay as they are, so their Services do, whatever the spec asks for now.
        return Plan()
    supporting = () if compiled is None else compiled.supporting
    wanted = (mark(body, snapshot.job) for body in supporting if body["kind"] == SERVICE)
    services = plan_services(wanted, snapshot.services)
    if is_at_end:
        # Only deletes are left to do, so other Services are no reason to decide again.
        has_more = services.has_more and bool(services.deletes)
        return Plan(changes=services.deletes, has_more=has_more)
    changes: tuple[Action, ...] = (*services.patches, *services.recreations, *services.deletes)
    return Plan(
        creates=services.creates,
        changes=changes,
        has_more=services.has_more,
        has_settled_services=not (services.creates or changes),
    )


def _create_others(snapshot: Snapshot, compiled: Compiled) -> Iterator[Action]:
    """Create the other objects; the executor compares those that exist."""
    for body in compiled.supporting:
        if body["kind"] != SERVICE:
            yield Create(mark(body, snapshot.job))


def find_obstacle(snapshot: Snapshot) -> AddedCondition | None:
    """Find why nothing can be created for the job."""
    obstacle, stored = snapshot.obstacle, snapshot.framework
    if obstacle is not None:
        more = "; it is tried again" if obstacle.reason == REFUSED else ""
        return AddedCondition(BLOCKED, obstacle.reason, f"{obstacle.message}{more}")
    if stored is None or is_owned(stored, snapshot.job):
        return None
    return AddedCondition(
        BLOCKED, NAME_TAKEN, describe_taken(constants.FRAMEWORK_KIND, get_metadata(stored)["name"])
    )


def describe_taken(
    kind: str, name: str, *, has_runtime_id: bool = False, is_owned: bool = False
) -> str:
    """Describe an object with a name that the job needs for its own object.

    Args:
        kind: its kind.
        name: its name.
        has_runtime_id: whether the job is of a kind whose runtimeId is part of names.
        is_owned: whether the job is its owner, although no controller has created it.
    """
    if is_owned:
        return (
            f"the {kind} {name} has this job as its owner, but the controller did not create it, "
            "or its creation proof was removed: find out who created it, and delete it"
        )
    more = ", and another runtimeId if its spec has one" if has_runtime_id else ""
    return (
        f"the {kind} {name} exists and does not belong to this job: delete it, or give the job "
        f"another name{more}"
    )


def _build_framework(framework: Object, snapshot: Snapshot) -> Object:
    marked = mark(framework, snapshot.job)
    annotations = {**snapshot.annotations, HASH_ANNOTATION: hash_spec(marked["spec"])}
    return {**marked, "metadata": {**marked["metadata"], "annotations": annotations}}


def _plan_change(
    snapshot: Snapshot,
    stored: Object,
    compiled: Compiled,
    plan: Plan,
    beside: tuple[Action, ...],
) -> Plan:
    # The same types as in the answers of the API server: no tuples.
    spec: Object = json.loads(json.dumps(compiled.framework["spec"]))
    digest = hash_spec(spec)
    metadata = get_metadata(stored)
    labels, annotations = metadata.get("labels") or {}, metadata.get("annotations") or {}
    is_same_job = annotations.get(HASH_ANNOTATION) == digest
    old = stored.get("spec") or {}
    if old.get("executionType") == ExecutionType.STOP:
        spec["executionType"] = ExecutionType.STOP.value
    wanted_labels, kept = build_labels(snapshot.job), snapshot.annotations
    path = find_difference(old, spec, "spec") or _find_forged(snapshot, annotations)
    has_marks = wanted_labels.items() <= labels.items() and kept.items() <= annotations.items()
    if is_same_job and not path and has_marks:
        return plan
    others = {k: v for k, v in annotations.items() if k != constants.SCALED_WORKERS_ANNOTATION}
    body = {
        **stored,
        "spec": spec,
        "metadata": {
            **metadata,
            "labels": {**labels, **wanted_labels},
            "annotations": {**others, **kept, HASH_ANNOTATION: digest},
        },
    }
    edited = (_build_edited(snapshot.job, path),) if is_same_job and path else ()
    creates = plan.creates
    if not is_same_job:
        creates = (*_create_others(snapshot, compiled), *beside, *creates)
    return replace(plan, creates=creates, framework=(Replace(body),), added_conditions=edited)


def _find_forged(snapshot: Snapshot, annotations: Mapping[str, Any]) -> str:
    """Find the annotation of scaled workers, if its workers are not those of the job; "" if not.

    It counts only while the hash is that of the job: it is written together with the hash.
    """
    name = constants.SCALED_WORKERS_ANNOTATION
    if name not in annotations:
        return ""
    stored = decode_workers(annotations[name])
    is_wanted = stored is not None and stored.workers == snapshot.workers
    return "" if is_wanted else f"metadata.annotations[{name}]"


def _build_edited(job: Object, path: str) -> AddedCondition:
    kind, name = job["kind"], get_metadata(job)["name"]
    return AddedCondition(
        EDITED,
        "EditedByOthers",
        f"{path} of the Framework {name} was changed by another client and is put back: change "
        f"the {kind} {name} instead",
    )


def build_invalid(fault: str) -> AddedCondition:
    """Build the condition of a running job whose new spec is faulty."""
    return AddedCondition(INVALID_SPEC, "InvalidSpec", f"{fault}; the job goes on as it was")


def render_faults(errors: FieldErrors) -> str:
    """Render the faults of a job for its status."""
    return "; ".join(str(error) for error in errors.errors)


def build_decision(snapshot: Snapshot, status: Object, plan: Plan) -> Decision:
    """Join the parts of a decision in their order.

    The status is written before the Framework is put back, so that a crash between them does not
    lose the condition.
    """
    is_creating = any(isinstance(action, (Create, CreateKey)) for action in plan.creates)
    status = {**status, **update_creators(snapshot, is_creating=is_creating)}
    written = (WriteStatus(status),) if status != snapshot.job.get("status") else ()
    events = tuple(_list_events(snapshot.job, status, plan.added_conditions))
    bindings = tuple(action for action in plan.creates if _is_binding(action))
    others = tuple(action for action in plan.creates if not _is_binding(action))
    created = (plan.question, others, bindings, plan.framework)
    stages = (written, events, *created, plan.changes)
    is_blocked = any(added.type == BLOCKED for added in plan.added_conditions)
    return Decision(
        tuple(stage for stage in stages if stage),
        is_blocked,
        plan.has_more,
        plan.has_settled_services,
    )


def _list_events(
    job: Object, status: Object, conditions: Sequence[AddedCondition]
) -> Iterator[EmitEvent]:
    """List an Event for each condition that is new or has another text, and for each edit.

    Workers that fail after the first ones change only the text of their condition, and have no
    further Event: there may be thousands.
    """
    stored = job.get("status")
    known = read_conditions(stored if isinstance(stored, dict) else None)
    old = {condition["type"]: condition for condition in known}
    new = {condition["type"]: condition for condition in status["conditions"]}
    for added in conditions:
        before = old.get(added.type)
        is_old = before is not None if added.type == WORKERS_FAILED else before == new[added.type]
        if not is_old or added.type == EDITED:
            text = f"{added.reason}: {added.message}"
            yield EmitEvent(EventType.WARNING, added.type, text)


def _is_binding(action: Action) -> bool:
    return isinstance(action, Create) and action.body["kind"] == _BINDING

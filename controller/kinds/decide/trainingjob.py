"""The decision about a TrainingJob. Pure.

1. The job is being deleted: do nothing. The garbage collector deletes its objects.
2. The job has ended and its Framework is gone: do nothing.
3. The spec is faulty: write field, reason and remedy into the status. A Framework that exists goes
   on; only the workers that a failed scaler has added or removed are put back.
4. The job is suspended and has no Framework: write only its status. A job that had a Framework
   stays suspended without the annotation.
5. A field that is fixed since the Framework exists was changed: name the field in the status, and
   plan with the value from before.
6. Otherwise plan the objects (``plan``), also the Secret with the ssh key, if the spec names none.
7. When the Framework is Completed, ``cleanPodPolicy`` All and Running delete the Services. The
   Framework has deleted the Pods of workers before (``completedPodPolicy`` of its role).

The wanted workers are those of the spec, unless a scaler decides them (``Snapshot.workers``).

Invariants:
- A job runs once: no Framework is created after the end of the job.
- A faulty spec ends no Framework.
- A job that was refused before it had a Framework starts when its spec is correct.

Example: ``slotsPerWorker`` of a new job is a text. The status has the condition Failed with the
field, and there is no Framework. The user corrects the spec: the conditions start again, and the
Secret, the Services and the Framework are created.
"""

from collections.abc import Sequence
from dataclasses import replace

from controller.kinds.decide.decision import CreateKey, Decision, Snapshot
from controller.kinds.decide.ownership import get_metadata, mark
from controller.kinds.decide.plan import (
    Plan,
    build_decision,
    build_invalid,
    find_framework,
    is_deleting,
    plan_objects,
    render_faults,
)
from controller.kinds.decide.workers import STATUS_FIELD, set_workers
from framework.api import constants
from framework.api.fielderrors import FieldErrors
from framework.api.types import Framework
from framework.kinds.compiled import Compiled, Object
from framework.kinds.observing import SPEC_CHANGED, AddedCondition, is_completed
from framework.kinds.trainingjob import fixed
from framework.kinds.trainingjob.compile import compile_trainingjob
from framework.kinds.trainingjob.conditions import FAILED, SUCCEEDED, SUSPENDED
from framework.kinds.trainingjob.failures import list_failures
from framework.kinds.trainingjob.status import (
    TrainingJobFacts,
    is_suspended,
    map_trainingjob_status,
)
from framework.kinds.trainingjob.types import SUSPENDED_ANNOTATION

_FINAL = frozenset({SUCCEEDED, FAILED})
SECRET_SUFFIX = "-ssh"
"""The Secret with the key of a job: its name and this."""


def decide_trainingjob(snapshot: Snapshot) -> Decision:
    """Decide about a TrainingJob."""
    job, framework = snapshot.job, find_framework(snapshot)
    if is_deleting(job):
        return Decision()
    old = _read_status(job)
    is_ended = _has_ended(old)
    if is_ended and snapshot.framework is None:
        return Decision()
    name = get_metadata(job)["name"]
    plan, values, fault = _plan(snapshot, framework, is_ended=is_ended)
    added_conditions = (*plan.added_conditions, *list_failures(name, framework))
    plan = replace(plan, added_conditions=added_conditions)
    facts = TrainingJobFacts(
        is_suspended=is_suspended(job),
        fault="" if framework else fault,
        scaler=snapshot.scaler,
        scaler_end=snapshot.scaler_end,
        added_conditions=added_conditions,
        is_still_blocked=plan.is_pending,
    )
    before = None if _is_refused_no_more(old, fault) else old
    status = map_trainingjob_status(name, framework, before, snapshot.now, facts)
    if snapshot.scaled_workers is not None:
        status[STATUS_FIELD] = snapshot.scaled_workers
    if values:
        status[fixed.STATUS_FIELD] = dict(values)
    return build_decision(snapshot, status, plan)


def _plan(
    snapshot: Snapshot, framework: Framework | None, *, is_ended: bool
) -> tuple[Plan, fixed.Values, str]:
    """Plan the objects of a job; also return its fixed fields, and the faults of its spec."""
    job, secret = snapshot.job, _name_secret(snapshot.job)
    values = fixed.read_values(_read_status(job)) if framework else {}
    try:
        held = fixed.hold_fields(_keep_suspended(job), values)
        compiled = compile_trainingjob(held.body, workers=snapshot.workers, secret=secret)
    except FieldErrors as e:
        fault = render_faults(e)
        return _plan_faulty(snapshot, framework, fault, is_ended=is_ended), values, fault
    if is_suspended(job) and snapshot.framework is None:
        return Plan(), held.values, ""
    key = (CreateKey(_build_secret(job, secret)),) if compiled.needs_key else ()
    has_services = compiled.keeps_services or not is_completed(framework)
    plan = plan_objects(
        snapshot, compiled, framework, key, is_ended=is_ended, has_services=has_services
    )
    if held.changed:
        changed = _build_changed(job, held.changed)
        plan = replace(plan, added_conditions=(*plan.added_conditions, changed))
    return plan, held.values, ""


def _build_changed(job: Object, paths: Sequence[str]) -> AddedCondition:
    name = get_metadata(job)["name"]
    return AddedCondition(
        SPEC_CHANGED,
        "FixedField",
        f"{', '.join(paths)}: changed, but fixed once the Framework exists, because all Pods must "
        "agree; the value from before stays in use: undo the change, or delete the TrainingJob "
        f"{name} and create it again",
    )


def _plan_faulty(
    snapshot: Snapshot, framework: Framework | None, fault: str, *, is_ended: bool
) -> Plan:
    """Plan the objects of a job with a faulty spec: only the workers of a failed scaler change."""
    if framework is None:
        return Plan()
    planned = Plan()
    if snapshot.has_new_workers and snapshot.framework and snapshot.workers:
        body = set_workers(snapshot.framework, snapshot.workers)
        planned = plan_objects(snapshot, Compiled(body), framework, is_ended=is_ended)
    # The Services of these workers wait until the spec is correct.
    conditions = (build_invalid(fault), *planned.added_conditions)
    return Plan(framework=planned.framework, added_conditions=conditions)


def _read_status(job: Object) -> Object:
    status = job.get("status")
    return status if isinstance(status, dict) else {}


def _has_ended(status: Object) -> bool:
    """Return whether the status has the end of a Framework; a refused job had no Framework."""
    return _has_any(status, _FINAL | {SUSPENDED}) and bool(status.get("targetWorkers"))


def _is_refused_no_more(status: Object, fault: str) -> bool:
    """Return whether a faulty spec is correct now, so that the conditions start again."""
    return _has_any(status, _FINAL) and not fault and not status.get("targetWorkers")


def _has_any(status: Object, types: frozenset[str]) -> bool:
    """Return whether a condition of one of these types is true."""
    return any(
        condition.get("type") in types and condition.get("status") == "True"
        for condition in status.get("conditions") or ()
        if isinstance(condition, dict)
    )


def _keep_suspended(job: Object) -> Object:
    """Return a suspended job with its annotation, which its user may have removed."""
    if not is_suspended(job):
        return job
    metadata = get_metadata(job)
    annotations = {**(metadata.get("annotations") or {}), SUSPENDED_ANNOTATION: "true"}
    return {**job, "metadata": {**metadata, "annotations": annotations}}


def _name_secret(job: Object) -> str:
    return f"{get_metadata(job).get('name')}{SECRET_SUFFIX}"


def _build_secret(job: Object, name: str) -> Object:
    """Build the Secret without its key. The label is for the policies of deploy/admission."""
    metadata = get_metadata(job)
    body = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {
            "name": name,
            "namespace": metadata["namespace"],
            "labels": {constants.FRAMEWORK_NAME: metadata["name"]},
        },
        "type": "Opaque",
    }
    return mark(body, job)

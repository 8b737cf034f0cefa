"""The decision about a TfJob. Pure.

1. The job is being deleted: write only its status. The garbage collector deletes its objects.
2. The job has ended and its Framework is gone: do nothing.
3. The spec is faulty: write field, reason and remedy into the status. A Framework that exists goes
   on without a change.
4. A field differs from the time when the Framework was created: write its name into the status, and
   change nothing else. The status keeps hashes of the fields.
5. Otherwise plan the objects (``plan``), and map the status of the Framework to that of the job.

Invariants:
- A job runs once: no Framework is created after the end of the job.
- A change of the spec does not change a Framework that exists.
- No Service opens a port outside of the cluster, and TensorBoard gets no directory of a node: the
  creator of the job may lack the right to create them.

Example: a running TfJob has two workers, and a user changes ``replicas`` to 3. The hash of this
field differs, so the status gets the condition SpecChanged with the path of the field and the
remedy, and the Framework keeps two workers. The user sets ``replicas`` to 2: the condition ends.
"""

from typing import Any

from controller.kinds.decide.creators import is_from_older_version
from controller.kinds.decide.decision import Decision, Snapshot
from controller.kinds.decide.ownership import get_metadata
from controller.kinds.decide.plan import (
    Plan,
    build_decision,
    build_invalid,
    find_framework,
    is_deleting,
    plan_objects,
    render_faults,
)
from framework.api.fielderrors import FieldErrors
from framework.kinds.compiled import Compiled, Object
from framework.kinds.observing import SPEC_CHANGED, AddedCondition
from framework.kinds.tfjob.compile import compile_tfjob
from framework.kinds.tfjob.fixed import STATUS_FIELD, find_changed, hash_fields, read_hashes
from framework.kinds.tfjob.status import TfJobFacts, map_tfjob_status

_ENDED = "Done"
_RESTART_POLICY = ".restartPolicy"


def decide_tfjob(snapshot: Snapshot) -> Decision:
    """Decide about a TfJob."""
    job, framework = snapshot.job, find_framework(snapshot)
    old: Any = job.get("status") or {}
    if is_deleting(job):
        status = map_tfjob_status(framework, old, snapshot.now, TfJobFacts(is_deleting=True))
        return build_decision(snapshot, status, Plan())
    is_ended = old.get("phase") == _ENDED
    if is_ended and snapshot.framework is None:
        return Decision()
    fault, translation, hashes = "", "", read_hashes(old) if framework else {}
    try:
        compiled = _compile(job)
    except FieldErrors as e:
        fault = render_faults(e)
        plan = Plan(added_conditions=(build_invalid(fault),)) if framework else Plan()
    else:
        current = hash_fields(job)
        changed = find_changed(hashes, current) if hashes else ""
        hashes = hashes or current
        if changed:
            plan = Plan(added_conditions=(_build_changed(job, changed),))
        else:
            plan = plan_objects(snapshot, compiled, framework, is_ended=is_ended)
        translation = _find_translation(compiled)
    facts = TfJobFacts(
        fault="" if framework else fault,
        translation=translation,
        added_conditions=plan.added_conditions,
        is_still_blocked=plan.is_pending,
    )
    status = map_tfjob_status(framework, old, snapshot.now, facts)
    if hashes:
        status[STATUS_FIELD] = dict(hashes)
    return build_decision(snapshot, status, plan)


def _build_changed(job: Object, path: str) -> AddedCondition:
    name = get_metadata(job)["name"]
    return AddedCondition(
        SPEC_CHANGED,
        "FixedField",
        f"{path} was changed, and a TfJob is fixed once its Framework exists; the job goes on as "
        f"it was: delete the TfJob {name} and create it again, or undo the change",
    )


def _compile(job: Object) -> Compiled:
    """Compile a TfJob; refuse objects that its creator may not be allowed to create.

    Raises:
        FieldErrors: with all faults.
    """
    # The selector of a Deployment cannot be changed: that of an older version has no such label.
    board_id = "" if is_from_older_version(job) else str(get_metadata(job).get("uid") or "")
    return compile_tfjob(job, board_id=board_id, is_by_controller=True)


def _find_translation(compiled: Compiled) -> str:
    """Find the notes about the restartPolicy of the templates."""
    notes = [str(note) for note in compiled.notes if note.path.endswith(_RESTART_POLICY)]
    return "; ".join(notes)

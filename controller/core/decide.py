"""decide: from a Snapshot to a Decision. It is pure and deterministic.

1. Check the limits. If the Framework exceeds one, continue with a spec that asks for no more than
   the status has.
2. Take the stored status. A new Framework gets an initial status.
3. Scale. If this changes the status, go to step 6: the change is stored before it is used.
4. Move the Framework's machine, and with it the machines of its Tasks. Decide the epoch of its
   processes.
5. Ask for a live GET of each create that no watch has confirmed, and decide the roster.
6. Add this controller's key, the conditions, the observed generation and the progress of the
   training to the status.

Invariants:

- Equal input gives an equal decision.
- The actions rely only on what is stored, or on what this decision's status write stores.

Example: a new Framework gives a status in AttemptCreationPending with all its Tasks, and the action
to create the ConfigMap. The worker writes the status first, so a crash in between loses nothing.

Rules: docs/design/state-machines.md, "One decision".
"""

from dataclasses import replace

from controller.core.actions import Action, CreateConfigMap, CreateGangKey, CreatePod, Urgency
from controller.core.decision import Decision
from controller.core.draft import Draft
from controller.core.leaving import leaving_policy
from controller.core.machines import framework_machine, scaling
from controller.core.objects import creators
from controller.core.objects.ownership import request_unconfirmed
from controller.core.policies import coalescing, limits
from controller.core.recovery.recovery_policy import decide_recovery
from controller.core.roster.roster_policy import RosterOutcome, decide_roster
from controller.core.settings import Settings
from controller.core.snapshot import Snapshot
from controller.core.status.conditions import update_conditions
from controller.core.status.initial_status import new_framework_status
from controller.core.status.status_events import list_events
from controller.core.status.training_progress import follow_training
from framework.api.states import FrameworkState
from framework.api.types import Framework, FrameworkStatus


def decide(snapshot: Snapshot, settings: Settings) -> Decision:
    """Decide what to store, publish, send and report for one Framework."""
    hold = limits.find_hold(snapshot, settings.limits)
    if hold is not None:
        snapshot = limits.cap_spec(snapshot)
    persisted = snapshot.framework.status
    now = snapshot.now.replace(microsecond=0)
    keys = creators.add_key((), settings.creator_key)
    status = persisted or new_framework_status(snapshot.framework, now, keys)
    draft = Draft(snapshot, settings, status)
    if hold is not None:
        limits.apply_hold(draft, hold)
    is_scaled = scaling.scale(draft)
    outcome = RosterOutcome()
    if is_scaled:
        draft.raise_urgency(Urgency.AGAIN)
    else:
        framework_machine.sync_framework(draft)
        decide_recovery(draft)
        request_unconfirmed(draft)
        leaving_policy.report_unknown_nodes(draft)
        outcome = decide_roster(draft)
    return _finish(draft, outcome)


def _finish(draft: Draft, outcome: RosterOutcome) -> Decision:
    creators.record_key(draft)
    status = follow_training(draft, _describe(draft, outcome))
    framework = replace(draft.snapshot.framework, status=status)
    is_changed = status != draft.persisted
    changes = list_events(draft.persisted, status) if is_changed else ()
    return Decision(
        status=status if is_changed else None,
        urgency=_find_urgency(draft, outcome, status),
        publication=outcome.publication,
        readiness_checked_at=outcome.readiness_checked_at,
        actions=tuple(_bind(action, framework) for action in draft.actions),
        events=(*changes, *draft.events),
        snapshots=tuple(draft.snapshots),
        wake_at=draft.wake_at,
        waits=frozenset(draft.waits),
    )


def _find_urgency(draft: Draft, outcome: RosterOutcome, status: FrameworkStatus) -> Urgency:
    """Find how soon the status must be written, and whether another decision must follow."""
    if status == draft.persisted:
        return Urgency.AGAIN if draft.urgency is Urgency.AGAIN else Urgency.NONE
    needs = [action.urgency for action in draft.actions]
    release = outcome.urgency if outcome.publication else Urgency.NONE
    needed = max(draft.urgency, release, *needs)
    if needed >= Urgency.NOW:
        return needed
    if Urgency.LATER in needs and not coalescing.is_any_task_unended(status):
        # The end of the attempt depends on these actions.
        return Urgency.NOW
    return Urgency.LATER if coalescing.is_any_task_changing(status) else Urgency.SOON


def _describe(draft: Draft, outcome: RosterOutcome) -> FrameworkStatus:
    """Add the conditions and the observed generation to the drafted status."""
    status = draft.freeze()
    persisted = draft.persisted
    if persisted is not None and persisted.state is FrameworkState.COMPLETED:
        # A new version of the controller does not rewrite all Completed Frameworks.
        return status
    status = update_conditions(draft, status, outcome)
    generation = draft.snapshot.framework.metadata.generation or None
    if status.observed_generation == generation:
        return status
    return replace(status, observed_generation=generation)


def _bind(action: Action, framework: Framework) -> Action:
    """Give a create the Framework with the status that this decision stores."""
    if isinstance(action, (CreateConfigMap, CreateGangKey, CreatePod)):
        return replace(action, framework=framework)
    return action

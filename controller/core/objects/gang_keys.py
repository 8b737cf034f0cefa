"""The gang key: a Secret of the attempt, created only if a Pod template refers to it.

1. If no Pod template refers to the gang key, Pods need none.
2. The controller may create Secrets but not read them. Only the answer to its own create shows that
   the Secret exists, so a new controller process creates it again before it creates a Pod.
3. No Pod of the attempt is created before that answer (``ensure_gang_key``).
4. The attempt's ConfigMap owns the Secret, which is therefore gone before the next attempt starts.

If another client deletes the Secret, the controller does not notice. Pods that are created later
do not start until a new controller process, or the next attempt, creates it with a new key.

Rules: docs/rendezvous.md, "Gang key"; docs/design/invariants.md, I16.
"""

from controller.core.actions import CreateGangKey, find_urgency
from controller.core.draft import Draft
from framework.api.naming import build_gang_key_name
from framework.api.templatefacts import find_facts


def is_gang_key_wanted(draft: Draft) -> bool:
    """Return whether a Pod template of the Framework refers to the gang key."""
    name = draft.snapshot.framework.metadata.name
    facts = (find_facts(role.task.pod) for role in draft.spec.task_roles)
    return any(each.refers_to_gang_key(name) for each in facts)


def ensure_gang_key(draft: Draft) -> bool:
    """Return whether Pods may be created: the Secret exists, or no template refers to it.

    If not, ask for its create, once in a decision.
    """
    if not draft.lacks_gang_key and not draft.compute_once(_is_gang_key_ready):
        draft.lacks_gang_key = True
        _create(draft, draft.status.attempt_status.configmap_uid or "")
    return not draft.lacks_gang_key


def _is_gang_key_ready(draft: Draft) -> bool:
    is_there = draft.snapshot.gang_key_owner == draft.status.attempt_status.configmap_uid
    return is_there or not is_gang_key_wanted(draft)


def _create(draft: Draft, configmap_uid: str) -> None:
    persisted = draft.persisted
    is_persisted = persisted is not None and persisted.attempt_status.configmap_uid == configmap_uid
    draft.add_action(
        CreateGangKey(
            draft.snapshot.framework,
            build_gang_key_name(draft.snapshot.framework.metadata.name),
            configmap_uid,
            f"Pods of attempt {draft.status.attempt_status.id} refer to it",
            find_urgency(is_persisted=is_persisted),
        )
    )

"""Provenance: creation proofs, the signatures by which objects of our own creates are recognized.

1. Every controller process has an Ed25519 key pair, made at its start. The private key never leaves
   the process; the public key is in the attempt's status before the first create
   (``controller/core/objects/creators.py``).
2. Each created object carries an annotation: a nonce, and a signature over the nonce, the kind, the
   namespace, the name, the UIDs of Framework and owner, and the identity of the attempt.
3. An object is proven when the answer to our own create carried its UID, when the persisted status
   names its UID, or when its signature fits one of the persisted keys. A proof counts for one UID:
   when an object has gone before its UID was recorded, a copy of its annotation proves nothing.

Each object is checked once per UID and annotation, and again when the keys have changed.

More: docs/design/state-machines.md, "Creation proofs".
"""

from controller.core.actions import ObjectKind, Verb
from controller.store.creation_proofs import KeyPair, find_signer
from controller.store.entry import Entry
from controller.store.object_identity import find_recorded_uid
from controller.store.observed import Name
from framework.api import constants
from framework.api.pods import ConfigMapView, ObjectView, PodView
from framework.api.types import Framework
from framework.clock import KeySource

_DOMAIN = constants.CREATION_PROOF_ANNOTATION + "/1"
# Proofs of objects that are gone, for each Framework. They are few: those of Pods that another
# client deletes before their UIDs are recorded.
_MAX_SPENT = 1000


class Signer:
    """The key pair of this process."""

    def __init__(self, keys: KeySource) -> None:
        """Make the key pair."""
        self._pair = KeyPair(keys)
        self.public_key = self._pair.public_key

    def sign(self, framework: Framework, view: PodView | ConfigMapView) -> str:
        """Build the creation proof of an object that is about to be created for a Framework."""
        return self._pair.sign(_list_parts(framework, view))


def record_created(entry: Entry, name: Name, view: PodView | ConfigMapView) -> None:
    """Take the answer to our own create, after the object was put into the entry."""
    known = entry.observed.find_object(*name)
    if known is not None and known.uid == view.uid:
        entry.observed.proven.add(view.uid)
    else:
        # A list that was newer than the answer showed another object, or none. Another object may
        # have a copy of the proof, so remember the UID to which the proof belongs.
        _spend(entry, view)


def record_seen(
    entry: Entry,
    name: Name,
    before: PodView | ConfigMapView | None,
    after: PodView | ConfigMapView,
) -> None:
    """Record an object, or a new version of it, whose proof is to be checked."""
    if before is not None and before.uid != after.uid:
        record_gone(entry, name, before)
        before = None
    is_known = before is not None and _read_proof(before) == _read_proof(after)
    if not is_known and after.uid not in entry.observed.proven:
        entry.observed.unchecked.add(name)


def record_gone(entry: Entry, name: Name, view: PodView | ConfigMapView) -> None:
    """Record the end of an object, so that its proof does not count for another one."""
    known = entry.observed
    is_own = view.uid in known.proven or (name in known.unchecked and is_proven(entry, view))
    known.unchecked.discard(name)
    known.proven.discard(view.uid)
    if is_own and find_recorded_uid(known.framework, *name) != view.uid:
        _spend(entry, view)


def check_objects(entry: Entry) -> None:
    """Check the new objects, or all objects if the keys have changed.

    An object whose create is in flight is left out: the answer proves it without a check.
    """
    known = entry.observed
    keys = _read_keys(entry)
    if keys != known.checked_keys:
        known.checked_keys = keys
        known.unchecked.update((ObjectKind.POD, name) for name in known.pods)
        if known.configmap is not None:
            known.unchecked.add((ObjectKind.CONFIGMAP, known.configmap.name))
    in_flight = {
        (key.kind, key.name) for key in entry.outcomes.in_flight if key.verb is Verb.CREATE
    }
    for name in known.unchecked - in_flight:
        view = known.find_object(*name)
        if view is None or view.uid in known.proven:
            continue
        is_recorded = view.uid == find_recorded_uid(known.framework, *name)
        if is_recorded or is_proven(entry, view):
            known.proven.add(view.uid)
    known.unchecked &= in_flight
    _accept_recorded_configmap(entry)


def _accept_recorded_configmap(entry: Entry) -> None:
    """Record that the ConfigMap which the status names is ours.

    The status of an older controller may be read after the ConfigMap was checked. It has no keys,
    so there is no change of keys that causes another check.
    """
    known, configmap = entry.observed, entry.observed.configmap
    if configmap is None:
        return
    if configmap.uid == find_recorded_uid(known.framework, ObjectKind.CONFIGMAP, configmap.name):
        known.proven.add(configmap.uid)


def is_proven(entry: Entry, view: PodView | ConfigMapView) -> bool:
    """Return whether a controller is known to have created the object for this Framework."""
    known = entry.observed
    if view.uid in known.proven:
        return True
    framework, proof = known.framework, _read_proof(view)
    if framework is None or not proof or known.spent_proofs.get(proof, view.uid) != view.uid:
        return False
    keys = reversed(_read_keys(entry))
    return bool(find_signer(proof, keys, _list_parts(framework, view)))


def _spend(entry: Entry, view: PodView | ConfigMapView) -> None:
    """Remember which object had a proof, now that it is gone."""
    known = entry.observed
    known.spent_proofs[_read_proof(view)] = view.uid
    if len(known.spent_proofs) > _MAX_SPENT:
        del known.spent_proofs[next(iter(known.spent_proofs))]


def _read_keys(entry: Entry) -> tuple[str, ...]:
    status = entry.observed.framework.status if entry.observed.framework else None
    return status.attempt_status.creator_keys if status else ()


def _read_proof(view: ObjectView) -> str:
    return view.annotations.get(constants.CREATION_PROOF_ANNOTATION, "")


def forget(entry: Entry) -> None:
    """Forget all proofs: the server's storage was restored from a backup."""
    entry.observed.proven.clear()
    entry.observed.spent_proofs.clear()
    entry.observed.checked_keys = ()


def _list_parts(framework: Framework, view: PodView | ConfigMapView) -> list[str]:
    """List the parts of an object's identity that its proof signs."""
    if isinstance(view, PodView):
        identity = [constants.POD_KIND, view.task_uid, view.task_attempt_id]
    else:
        identity = [constants.CONFIGMAP_KIND, view.attempt_id]
    meta, owner_uid = framework.metadata, view.owner.uid if view.owner else ""
    return [_DOMAIN, meta.namespace, view.name, meta.uid, owner_uid, *identity]

"""Operations: the requests of one action, and the meaning of each answer.

1. A create: the answer proves that the object is ours. AlreadyExists: read the object live, and
   adopt it if it is proven to be ours.
2. The create of a gang key: the Secret cannot be read, so AlreadyExists is judged by the creates
   that this process has sent.
3. A delete: the object is terminating or absent. NotFound and a UID that differs mean absent, too.
4. A get: the object is ours, of another owner, or absent.

The executor calls them; they write their results into the store. Any other answer is a KubeError,
which the executor records.

Invariant: an answer says nothing of an object that took the name after the request was sent
(``Observed.name_revisions``).

Example: the answer to the create of a Pod was lost, and the Pod is created again. The server
answers AlreadyExists. The live GET shows a Pod with our creation proof, which is adopted: the
create has succeeded.

    KubeError
    `-- HeldError       a finalizer holds an object that was deleted by force
"""

from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from typing import assert_never

from controller.core.actions import (
    Action,
    ActionKey,
    CreateConfigMap,
    CreateGangKey,
    CreatePod,
    DeleteObject,
    GetObject,
    ObjectKind,
)
from controller.core.objects.creators import is_proof_needed
from controller.core.objects.object_templates import (
    PodTooLargeError,
    build_configmap,
    build_gang_key,
    build_pod,
)
from controller.execute.gang_secrets import generate_gang_secrets
from controller.runtime import Runtime
from controller.store.entry import Entry
from controller.store.frameworks import decode_status
from controller.store.object_identity import RESOURCES, find_recorded_uid, parse_object
from controller.store.provenance import Signer, is_proven
from controller.store.store import Store
from framework.api import constants
from framework.api.pods import ConfigMapView, PodView
from framework.clock import KeySource
from framework.kube.errors import (
    AlreadyExistsError,
    ApiError,
    ConflictError,
    KubeError,
    NotFoundError,
    TooLargeError,
)
from framework.kube.resources import PODS, SECRETS, Object

ACTION_TIMEOUT_SECONDS = 30.0


class HeldError(KubeError):
    """A forced delete did not remove the object: a finalizer holds it."""

    @property
    def is_transient(self) -> bool:
        """Return True: its finalizers may be removed later."""
        return True


class Operations:
    """Sends the requests of actions, and records the answers in the store."""

    def __init__(
        self, runtime: Runtime, store: Store, keys: KeySource, signer: Signer | None
    ) -> None:
        """Prepare; ``keys`` makes gang keys, ``signer`` creation proofs."""
        self._client = runtime.client
        self._store = store
        self._clock = runtime.clock
        self._metrics = runtime.metrics
        self._keys = keys
        self._signer = signer

    async def send(self, entry: Entry, action: Action) -> None:
        """Send the requests of an action.

        Raises:
            KubeError: the action failed, and may be tried again later.
        """
        match action:
            case CreateConfigMap() | CreatePod():
                await self._create(entry, action)
            case CreateGangKey():
                await self._create_gang_key(entry, action)
            case DeleteObject():
                await self._delete(entry, action)
            case GetObject():
                await self._look_up(entry, action.kind, action.name)
            case _:
                assert_never(action)

    async def _create(self, entry: Entry, action: CreateConfigMap | CreatePod) -> None:
        key = action.key
        try:
            with self._counted(key):
                created = await self._client.create(
                    RESOURCES[key.kind],
                    entry.namespace,
                    # Not in a variable, so that the client can free the body before it waits for
                    # the answer.
                    self._build(action),
                    timeout_seconds=ACTION_TIMEOUT_SECONDS,
                )
        except AlreadyExistsError:
            # The answer to an earlier create may have been lost: only a proven object is adopted.
            if not await self._look_up(entry, key.kind, key.name):
                raise
        else:
            self._store.objects[key.kind].record_created(entry, created, self._clock.now())

    def _build(self, action: CreateConfigMap | CreatePod) -> Object:
        """Build an object, with the proof by which a create whose answer is lost is recognized."""
        if isinstance(action, CreatePod):
            body = _build_pod(action)
        else:
            body = build_configmap(action.framework)
        if self._signer is not None:
            proof = self._signer.sign(action.framework, parse_object(action.key.kind, body))
            body["metadata"]["annotations"][constants.CREATION_PROOF_ANNOTATION] = proof
        return body

    async def _create_gang_key(self, entry: Entry, action: CreateGangKey) -> None:
        """Create the Secret, which this controller has no right to read.

        A Secret that exists is not ours if this process created the attempt's ConfigMap, whose UID
        the Secret needs, and every create of the Secret was answered.
        """
        body = build_gang_key(action.framework, generate_gang_secrets(self._keys))
        try:
            with self._counted(action.key):
                await self._client.create(
                    SECRETS, entry.namespace, body, timeout_seconds=ACTION_TIMEOUT_SECONDS
                )
        except AlreadyExistsError:
            if entry.observed.own_configmap == action.identity:
                raise
        except KubeError as e:
            if _may_be_applied(e):
                # From now on, a Secret that exists may be ours.
                self._store.record_unanswered_gang_key(entry)
            raise
        self._store.record_gang_key(entry, action.identity)

    async def _delete(self, entry: Entry, action: DeleteObject) -> None:
        revision = entry.observed.name_revisions[action.kind, action.name]
        left = await self._request_delete(entry, action)
        if action.kind is ObjectKind.FRAMEWORK:
            self._record_framework(entry, action.uid, left)
        elif left is not None:
            self._store.objects[action.kind].record_terminating(entry, left)
            if action.grace_seconds == 0:
                raise HeldError(f"{action.kind} {action.name} is held by a finalizer")
        elif entry.observed.name_revisions[action.kind, action.name] == revision:
            self._store.objects[action.kind].record_absent(entry, action.name, action.uid)

    async def _request_delete(self, entry: Entry, action: DeleteObject) -> Object | None:
        """Send a delete; return the object if it still exists, None if it is absent."""
        try:
            with self._counted(action.key):
                left = await self._client.delete(
                    RESOURCES[action.kind],
                    entry.namespace,
                    action.name,
                    uid=action.uid,
                    resource_version=action.resource_version,
                    grace_seconds=action.grace_seconds,
                    propagation=action.propagation,
                    timeout_seconds=ACTION_TIMEOUT_SECONDS,
                )
        except NotFoundError:
            return None
        except ConflictError:
            # If the UID differs, the instance is gone; but a conflict may have another reason.
            if await self._is_there(entry, action):
                raise
            return None
        return left if left is not None and _still_exists(left, action.uid) else None

    def _record_framework(self, entry: Entry, uid: str, left: Object | None) -> None:
        """Record the result of the delete of a Framework, so that it is not sent again.

        The watch may show it later.
        """
        if left is not None:
            self._store.frameworks.apply(left)
        elif entry.observed.framework is not None and entry.observed.framework.metadata.uid == uid:
            self._store.frameworks.drop(entry)

    async def _is_there(self, entry: Entry, action: DeleteObject) -> bool:
        """Return whether the instance to be deleted exists, by a live GET."""
        try:
            wire = await self._client.get(
                RESOURCES[action.kind],
                entry.namespace,
                action.name,
                timeout_seconds=ACTION_TIMEOUT_SECONDS,
            )
        except NotFoundError:
            return False
        return bool(wire["metadata"].get("uid") == action.uid)

    async def _look_up(self, entry: Entry, kind: ObjectKind, name: str) -> bool:
        """Read an object live; return whether it is ours and was not seen deleted."""
        revision = entry.observed.name_revisions[kind, name]
        try:
            wire = await self._client.get(
                RESOURCES[kind],
                entry.namespace,
                name,
                timeout_seconds=ACTION_TIMEOUT_SECONDS,
            )
        except NotFoundError:
            if entry.observed.name_revisions[kind, name] == revision:
                self._store.objects[kind].record_absent(entry, name, None)
            return False
        decode_status(entry)
        if _is_ours(entry, kind, parse_object(kind, wire)):
            return self._store.objects[kind].record_own(entry, wire, self._clock.now())
        if entry.observed.name_revisions[kind, name] == revision:
            self._store.objects[kind].record_foreign(entry, name, str(wire["metadata"].get("uid")))
        return False

    @contextmanager
    def _counted(self, key: ActionKey) -> Iterator[None]:
        """Count the request in this block by its answer, and pass its error on."""
        started = self._clock.monotonic()
        try:
            yield
        except KubeError as e:
            self._count(key, e, started)
            raise
        self._count(key, None, started)

    def _count(self, key: ActionKey, error: KubeError | None, started: float) -> None:
        seconds = self._clock.monotonic() - started
        self._metrics.count_answer(RESOURCES[key.kind].plural, key.verb, error, seconds)


def _build_pod(action: CreatePod) -> Object:
    """Build a Pod; if it is too large, raise the error with which the server would refuse it."""
    try:
        return build_pod(action.framework, action.task)
    except PodTooLargeError as e:
        raise TooLargeError(
            status=HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
            reason="RequestEntityTooLarge",
            message=str(e),
            body={"status": "Failure", "message": str(e)},
            retry_after_seconds=None,
            method="POST",
            path=f"{PODS.plural} {action.name}",
        ) from e


def _may_be_applied(error: KubeError) -> bool:
    """Return whether the server may have carried out the request that this error answers."""
    return not isinstance(error, ApiError) or error.status >= HTTPStatus.INTERNAL_SERVER_ERROR


def _still_exists(wire: Object, uid: str) -> bool:
    """Return whether a deleted object still exists: it has finalizers, or a grace period."""
    meta = wire.get("metadata") or {}
    return meta.get("uid") == uid and bool(
        meta.get("finalizers") or meta.get("deletionGracePeriodSeconds"),
    )


def _is_ours(entry: Entry, kind: ObjectKind, view: PodView | ConfigMapView) -> bool:
    """Return whether the status names the object, or it is this attempt's and known to be ours."""
    framework = entry.observed.framework
    if view.uid == find_recorded_uid(framework, kind, view.name):
        # Ours even if another client changed ownerReferences.
        return True
    if framework is None or framework.status is None:
        return False
    attempt = framework.status.attempt_status
    if view.owner is None or view.owner.uid not in (framework.metadata.uid, attempt.configmap_uid):
        return False
    return not is_proof_needed(attempt) or is_proven(entry, view)

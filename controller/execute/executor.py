"""The executor: sends actions as tracked tasks and records what each answer means.

1. ``withdraw`` drops the unsent actions of a Framework that its newest decision does not want,
   before that decision is written. ``submit`` then replaces the others by those of the decision.
2. While the action queue allows it, take an action, record it as in flight, and send it in a task
   of its own if the write gate is open.
3. A create: the answer proves that the object is ours. AlreadyExists: read the object live, and
   adopt it if it is proven to be ours (``_look_up``).
4. A delete: the object is terminating or absent. NotFound and a UID that differs mean absent, too.
5. A get: the object is ours, of another owner, or absent.
6. Anything else is a failure, with a growing delay until the next try.
7. Wake the Framework's key: the next decision reads the outcome.

Invariants:
- An action in flight is never sent again, and an action that was sent since the last decision began
  is not sent once more by that decision.
- An answer says nothing of an object that took the name after the request was sent
  (``Observed.name_revisions``).

Example: the answer to the create of a Pod is lost. The failure has code 0; after its delay the next
decision creates the Pod again, the server answers AlreadyExists, and the live GET shows a Pod with
our creation proof, which is adopted.

Rules: docs/design/state-machines.md, "Actions".
"""

import asyncio
import logging
from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import timedelta
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
    Verb,
)
from controller.core.objects.creators import is_proof_needed
from controller.core.objects.object_templates import (
    PodTooLargeError,
    build_configmap,
    build_gang_key,
    build_pod,
)
from controller.core.snapshot import Failure
from controller.execute.gang_secrets import generate_gang_secrets
from controller.gate.write_gate import ALWAYS_OPEN, WriteGate
from controller.queues.action_queue import ActionQueue
from controller.report.repeat_filter import RepeatFilter
from controller.serve.metrics import Metrics
from controller.store.entry import Entry
from controller.store.frameworks import decode_status
from controller.store.object_identity import RESOURCES, find_recorded_uid, parse_object
from controller.store.provenance import Signer, is_proven
from controller.store.store import Store
from framework.api import constants, gojson
from framework.api.pods import ConfigMapView, PodView
from framework.api.text import cut_text
from framework.clock import Clock, KeySource, SystemKeys
from framework.kube.client import KubeClient
from framework.kube.errors import (
    AlreadyExistsError,
    ApiError,
    ConflictError,
    KubeError,
    NotFoundError,
    TooLargeError,
)
from framework.kube.resources import PODS, SECRETS, Object

logger = logging.getLogger(__name__)

ACTION_TIMEOUT_SECONDS = 30.0
# Requests of one namespace: few enough that a late decision knows more, and many enough for a
# distant API server. Twice as many in all, so that the requests of one namespace that hang, for
# example in a webhook, leave slots to the others.
MAX_NAMESPACE_ACTIONS = 32
MAX_CONCURRENT_ACTIONS = 2 * MAX_NAMESPACE_ACTIONS
_BACKOFF_SECONDS = 0.25
_MAX_BACKOFF_SECONDS = 30.0
# Of each of the two texts of a failure: the failures of one Framework share them, because ten
# thousand Pods of one template may be refused with texts that its author has made long.
_TEXT_BYTES = 16 * 1024 * 1024
_LEAST_TEXT_BYTES = 1024


class HeldError(KubeError):
    """A forced delete left the object where it was: try again, but not at once."""

    @property
    def is_transient(self) -> bool:
        """Return True: its finalizers may be removed later."""
        return True


class DefectError(KubeError):
    """An action that this program cannot carry out, by an error of its own: tried again later."""

    @property
    def is_transient(self) -> bool:
        """Return True: the object may change."""
        return True


class Executor:
    """Sends actions. ``start`` gives it the task group its requests run in."""

    def __init__(
        self,
        client: KubeClient,
        store: Store,
        *,
        clock: Clock,
        metrics: Metrics,
        on_answer: Callable[[str], None],
        write_gate: WriteGate = ALWAYS_OPEN,
        keys: KeySource | None = None,
        signer: Signer | None = None,
    ) -> None:
        """Prepare; ``on_answer`` is called with the key of each answer; ``keys`` None: secret.

        ``signer`` has the key pair whose public key is in the settings of decisions.
        """
        self._client = client
        self._store = store
        self._clock = clock
        self._metrics = metrics
        self._on_answer = on_answer
        self._write_gate = write_gate
        self._unsent = ActionQueue(MAX_CONCURRENT_ACTIONS, MAX_NAMESPACE_ACTIONS)
        self._keys = keys or SystemKeys()
        self._signer = signer
        self._failure_log = RepeatFilter(clock)
        self._tasks: asyncio.TaskGroup | None = None
        self._idle = asyncio.Event()
        self._idle.set()

    def start(self, tasks: asyncio.TaskGroup) -> None:
        """Run requests in ``tasks``."""
        self._tasks = tasks

    def begin_decision(self, entry: Entry) -> None:
        """Drop what the next decision must not see: what the last one did not know of is known now.

        Outcomes for another Framework of this name are dropped, too.
        """
        entry.outcomes.follow(entry.observed.incarnation)
        entry.outcomes.sent.clear()

    def withdraw(self, key: str, wanted: Iterable[Action]) -> bool:
        """Drop the unsent actions of a Framework that a new decision does not want.

        The others rely on what is stored, so they may be sent while that decision is written.

        Returns:
            Whether there were unsent actions.
        """
        has_unsent = self._unsent.has_waiting(key)
        self._unsent.retain(key, wanted)
        return has_unsent

    def submit(self, key: str, actions: Iterable[Action]) -> None:
        """Replace a Framework's unsent actions and send what may be sent."""
        entry = self._store.find(key)
        sent = entry.outcomes.sent if entry else frozenset()
        # While the decision was written, the one before may have sent the same: never twice.
        self._unsent.replace(key, (action for action in actions if action.key not in sent))
        self._pump()

    def forget(self, key: str) -> None:
        """Drop what is unsent of a Framework that is gone."""
        self._unsent.forget(key)

    def get_window(self, namespace: str) -> int:
        """Return how many requests of a namespace may run at once."""
        return self._unsent.get_window(namespace)

    async def drain(self, timeout_seconds: float) -> None:
        """Send nothing more; wait for what is in flight, but not for longer than given."""
        self._unsent.clear()
        self._tasks = None
        try:
            async with asyncio.timeout(timeout_seconds):
                await self._idle.wait()
        except TimeoutError:
            logger.warning("requests still unanswered", extra={"count": self._unsent.running})

    def forgive_outage(self) -> set[str]:
        """After an outage, let what failed only by it be tried at once; return the keys."""
        keys: set[str] = set()
        now = self._clock.now()
        for entry in self._store.walk():
            for key, failure in list(entry.outcomes.failures.items()):
                if failure.is_unknown:
                    entry.outcomes.failures[key] = replace(failure, count=0, not_before=now)
                    keys.add(entry.key)
        return keys

    def _pump(self) -> None:
        while self._tasks is not None and (taken := self._unsent.take()) is not None:
            key, action = taken
            entry = self._store.find(key)
            if entry is None or action.key in entry.outcomes.in_flight:
                self._unsent.finish(key, is_failed=False)
                continue
            entry.outcomes.in_flight.add(action.key)
            entry.outcomes.sent.add(action.key)
            self._store.record_sent(entry, action.key)
            self._idle.clear()
            name = f"{action.key.verb}-{key}-{action.key.name}"
            self._tasks.create_task(self._run(entry, action), name=name)
        self._metrics.set_actions_in_flight(self._unsent.running)

    async def _run(self, entry: Entry, action: Action) -> None:
        is_failed = False
        try:
            # This task may start later than it was made: the same step asks and sends.
            if self._write_gate.may_write():
                await self._send(entry, action)
                entry.outcomes.drop_failure(action.key)
                if action.key.verb is Verb.CREATE:
                    entry.outcomes.drop_former_failure(action.key)
        except KubeError as e:
            is_failed = True
            self._record_failure(entry, action, e)
        except Exception as e:  # noqa: BLE001 a defect that one object shows must not end the others
            is_failed = True
            self._record_failure(entry, action, DefectError(f"{type(e).__name__}: {e}"))
        finally:
            entry.outcomes.in_flight.discard(action.key)
            is_read = action.key.verb is Verb.GET
            self._unsent.finish(entry.key, is_failed=is_failed, is_read=is_read)
            if not self._unsent.running:
                self._idle.set()
            self._on_answer(entry.key)
        # Not reached when cancelled: then nothing more is to be sent.
        self._pump()

    async def _send(self, entry: Entry, action: Action) -> None:
        logger.debug("action", extra={"framework": entry.key, **_describe(action)})
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

    async def _create(self, entry: Entry, action: CreateConfigMap | CreatePod) -> None:
        key = action.key
        resource = RESOURCES[key.kind]
        started = self._clock.monotonic()
        try:
            created = await self._client.create(
                resource,
                entry.namespace,
                # Not kept here: while it waits for its answer, it is JSON.
                self._build(action),
                timeout_seconds=ACTION_TIMEOUT_SECONDS,
            )
        except AlreadyExistsError as e:
            self._count(key, e, started)
            # The answer to an earlier create may have been lost: only what is proven is adopted.
            if not await self._look_up(entry, key.kind, key.name):
                raise
            return
        except KubeError as e:
            self._count(key, e, started)
            raise
        self._count(key, None, started)
        self._store.record_created(entry, key.kind, created, self._clock.now())

    async def _create_gang_key(self, entry: Entry, action: CreateGangKey) -> None:
        """Create the Secret, which cannot be read.

        One that is there is not ours if this process made the attempt's ConfigMap, whose UID the
        Secret needs, and every create of the Secret was answered.
        """
        body = build_gang_key(action.framework, generate_gang_secrets(self._keys))
        started = self._clock.monotonic()
        try:
            await self._client.create(
                SECRETS,
                entry.namespace,
                body,
                timeout_seconds=ACTION_TIMEOUT_SECONDS,
            )
        except KubeError as e:
            self._count(action.key, e, started)
            if (
                not isinstance(e, AlreadyExistsError)
                or entry.observed.own_configmap == action.identity
            ):
                if _may_be_applied(e):
                    # Whatever the next answers say: the Secret may be ours.
                    self._store.record_unanswered_gang_key(entry)
                raise
        else:
            self._count(action.key, None, started)
        self._store.record_gang_key(entry, action.identity)

    async def _delete(self, entry: Entry, action: DeleteObject) -> None:
        resource = RESOURCES[action.kind]
        revision = entry.observed.name_revisions[action.kind, action.name]
        started = self._clock.monotonic()
        try:
            left = await self._client.delete(
                resource,
                entry.namespace,
                action.name,
                uid=action.uid,
                resource_version=action.resource_version,
                grace_seconds=action.grace_seconds,
                propagation=action.propagation,
                timeout_seconds=ACTION_TIMEOUT_SECONDS,
            )
        except NotFoundError as e:
            self._count(action.key, e, started)
            left = None
        except KubeError as e:
            self._count(action.key, e, started)
            # A UID mismatch says that the instance is gone, but so is not every conflict.
            if not isinstance(e, ConflictError) or await self._is_there(entry, action):
                raise
            left = None
        else:
            self._count(action.key, None, started)
        if left is not None and not _goes_on(left, action.uid):
            left = None
        if action.kind is ObjectKind.FRAMEWORK:
            self._record_framework(entry, action.uid, left)
        elif left is not None:
            self._store.record_terminating(entry, action.kind, left)
            if action.grace_seconds == 0:
                raise HeldError(f"{action.kind} {action.name} is held by a finalizer")
        elif entry.observed.name_revisions[action.kind, action.name] == revision:
            self._store.record_absent(entry, action.kind, action.name, action.uid)

    def _record_framework(self, entry: Entry, uid: str, left: Object | None) -> None:
        """Take what became of a Framework: until it is known, its deletion would be asked for.

        The watch may be behind.
        """
        if left is not None:
            self._store.apply(ObjectKind.FRAMEWORK, left)
        elif entry.observed.framework is not None and entry.observed.framework.metadata.uid == uid:
            self._store.drop_framework(entry)

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
        """Read an object live; True if there is one that is ours and not seen deleted yet."""
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
                self._store.record_absent(entry, kind, name, None)
            return False
        decode_status(entry)
        if _is_ours(entry, kind, parse_object(kind, wire)):
            return self._store.record_own(entry, kind, wire, self._clock.now())
        if entry.observed.name_revisions[kind, name] == revision:
            self._store.record_foreign(entry, kind, name, str(wire["metadata"].get("uid")))
        return False

    def _record_failure(self, entry: Entry, action: Action, error: KubeError) -> None:
        key = action.key
        known = entry.outcomes.failures.get(key)
        count = known.count + 1 if known else 1
        delay = min(_MAX_BACKOFF_SECONDS, _BACKOFF_SECONDS * 2 ** min(count, 10))
        code, message, body = 0, str(error), ""
        if isinstance(error, ApiError):
            code, message = error.status, error.message
            # The form of the Go original, whose users find it in the diagnostics.
            body = _render_error(error)
            delay = max(delay, error.retry_after_seconds or 0)
        limit = max(_LEAST_TEXT_BYTES, _TEXT_BYTES // (1 + len(entry.outcomes.failures)))
        message, body = cut_text(message, limit), cut_text(body, limit)
        if isinstance(error, AlreadyExistsError) and (
            uid := entry.observed.live.get((key.kind, key.name))
        ):
            message += f"; its UID is {uid}"
        now = self._clock.now()
        not_before = now + timedelta(seconds=delay)
        former = entry.outcomes.drop_former_failure(key)
        before = max(former, known.consecutive_failures if known else 0)
        failure = Failure(code, message, body, count, not_before, now, before + 1)
        entry.outcomes.record_failure(key, failure)
        # A thousand Pods of one template are refused for one reason, at every try.
        repeated = self._failure_log.admit((entry.key, key.verb, key.kind, code))
        if repeated is not None:
            fields = {**_describe(action), "error": str(error), "try": count, **repeated}
            logger.warning("action failed", extra={"framework": entry.key, **fields})

    def _count(self, key: ActionKey, error: KubeError | None, started: float) -> None:
        seconds = self._clock.monotonic() - started
        self._metrics.count_answer(RESOURCES[key.kind].plural, key.verb, error, seconds)


def _build_pod(action: CreatePod) -> Object:
    """Build a Pod; one that is too large is refused as the server would refuse it."""
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


def _describe(action: Action) -> dict[str, object]:
    key = action.key
    return {"verb": key.verb, "kind": key.kind, "object": key.name, "cause": action.cause}


def _render_error(error: ApiError) -> str:
    status = {k: v for k, v in (error.body or {}).items() if k not in ("kind", "apiVersion")}
    return gojson.dumps({"ErrStatus": status}) if status else ""


def _goes_on(wire: Object, uid: str) -> bool:
    """Return whether a deleted object still exists: it has finalizers, or time to end."""
    meta = wire.get("metadata") or {}
    return meta.get("uid") == uid and bool(
        meta.get("finalizers") or meta.get("deletionGracePeriodSeconds"),
    )


def _is_ours(entry: Entry, kind: ObjectKind, view: PodView | ConfigMapView) -> bool:
    """Return whether the status names the object, or it is this attempt's and known to be ours."""
    framework = entry.observed.framework
    if view.uid == find_recorded_uid(framework, kind, view.name):
        # Whatever others made of its owners.
        return True
    if framework is None or framework.status is None:
        return False
    attempt = framework.status.attempt_status
    if view.owner is None or view.owner.uid not in (framework.metadata.uid, attempt.configmap_uid):
        return False
    return not is_proof_needed(attempt) or is_proven(entry, view)

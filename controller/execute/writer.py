"""The writer: persists statuses, publishes rosters, and handles failed writes.

Every write has the version or the UID it relies on as its precondition. A Framework that cannot be
decided or stored gets the condition Blocked; the rest of its stored status does not change. Rules:
docs/design/state-machines.md, "Write order" and "Failed writes";
docs/design/failure-handling.md, "Unreadable Frameworks".
"""

import base64
import logging
from collections.abc import Callable
from datetime import datetime
from http import HTTPStatus
from typing import Any

import msgspec

from controller.core.actions import ObjectKind
from controller.core.decision import Publication
from controller.core.leaving.marks import select_new_marks, walk_changed
from controller.core.status.blocked import BLOCKED, MAX_MESSAGE
from controller.report.repeat_filter import RepeatFilter
from controller.runtime import Runtime
from controller.store.entry import Entry
from controller.store.outcomes import Refusal
from controller.store.store import Store
from framework.api import codec, constants
from framework.api.roster import Roster, encode_roster
from framework.api.types import Framework, FrameworkStatus
from framework.api.wire import format_time
from framework.kube.errors import ApiError, ConflictError, KubeError, NotFoundError
from framework.kube.resources import CONFIGMAPS, FRAMEWORKS, Object

logger = logging.getLogger(__name__)

_STATUS = f"{constants.FRAMEWORK_PLURAL}/status"
# Weight of the newest status write in the moving average of their durations.
_NEWEST_SHARE = 0.2

_REFUSALS = (
    HTTPStatus.BAD_REQUEST,
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
    HTTPStatus.UNPROCESSABLE_ENTITY,
)
# Texts of the internal error (500) for an object too large for etcd: up to 2 MiB, and above.
_TOO_LARGE = ("etcdserver: request is too large", "trying to send message larger than max")
# Fields of the metadata that name the Framework and its version.
_PRECONDITIONS = ("name", "namespace", "uid", "resourceVersion")


class Writer:
    """Writes statuses and rosters; only the controller writes them."""

    def __init__(
        self,
        runtime: Runtime,
        store: Store,
        *,
        compression_min_bytes: int | None,
        on_status_missing: Callable[[], None] = lambda: None,
    ) -> None:
        """Prepare; nothing is sent yet.

        Args:
            runtime: has the client, the clock, the metrics and the write gate.
            store: learns the answers to writes.
            compression_min_bytes: statuses of at least this size are compressed; None for none.
            on_status_missing: called when a Framework that exists has no /status.
        """
        self._client = runtime.client
        self._store = store
        self._clock = runtime.clock
        self._metrics = runtime.metrics
        self._compression_min_bytes = compression_min_bytes
        self._write_gate = runtime.write_gate
        self._on_status_missing = on_status_missing
        self._failure_log = RepeatFilter(runtime.clock)
        self.write_seconds = 0.0
        """Moving average of the duration of status writes."""

    async def write_status(self, entry: Entry, status: FrameworkStatus) -> bool:
        """Persist a status; False if it is not persisted, or not known to be."""
        framework = entry.observed.framework
        if framework is None or not self._write_gate.may_write():
            return False
        entry.outcomes.refusal = None
        started = self._clock.monotonic()
        try:
            wire = await self._client.replace(
                FRAMEWORKS,
                entry.namespace,
                entry.name,
                self._build_body(framework, status),
                subresource="status",
            )
        except ConflictError as e:
            self._count(_STATUS, "update", e, started)
            await self._rebase(entry)
            return False
        except NotFoundError as e:
            self._count(_STATUS, "update", e, started)
            if await self._rebase(entry):
                self._on_status_missing()
            return False
        except KubeError as e:
            self._count(_STATUS, "update", e, started)
            self._record_unwritten(entry, framework, e)
            return False
        self._count(_STATUS, "update", None, started)
        entry.outcomes.blocked = None
        spent = self._clock.monotonic() - started
        self.write_seconds += _NEWEST_SHARE * (spent - self.write_seconds)
        self._store.frameworks.record_status(entry, wire, status)
        self._measure(framework.status, status)
        return True

    def _record_unwritten(self, entry: Entry, framework: Framework, error: KubeError) -> None:
        """Record that a status was refused, or that it is not known whether it is stored."""
        self._store.frameworks.require_refresh(entry)
        if _is_refusal(error):
            # Ignore Retry-After: the pause after a refusal ends when the spec is edited.
            meta = framework.metadata
            entry.outcomes.refusal = Refusal(meta.uid, meta.generation, str(error))
        else:
            self._record_wait(entry, error)
        self._warn("status not written", entry, error)

    def _measure(self, before: FrameworkStatus | None, after: FrameworkStatus) -> None:
        training = before.attempt_status.training if before is not None else None
        if after.attempt_status.training not in (None, training):
            self._metrics.count_training_update()
        old = before.attempt_status if before is not None else None
        for mark in select_new_marks(walk_changed(old, after.attempt_status)):
            self._metrics.count_leaving(mark.leaving.reason)
        recovery = after.attempt_status.recovery
        known = before.attempt_status.recovery if before is not None else None
        if recovery is not None and recovery.epoch > (known.epoch if known is not None else 0):
            self._metrics.count_epoch(recovery.reason)

    async def write_blocked(self, entry: Entry, reason: str, message: str) -> bool:
        """Write only the condition Blocked, because no decision can be made or stored.

        The rest of the stored status does not change, also if it cannot be read.

        Returns:
            False if that must be tried again.
        """
        entry.outcomes.follow(entry.observed.incarnation)
        if entry.outcomes.blocked == (reason, message):
            return True
        wire = await self._read(entry) if self._write_gate.may_write() else None
        if wire is None or not self._write_gate.may_write():
            return False
        body = _build_blocked(wire, reason, message, self._clock.now())
        started = self._clock.monotonic()
        try:
            if body is not None:
                # Free it before the request, because it may be large.
                del wire
                wire = await self._client.replace(
                    FRAMEWORKS, entry.namespace, entry.name, body, subresource="status"
                )
                self._count(_STATUS, "update", None, started)
        except KubeError as e:
            self._count(_STATUS, "update", e, started)
            self._warn("status not written", entry, e)
            # The stored object may itself be invalid, so that the server refuses every status. Then
            # only the Event reports the reason.
            entry.outcomes.blocked = (reason, message) if _is_refusal(e) else None
            return entry.outcomes.blocked is not None
        entry.outcomes.blocked = reason, message
        if entry.observed.framework is not None:
            self._store.frameworks.refresh(entry, wire)
        return True

    async def refresh(self, entry: Entry) -> bool:
        """Read the persisted status by a live GET; return whether it is known now."""
        wire = await self._read(entry)
        if wire is None:
            return False
        self._store.frameworks.refresh(entry, wire)
        return not entry.observed.needs_refresh

    async def fetch(self, entry: Entry) -> bool:
        """Read a stripped Framework by a live GET; return False if that must be tried again."""
        wire = await self._read(entry)
        if wire is None:
            return False
        self._store.frameworks.fetch(entry, wire)
        known = entry.observed
        return known.framework is not None or known.fault is not None

    async def read_roster(self, entry: Entry) -> bool:
        """Read the roster of a ConfigMap that is now known to be ours, if it was not kept.

        Returns:
            False if that must be tried again.
        """
        if entry.observed.configmap is None or entry.observed.configmap.roster is not None:
            return True
        self._store.settle(entry)
        if not entry.observed.lacks_roster:
            return True
        await self._reread_configmap(entry, entry.observed.configmap.name)
        # The live GET may have shown another ConfigMap of ours, whose roster was not kept, either.
        self._store.settle(entry)
        return not entry.observed.lacks_roster

    async def publish(self, entry: Entry, publication: Publication) -> bool:
        """Publish a generation or the readiness; False if that must be tried again."""
        if not self._write_gate.may_write():
            return False
        before = entry.observed.published.roster
        started = self._clock.monotonic()
        try:
            wire = await self._client.patch(
                CONFIGMAPS,
                entry.namespace,
                publication.configmap_name,
                _build_patch(publication),
            )
        except (ConflictError, NotFoundError) as e:
            self._count("configmaps", "patch", e, started)
            await self._reread_configmap(entry, publication.configmap_name)
            return False
        except KubeError as e:
            self._count("configmaps", "patch", e, started)
            self._record_wait(entry, e)
            self._warn("roster not published", entry, e)
            return False
        self._count("configmaps", "patch", None, started)
        now = self._clock.now()
        self._store.objects[ObjectKind.CONFIGMAP].record_own(entry, wire, now)
        self._store.settle(entry)
        if publication.roster is not None:
            self._store.record_generation(entry, now)
            self._log_roster(entry, publication.roster)
            self._measure_roster(entry, before, publication.roster)
        return True

    async def _rebase(self, entry: Entry) -> bool:
        """Take the newer spec and metadata after a conflict; the status stays ours.

        Returns:
            Whether the Framework exists.
        """
        wire = await self._read(entry)
        if wire is None:
            if entry.observed.version is not None:
                self._store.frameworks.require_refresh(entry)
            return False
        self._store.frameworks.rebase(entry, wire)
        return True

    async def _read(self, entry: Entry) -> Object | None:
        asked = _read_uid(entry)
        try:
            return await self._client.get(FRAMEWORKS, entry.namespace, entry.name)
        except KubeError as e:
            if isinstance(e, NotFoundError) and e.is_object_missing:
                # Skip this if the watch has meanwhile shown a new Framework with this name.
                if _read_uid(entry) == asked:
                    self._store.frameworks.drop(entry)
                return None
            self._record_wait(entry, e)
            # A 404 of the whole resource comes here, too: the CRD is missing or being replaced,
            # which deletes no Framework.
            self._warn("cannot read", entry, e)
        return None

    async def _reread_configmap(self, entry: Entry, name: str) -> None:
        try:
            wire = await self._client.get(CONFIGMAPS, entry.namespace, name)
        except NotFoundError:
            self._store.objects[ObjectKind.CONFIGMAP].record_absent(entry, name, None)
        except KubeError as e:
            self._warn("cannot read", entry, e)
        else:
            self._store.objects[ObjectKind.CONFIGMAP].record_own(entry, wire, self._clock.now())

    def _build_body(self, framework: Framework, status: FrameworkStatus) -> Object:
        wire = codec.encode_status(status)
        limit = self._compression_min_bytes
        # Measure the largest part first, which is cheap: most statuses are far below the limit.
        if limit is not None and len(msgspec.json.encode(wire["attemptStatus"])) >= limit:
            wire = codec.compress_status(wire, limit)
        meta = framework.metadata
        return {
            "apiVersion": constants.API_VERSION,
            "kind": constants.FRAMEWORK_KIND,
            "metadata": {
                "name": meta.name,
                "namespace": meta.namespace,
                "uid": meta.uid,
                "resourceVersion": meta.resource_version,
            },
            "status": wire,
        }

    def _measure_roster(self, entry: Entry, before: Roster | None, roster: Roster) -> None:
        if not roster.complete or (before is not None and before.complete):
            return
        if entry.observed.addressed_at is not None:
            self._metrics.observe_release(self._clock.monotonic() - entry.observed.addressed_at)
        status = entry.observed.framework.status if entry.observed.framework else None
        if before is None and status is not None:
            start = status.attempt_status.start_time
            # A Framework that is suspended before its first attempt does not wait for its gang.
            waited = self._clock.now() - max(start, status.active_start_time or start)
            self._metrics.observe_gang_wait(waited.total_seconds())

    def _log_roster(self, entry: Entry, roster: Roster) -> None:
        logger.info(
            "roster published",
            extra={
                "framework": entry.key,
                "generation": roster.generation,
                "ready": f"{roster.ready}/{roster.wanted}",
                "complete": roster.complete,
            },
        )

    def _record_wait(self, entry: Entry, error: KubeError) -> None:
        """Record how long the server asked us to wait."""
        if isinstance(error, ApiError) and error.retry_after_seconds:
            entry.outcomes.retry_at = self._clock.monotonic() + error.retry_after_seconds

    def _warn(self, message: str, entry: Entry, error: KubeError) -> None:
        repeated = self._failure_log.admit((entry.key, message, type(error)))
        if repeated is not None:
            fields = {"framework": entry.key, "error": str(error), **repeated}
            logger.warning(message, extra=fields)

    def _count(self, resource: str, verb: str, error: KubeError | None, started: float) -> None:
        if isinstance(error, ConflictError):
            self._metrics.count_conflict(resource)
        self._metrics.count_answer(resource, verb, error, self._clock.monotonic() - started)


def _read_uid(entry: Entry) -> str | None:
    return entry.observed.version.uid if entry.observed.version else None


def _build_patch(publication: Publication) -> Object:
    annotations: dict[str, Any] = {
        constants.ROSTER_VERSION_ANNOTATION: constants.ROSTER_VERSION,
        constants.READINESS_ANNOTATION: publication.readiness or None,
    }
    patch: Object = {
        "metadata": {
            "uid": publication.configmap_uid,
            "resourceVersion": publication.resource_version,
            "annotations": annotations,
        },
    }
    if publication.roster is not None:
        stored = base64.b64encode(encode_roster(publication.roster)).decode()
        annotations[constants.GENERATION_ANNOTATION] = str(publication.roster.generation)
        patch["binaryData"] = {constants.ROSTER_KEY: stored}
    return patch


def _is_refusal(error: KubeError) -> bool:
    """Return whether the server refuses this write at each try."""
    if not isinstance(error, ApiError):
        return False
    return error.status in _REFUSALS or any(text in error.message for text in _TOO_LARGE)


def _build_blocked(wire: Object, reason: str, message: str, now: datetime) -> Object | None:
    """Build a status write that changes only the condition Blocked; None if nothing changes."""
    stored = wire.get("status")
    status = dict(stored) if isinstance(stored, dict) else {}
    listed = status.get(constants.CONDITIONS_FIELD)
    known = [c for c in listed if isinstance(c, dict)] if isinstance(listed, list) else []
    answer = {"status": "True", "reason": reason, "message": message[:MAX_MESSAGE]}
    if any(c.get("type") == BLOCKED and answer.items() <= c.items() for c in known):
        return None
    condition = {"type": BLOCKED, "lastTransitionTime": format_time(now), **answer}
    others = [c for c in known if isinstance(c.get("type"), str) and c["type"] != BLOCKED]
    status[constants.CONDITIONS_FIELD] = [*others, condition]
    metadata = {key: wire["metadata"].get(key) for key in _PRECONDITIONS}
    return {
        "apiVersion": constants.API_VERSION,
        "kind": constants.FRAMEWORK_KIND,
        "metadata": metadata,
        "status": status,
    }

"""The worker: takes keys from the work queue and carries out one decision for each.

1. Take a key. While the write gate is closed, mark its entry as paused and take the next key.
2. If the key must pause (``reconcile.pauses``), set a timer for it. If it is large and there is no
   room for its turn, take the next key (``reconcile.turn_room``). Otherwise decode the newest
   version of the Framework.
3. If the result of our last status write is unknown, or only the identity of the Framework was
   kept, read the stored Framework by a live GET. Skip this while it waits for memory.
4. Let the store check the objects that are new, then observe and decide.
5. Drop the unsent actions that the decision does not want, and write the status. If the change only
   informs, it may share a write with later changes (``reconcile.pauses``): then set a timer
   instead, and send only the actions that rely on persisted parts.
6. Log the replaced objects and queue the Events. Publish the roster. Hand the actions to the
   executor, which sends them without the worker.
7. Set the timer for the next decision. After a failed write, retry later and send nothing.
8. Keep the JSON of the Framework if there is room for it, otherwise only its identity
   (``reconcile.memory``). Release the room of the turn.

Invariants:
- One key is worked on by one worker at a time.
- Nothing is sent that relies on a status or a roster whose write failed or is unknown.
- An error in one Framework does not stop the others: its key is retried with growing delays.

Example: a gang of two starts. The first decision writes AttemptCreationPending and creates the
ConfigMap. Its answer wakes the key; the second decision records the UID, writes both Tasks as
AttemptCreationPending and creates their Pods. Two Pods that get their addresses within 250 ms share
one status write, after which the roster is published.

Rules: docs/design/state-machines.md, "Write order", "When a status is written", "Failed writes".
"""

import asyncio
import logging
from collections.abc import Iterable, Iterator

from controller.core.actions import Action, Urgency
from controller.core.decide import decide
from controller.core.decision import Decision
from controller.core.policies.limits import measure_growth
from controller.core.settings import MEMORY_WAIT_SECONDS, Settings
from controller.execute.executor import Executor
from controller.execute.writer import Writer
from controller.queues.workqueue import WorkQueue, interleave_namespaces
from controller.reconcile import pauses
from controller.reconcile.memory import UNLIMITED, MemoryLedger, is_at_rest, is_waiting
from controller.reconcile.observer import observe
from controller.reconcile.turn_room import SMALL_BYTES, TurnRoom
from controller.report.history_log import HistoryLog
from controller.report.repeat_filter import RepeatFilter
from controller.report.reporter import Reporter
from controller.runtime import Runtime
from controller.store.entry import Entry
from controller.store.frameworks import decode_framework, put_away
from controller.store.nodes import NodeStore
from controller.store.outcomes import Refusal
from controller.store.pacing import MemoryWait
from controller.store.store import Store
from framework.api.types import FrameworkStatus

logger = logging.getLogger(__name__)

# After an outage, the keys that wait are queued one after the other: all of them within the first
# time, and at most the second time apart.
_RETRY_SPREAD_SECONDS = 1.0
_RETRY_STEP_SECONDS = 0.005
_LAST_WRITERS = 16
# A Framework that waits for memory is read and decided at least this often, for its other rules.
_MEMORY_DECISION_SECONDS = 300.0
# Pause before a Framework without room for its JSON decides its unsent actions again.
_NO_ROOM_SECONDS = 1.0


class Worker:
    """Takes keys from the work queue, and carries out one decision for each."""

    def __init__(  # noqa: PLR0913 the parts it joins, each by keyword
        self,
        runtime: Runtime,
        *,
        store: Store,
        queue: WorkQueue,
        writer: Writer,
        executor: Executor,
        reporter: Reporter,
        history: HistoryLog,
        settings: Settings,
        memory: MemoryLedger = UNLIMITED,
        nodes: NodeStore | None = None,
    ) -> None:
        """Join the parts; nothing is decided while the write gate is closed.

        Without ``nodes``, no node is known.
        """
        self._store = store
        self._queue = queue
        self._writer = writer
        self._executor = executor
        self._reporter = reporter
        self._history = history
        self._settings = settings
        self._clock = runtime.clock
        self._metrics = runtime.metrics
        self._memory = memory
        self._room = TurnRoom(memory.turn_limit_bytes, queue.add)
        self._write_gate = runtime.write_gate
        self._nodes = nodes
        self._failure_log = RepeatFilter(runtime.clock)
        self._is_stopping = False
        self._busy: set[str] = set()
        self._is_idle = asyncio.Event()
        self._is_idle.set()

    async def run(self) -> None:
        """Process keys for ever. An error in the decision of one Framework stops no other."""
        while True:
            key = await self._queue.get()
            self._metrics.set_queue_depth(len(self._queue))
            if self._is_stopping or not self._write_gate.may_write():
                self._pause(key)
                self._room.leave(key)
                self._queue.done(key)
                continue
            self._busy.add(key)
            self._is_idle.clear()
            try:
                await self._reconcile(key)
                self._put_away(key)
            except asyncio.CancelledError:
                raise
            except Exception as e:  # noqa: BLE001 logged, unless it is repeated
                # A bug, or a status that breaks an assumption: only this Framework is delayed.
                self._log_failed_decision(key, e)
                self._metrics.count_decision_failure()
                await self._give_up(key, e)
            finally:
                self._room.leave(key)
                self._queue.done(key)
                self._busy.discard(key)
                if not self._busy:
                    self._is_idle.set()

    def retry_all(self) -> None:
        """Retry the keys that waited for the API server, the Lease or the CRD: it is back."""
        waiting = self._executor.forgive_outage()
        for entry in self._store.walk():
            pacing = entry.pacing
            if pacing.backoff is not None or pacing.is_paused:
                waiting.add(entry.key)
            pacing.backoff = None
            pacing.is_paused = pacing.is_paused and self._is_stopping
        if self._is_stopping:
            return
        step = min(_RETRY_STEP_SECONDS, _RETRY_SPREAD_SECONDS / max(1, len(waiting)))
        for number, key in enumerate(interleave_namespaces(sorted(waiting))):
            self._queue.add_after(key, number * step)

    async def stop(self) -> None:
        """Begin no further decision; wait until the running ones are carried out."""
        self._is_stopping = True
        await self._is_idle.wait()

    async def write_rest(self) -> None:
        """After ``stop``, decide each Framework with an unwritten change again, and write it."""
        unwritten = [
            entry.key
            for entry in self._store.walk()
            if entry.pacing.is_paused or entry.pacing.changed_at is not None
        ]
        keys = interleave_namespaces(sorted(unwritten))
        async with asyncio.TaskGroup() as tasks:
            for number in range(_LAST_WRITERS):
                tasks.create_task(self._write_some(keys), name=f"last-writes-{number}")

    def _pause(self, key: str) -> None:
        entry = self._store.find(key)
        if entry is not None:
            entry.pacing.is_paused = True

    def _log_failed_decision(self, key: str, error: Exception) -> None:
        repeated = self._failure_log.admit((key, type(error)))
        if repeated is not None:
            logger.error("decision failed", exc_info=error, extra={"framework": key, **repeated})

    async def _write_some(self, keys: Iterator[str]) -> None:
        for key in keys:
            entry = self._store.find(key)
            if entry is None or entry.observed.needs_refresh:
                continue
            try:
                await self._write_last(entry)
            except asyncio.CancelledError:
                raise
            except Exception as e:  # noqa: BLE001 logged, unless it is repeated
                self._log_failed_decision(key, e)

    async def _write_last(self, entry: Entry) -> None:
        decision = self._decide(entry)
        before = entry.observed.framework
        if decision is None or decision.status is None:
            return
        if await self._writer.write_status(entry, decision.status):
            self._history.log(decision.snapshots)
            self._reporter.report_change(before, decision.status, decision.events)

    async def _reconcile(self, key: str) -> None:
        entry = self._store.find(key)
        if entry is None:
            self._forget(key)
            return
        pause = pauses.find_pause(entry, self._clock.monotonic())
        if pause > 0:
            self._queue.add_after(key, pause)
            return
        if self._lacks_memory(entry):
            self._queue.add_after(key, MEMORY_WAIT_SECONDS)
            return
        if not self._room.enter(key, entry.observed.framework_bytes):
            return
        self._decode(entry)
        if not await self._read_live(entry):
            self._retry_later(key)
            return
        if entry.observed.framework is not None and not await self._writer.read_roster(entry):
            self._retry_later(key)
            return
        decision = self._decide(entry)
        if decision is None:
            await self._leave(entry)
            return
        await self._carry_out(entry, decision)

    async def _read_live(self, entry: Entry) -> bool:
        """Read the Framework if its stored version is not known; return False if that failed."""
        if entry.observed.needs_refresh:
            return await self._writer.refresh(entry)
        return not entry.observed.is_stripped or await self._writer.fetch(entry)

    def _lacks_memory(self, entry: Entry) -> bool:
        """Return whether a stripped Framework still lacks the memory that it waited for."""
        wait = entry.pacing.memory_wait
        if wait is None or not entry.observed.is_stripped or entry.observed.version != wait.version:
            return False
        if self._clock.monotonic() - wait.decided_at >= _MEMORY_DECISION_SECONDS:
            return False
        memory = self._memory.look(entry.key)
        return memory is not None and not wait.growth.fits(memory)

    def _put_away(self, key: str) -> None:
        """Keep the JSON of a Framework until its next turn only if there is room for it."""
        entry, other = self._store.find(key), self._memory.other_json
        framework = entry.observed.framework if entry is not None else None
        if entry is None or framework is None or framework.status is None:
            return
        entry.pacing.memory_wait = None
        is_in_use = entry.outcomes.in_flight or entry.pacing.changed_at is not None
        if is_in_use or other.limit_bytes is None or self._memory.has_json_room(key):
            return
        if self._executor.withdraw(key, ()):
            # Unsent actions keep the object in memory, too. They are decided again later.
            self._queue.add_after(key, _NO_ROOM_SECONDS)
        is_resting, version = is_at_rest(framework.status), entry.observed.version
        if is_resting and is_waiting(framework.status) and version is not None:
            growth = measure_growth(framework, entry.observed.object_bytes)
            entry.pacing.memory_wait = MemoryWait(version, growth, self._clock.monotonic())
        put_away(entry, other, is_at_rest=is_resting)

    async def _leave(self, entry: Entry) -> None:
        """Send nothing for a Framework that is gone or cannot be read; report why."""
        self._memory.forget(entry.key)
        self._executor.submit(entry.key, ())
        self._reporter.report_fault(entry)
        if entry.observed.fault is not None:
            await self._write_blocked(entry, "UnreadableFramework", str(entry.observed.fault))
        self._store.forget_if_empty(entry.key)
        if self._store.find(entry.key) is None:
            self._forget(entry.key)

    async def _give_up(self, key: str, error: Exception) -> None:
        """Send nothing for a Framework whose decision failed; report the error, retry later."""
        self._executor.submit(key, ())
        self._retry_later(key)
        entry = self._store.find(key)
        if entry is None:
            return
        text = f"its status breaks an assumption, so it is not changed: {error}"
        self._reporter.report_blocked(entry, "UndecidableFramework", text)
        await self._write_blocked(entry, "UndecidableFramework", text)

    async def _report_refusal(self, entry: Entry, refusal: Refusal) -> None:
        """Report that the server refuses the status; retry rarely, or when the spec changes."""
        pauses.pause_after_refusal(entry, self._clock.monotonic())
        self._reporter.report_blocked(entry, "StatusRefused", refusal.message)
        await self._write_blocked(entry, "StatusRefused", refusal.message)

    async def _write_blocked(self, entry: Entry, reason: str, message: str) -> None:
        try:
            if not await self._writer.write_blocked(entry, reason, message):
                self._retry_later(entry.key)
        except asyncio.CancelledError:
            raise
        except Exception:
            # No stored status may stop the worker.
            logger.exception("condition not written", extra={"framework": entry.key})
            self._retry_later(entry.key)

    def _decode(self, entry: Entry) -> None:
        started = self._clock.monotonic()
        decode_framework(entry)
        now = self._clock.monotonic()
        pauses.pause_after_decode(entry, now - started, now)

    def _decide(self, entry: Entry) -> Decision | None:
        self._decode(entry)
        entry.pacing.follow(entry.observed.incarnation)
        self._executor.begin_decision(entry)
        if entry.observed.framework is not None:
            self._store.settle(entry)
        memory = self._memory.look(entry.key)
        waited = entry.pacing.compute_waited(self._clock.monotonic())
        snapshot = observe(entry, self._clock.now(), memory, self._nodes, waited)
        if snapshot is None:
            return None
        started = self._clock.monotonic()
        decision = decide(snapshot, self._settings)
        entry.pacing.keep_waits(decision.waits, started)
        status = decision.status or snapshot.framework.status
        self._memory.record_status(
            entry.key, status, entry.outcomes.failures, entry.observed.object_bytes
        )
        now = self._clock.monotonic()
        self._metrics.observe_decision(now - started)
        pauses.pause_after_decision(entry, now - started, self._writer.write_seconds, now)
        return decision

    async def _carry_out(self, entry: Entry, decision: Decision) -> None:
        before = entry.observed.framework
        status = decision.status
        if status is None and entry.observed.is_diverged and before is not None:
            # Another client overwrote the status; write ours back.
            status = before.status
        actions: Iterable[Action] = decision.actions
        is_deferred = status is not None and self._must_wait(entry, decision)
        if is_deferred:
            actions = (action for action in decision.actions if action.urgency is Urgency.NONE)
        else:
            # The status may store the end of an attempt: then none of its creates may be sent.
            self._executor.withdraw(entry.key, decision.actions)
            if not await self._store_and_report(entry, decision, status):
                return
            self._history.log(decision.snapshots)
        configmap = entry.observed.configmap
        is_published = True
        if decision.publication is not None and not is_deferred:
            is_published = await self._writer.publish(entry, decision.publication)
        if decision.readiness_checked_at is not None and is_published and not is_deferred:
            self._store.record_readiness_check(entry, decision.readiness_checked_at)
        if not is_published and entry.observed.configmap is not configmap:
            # The state that the actions rely on has changed: decide again.
            actions = ()
            self._queue.add(entry.key)
        self._executor.submit(entry.key, actions)
        self._schedule(entry, decision, is_deferred=is_deferred)
        if not is_published:
            self._retry_later(entry.key)
            return
        entry.pacing.backoff = None
        if decision.urgency is Urgency.AGAIN:
            self._queue.add(entry.key)

    async def _store_and_report(
        self, entry: Entry, decision: Decision, status: FrameworkStatus | None
    ) -> bool:
        """Write the status unless it is None, then report; return False if the write failed."""
        before = entry.observed.framework
        if status is not None:
            if not await self._persist(entry, status):
                return False
            self._reporter.report_change(before, status, decision.events)
        elif before is not None:
            # These Events are about actions.
            self._reporter.report_events(before, decision.events)
        return True

    async def _persist(self, entry: Entry, status: FrameworkStatus) -> bool:
        """Write a status; if that fails, send none of the actions that were decided."""
        if await self._writer.write_status(entry, status):
            pauses.end_refusal(entry)
            entry.pacing.changed_at = None
            return True
        self._executor.submit(entry.key, ())
        self._retry_later(entry.key)
        if entry.outcomes.refusal is not None:
            await self._report_refusal(entry, entry.outcomes.refusal)
        return False

    def _must_wait(self, entry: Entry, decision: Decision) -> bool:
        """Return whether an informative change waits, so that later changes share its write."""
        if decision.urgency >= Urgency.NOW or self._is_large_without_room(entry):
            return False
        if entry.pacing.changed_at is None:
            entry.pacing.changed_at = self._clock.monotonic()
        return self._coalesce_seconds(entry, decision) > 0

    def _is_large_without_room(self, entry: Entry) -> bool:
        """Return whether a Framework is large, and only its identity is kept after its turn."""
        is_small = entry.observed.framework_bytes < SMALL_BYTES
        return not (is_small or self._memory.has_json_room(entry.key))

    def _coalesce_seconds(self, entry: Entry, decision: Decision) -> float:
        now = self._clock.monotonic()
        return pauses.find_coalescing_seconds(entry, decision.urgency, now)

    def _schedule(self, entry: Entry, decision: Decision, *, is_deferred: bool) -> None:
        if is_deferred:
            self._queue.add_after(entry.key, self._coalesce_seconds(entry, decision))
        if decision.wake_at is not None:
            seconds = pauses.seconds_until(decision.wake_at, self._clock.now())
            self._queue.add_after(entry.key, seconds)

    def _retry_later(self, key: str) -> None:
        entry = self._store.find(key)
        if entry is not None:
            self._queue.add_after(key, pauses.next_retry_seconds(entry))

    def _forget(self, key: str) -> None:
        self._executor.forget(key)
        self._memory.forget(key)
        self._queue.forget(key)

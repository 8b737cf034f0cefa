"""The executor: sends actions as tracked tasks and records the actions that fail.

1. ``withdraw`` drops the unsent actions of a Framework that its newest decision does not want,
   before that decision is written. ``submit`` then replaces the others by those of the decision.
2. While the action queue allows it, take an action, record it as in flight, and send it in a task
   of its own if the write gate is open (``operations``).
3. If it fails, record the failure, with a growing delay until the next try (``failure_record``).
4. Wake the Framework's key: the next decision reads the outcome.

Invariants:
- An action in flight is never sent again, and an action that was sent since the last decision began
  is not sent once more by that decision.
- An answer says nothing of an object that took the name after the request was sent
  (``Observed.name_revisions``).

Example: the answer to the create of a Pod is lost. The failure has code 0; after its delay the next
decision creates the Pod again, the server answers AlreadyExists, and the live GET shows a Pod with
our creation proof, which is adopted.

    KubeError
    `-- DefectError     an action raised an error that is a bug of this program

Rules: docs/design/state-machines.md, "Actions".
"""

import asyncio
import logging
from collections.abc import Callable, Iterable
from dataclasses import replace

from controller.core.actions import Action, Verb
from controller.execute.build_turns import BuildTurns
from controller.execute.failure_record import FailureHistory, build_failure
from controller.execute.operations import Operations
from controller.queues.action_queue import ActionQueue
from controller.queues.body_bytes import measure_body
from controller.report.repeat_filter import RepeatFilter
from controller.runtime import Runtime
from controller.store.entry import Entry
from controller.store.provenance import Signer
from controller.store.store import Store
from framework.clock import KeySource, SystemKeys
from framework.kube.errors import KubeError

logger = logging.getLogger(__name__)

# Requests of one namespace. Not more, because a new decision can drop only actions that are not yet
# sent; not fewer, because a distant API server answers late. All namespaces together may have twice
# as many, so that requests of one namespace that hang, for example in a webhook, leave slots to the
# others.
MAX_NAMESPACE_ACTIONS = 32
MAX_CONCURRENT_ACTIONS = 2 * MAX_NAMESPACE_ACTIONS


class DefectError(KubeError):
    """An action raised an error that is a bug of this program; it is tried again later."""

    @property
    def is_transient(self) -> bool:
        """Return True: the object may change."""
        return True


class Executor:
    """Sends actions. ``start`` gives it the task group its requests run in."""

    def __init__(
        self,
        runtime: Runtime,
        store: Store,
        *,
        on_answer: Callable[[str], None],
        keys: KeySource | None = None,
        signer: Signer | None = None,
    ) -> None:
        """Prepare; nothing is sent yet.

        Args:
            runtime: has the client, the clock, the metrics and the write gate.
            store: learns the answers.
            on_answer: called with the key of each answer.
            keys: makes gang keys; None for secret random ones.
            signer: signs created objects; its public key is in the settings of decisions.
        """
        self._store = store
        self._clock = runtime.clock
        self._metrics = runtime.metrics
        self._on_answer = on_answer
        self._write_gate = runtime.write_gate
        self._unsent = ActionQueue(MAX_CONCURRENT_ACTIONS, MAX_NAMESPACE_ACTIONS)
        self._operations = Operations(runtime, store, keys or SystemKeys(), signer)
        self._failure_log = RepeatFilter(runtime.clock)
        self._build_turns = BuildTurns()
        self._tasks: asyncio.TaskGroup | None = None
        self._idle = asyncio.Event()
        self._idle.set()

    def start(self, tasks: asyncio.TaskGroup) -> None:
        """Run requests in ``tasks``."""
        self._tasks = tasks

    def begin_decision(self, entry: Entry) -> None:
        """Clear the list of sent actions. The next decision sees their outcomes in the entry.

        Outcomes for another Framework of this name are dropped, too.
        """
        entry.outcomes.follow(entry.observed.incarnation)
        entry.outcomes.sent.clear()

    def withdraw(self, key: str, wanted: Iterable[Action]) -> bool:
        """Drop the unsent actions of a Framework that a new decision does not want.

        The others rely only on the stored status, so they may be sent during the next write.

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
        # Never send an action twice: the last decision may have sent it during the status write.
        self._unsent.replace(key, (action for action in actions if action.key not in sent))
        self._pump()

    def forget(self, key: str) -> None:
        """Drop the unsent actions of a Framework that is gone."""
        self._unsent.forget(key)

    def get_window(self, namespace: str) -> int:
        """Return how many requests of a namespace may run at a time."""
        return self._unsent.get_window(namespace)

    async def drain(self, timeout_seconds: float) -> None:
        """Send nothing more; wait for the requests in flight, up to ``timeout_seconds``."""
        self._unsent.clear()
        self._tasks = None
        try:
            async with asyncio.timeout(timeout_seconds):
                await self._idle.wait()
        except TimeoutError:
            logger.warning("requests still unanswered", extra={"count": self._unsent.running})

    def forgive_outage(self) -> set[str]:
        """End the delays of actions that may have failed by an outage; return their keys."""
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
                self._unsent.finish(key, is_failed=False, body_bytes=measure_body(action))
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
            await self._build_turns.wait(measure_body(action))
            # Check the gate here: this task may start long after it was created.
            if self._write_gate.may_write():
                logger.debug("action", extra={"framework": entry.key, **_describe(action)})
                await self._operations.send(entry, action)
                entry.outcomes.drop_failure(action.key)
                if action.key.verb is Verb.CREATE:
                    entry.outcomes.drop_former_failure(action.key)
        except KubeError as e:
            is_failed = True
            self._record_failure(entry, action, e)
        except Exception as e:  # noqa: BLE001 a bug with one object must not stop the others
            is_failed = True
            self._record_failure(entry, action, DefectError(f"{type(e).__name__}: {e}"))
        finally:
            entry.outcomes.in_flight.discard(action.key)
            is_read = action.key.verb is Verb.GET
            size = measure_body(action)
            self._unsent.finish(entry.key, is_failed=is_failed, is_read=is_read, body_bytes=size)
            if not self._unsent.running:
                self._idle.set()
            self._on_answer(entry.key)
        # Not reached after a cancellation, so that nothing more is sent then.
        self._pump()

    def _record_failure(self, entry: Entry, action: Action, error: KubeError) -> None:
        key, outcomes = action.key, entry.outcomes
        others = len(outcomes.failures)
        history = FailureHistory(
            outcomes.failures.get(key), outcomes.drop_former_failure(key), others
        )
        found_uid = entry.observed.live.get((key.kind, key.name), "")
        failure = build_failure(error, history, found_uid, self._clock.now())
        outcomes.record_failure(key, failure)
        # A thousand Pods of one template are refused for the same reason at each try.
        repeated = self._failure_log.admit((entry.key, key.verb, key.kind, failure.code))
        if repeated is not None:
            fields = {**_describe(action), "error": str(error), "try": failure.count, **repeated}
            logger.warning("action failed", extra={"framework": entry.key, **fields})


def _describe(action: Action) -> dict[str, object]:
    key = action.key
    return {"verb": key.verb, "kind": key.kind, "object": key.name, "cause": action.cause}

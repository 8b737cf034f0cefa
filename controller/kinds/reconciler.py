"""Reconciles the jobs of one kind: watches, observes, decides, executes. One for each kind.

1. Three list-watches (jobs; Frameworks and Services with the label of the kind) fill the store and
   enqueue the key of the job. Two further list-watches follow the scalers of TrainingJobs.
2. A worker takes a key. It reads the job or its Framework live if its JSON was not kept.
3. It builds the Snapshot, and decides the next steps of the scalers (``controller.kinds.scaling``).
4. It executes the decision of the kind.
5. If the execution stops (a name is in use, an object is refused), the reason goes into a second
   Snapshot, whose decision writes it into the status.
6. It executes the other steps of the scalers.
7. After an error, and while a job is blocked, the key is enqueued again after a growing pause.

Invariants:
- Nothing is decided before all objects are listed, and nothing while the write gate is closed.
- An error in one job does not stop the others. Its user sees it in the condition Blocked.
- Only the pauses are kept in memory, and which jobs have all Services as wanted, so that these are
  not compiled again. So another controller that takes over makes the same decisions.

Example: a user creates a TrainingJob while a Framework of its name exists. The first execution
stops with the Framework that was found. The second decision writes the condition Blocked
(NameTaken), and the job is decided again after growing pauses, until the Framework is deleted.
"""

import asyncio
import logging
from collections.abc import Callable, Hashable
from dataclasses import dataclass, replace
from datetime import datetime

from controller.kinds.decide.decision import Decision, Obstacle, Snapshot
from controller.kinds.decide.ownership import KIND_LABEL
from controller.kinds.decide.tfjob import decide_tfjob
from controller.kinds.decide.trainingjob import decide_trainingjob
from controller.kinds.decide.undecided import (
    TOO_LARGE,
    UNDECIDABLE,
    decide_undecided,
    describe_error,
    describe_scaler_error,
    describe_size,
)
from controller.kinds.execute import (
    FrameworkFoundError,
    GateClosedError,
    JobExecutor,
    ObstacleError,
)
from controller.kinds.scaling.execute import SCALERS
from controller.kinds.scaling.store import ScalerSink, ScalerStore
from controller.kinds.scaling.turn import Scalers, Turn, add_scaling
from controller.kinds.store import MAX_JOB_BYTES, JobStore, trim_service
from controller.queues.workqueue import WorkQueue
from controller.report.events import EventRecorder
from controller.runtime import Runtime
from controller.store.creation_proofs import KeyPair
from framework.clock import KeySource
from framework.kinds.observing import AddedCondition
from framework.kinds.tfjob import status as tfjob
from framework.kinds.trainingjob import conditions as trainingjob
from framework.kube.backoff import Backoff
from framework.kube.errors import ConflictError, KubeError, NotFoundError
from framework.kube.keptjson import UNBOUNDED, KeptJson
from framework.kube.listwatch import ListWatch
from framework.kube.resources import (
    FRAMEWORKS,
    SERVICES,
    TFJOBS,
    TRAININGJOBS,
    Object,
    Resource,
)

logger = logging.getLogger(__name__)

_WORKERS = 8
_NAMESPACE_WORKERS = 4
# The first decision, one for a Framework that exists already, and one for another obstacle.
_MAX_DECISIONS = 3
_FIRST_PAUSE_SECONDS = 0.5
_MAX_PAUSE_SECONDS = 30.0
_UNDECIDED_PAUSE_SECONDS = 600.0


@dataclass(frozen=True, slots=True)
class JobKind:
    """A kind of job."""

    resource: Resource
    """The resource of its objects."""
    decide: Callable[[Snapshot], Decision]
    """Decides about a job."""
    build_condition: Callable[[AddedCondition, datetime], Object]
    """Builds the JSON of a condition that the original does not have."""
    has_scalers: bool = False
    """Whether ScaleIns and ScaleOuts change its workers."""


KINDS = {
    "tfjob": JobKind(TFJOBS, decide_tfjob, tfjob.build_added_condition),
    "trainingjob": JobKind(
        TRAININGJOBS, decide_trainingjob, trainingjob.build_added_condition, has_scalers=True
    ),
}
"""By the names in the configuration."""


class JobReconciler:
    """Reconciles the jobs of one kind."""

    def __init__(
        self,
        runtime: Runtime,
        kind: JobKind,
        *,
        namespace: str | None,
        keys: KeySource,
        recorder: EventRecorder,
        kept_json: KeptJson = UNBOUNDED,
    ) -> None:
        """Prepare; nothing is read yet.

        Args:
            runtime: has the client, the clock, the random numbers, the metrics and the write gate.
            kind: the kind of the jobs.
            namespace: the namespace to watch; None for all.
            keys: makes ssh keys, and the key pair of this process.
            recorder: records Events.
            kept_json: bounds the JSON of jobs and Frameworks between their turns.
        """
        self._runtime = runtime
        self._kept_json = kept_json
        self._kind = kind
        self._queue = WorkQueue(lambda _: _NAMESPACE_WORKERS)
        self._store = JobStore(self._queue.add)
        self._pauses: dict[str, Backoff] = {}
        # By key, the inputs of the last decision that had nothing to do for Services.
        self._settled: dict[str, Hashable] = {}
        self._creator = KeyPair(keys)
        self._executor = JobExecutor(
            runtime,
            kind.resource,
            self._store,
            keys=keys,
            creator=self._creator,
            recorder=recorder,
        )
        self._scaler_store = ScalerStore(self._queue.add)
        self._scalers = Scalers(
            runtime.client, self._scaler_store, self._executor.send, runtime.clock
        )
        self._watches = self._build_watches(namespace)
        if kind.has_scalers:
            self._watches += self._build_scaler_watches(namespace)

    def _build_watches(self, namespace: str | None) -> list[ListWatch]:
        label = f"{KIND_LABEL}={self._kind.resource.kind}"
        return [
            ListWatch(
                self._runtime.client,
                resource,
                sink,
                clock=self._runtime.clock,
                random=self._runtime.random,
                namespace=namespace,
                label_selector=selector,
                trim=trim,
                is_deferred=trim is None,
                kept_json=self._kept_json,
            )
            for resource, sink, selector, trim in (
                (FRAMEWORKS, self._store.frameworks, label, None),
                (SERVICES, self._store.services, label, trim_service),
                (self._kind.resource, self._store.jobs, None, None),
            )
        ]

    def _build_scaler_watches(self, namespace: str | None) -> list[ListWatch]:
        return [
            ListWatch(
                self._runtime.client,
                resource,
                ScalerSink(self._scaler_store, scaler),
                clock=self._runtime.clock,
                random=self._runtime.random,
                namespace=namespace,
                is_deferred=True,
            )
            for scaler, resource in SCALERS.items()
        ]

    def start_watches(self, tasks: asyncio.TaskGroup) -> None:
        """Start the list-watches of the jobs and their objects, which run for ever."""
        for watch in self._watches:
            tasks.create_task(watch.run(), name=f"watch-{self._kind.resource.plural}")

    async def run(self) -> None:
        """Decide and execute, for ever. Nothing is decided before everything was listed."""
        for watch in self._watches:
            await watch.synced.wait()
        logger.info(
            "running jobs",
            extra={"resource": self._kind.resource.plural, "jobs": len(self._store)},
        )
        async with asyncio.TaskGroup() as tasks:
            for number in range(_WORKERS):
                name = f"{self._kind.resource.plural}-{number}"
                tasks.create_task(self._work(), name=name)

    def retry_all(self) -> None:
        """Decide about all jobs again: this controller may write now."""
        for key in (*self._store.list_keys(), *self._scaler_store.list_keys()):
            self._queue.add(key)

    def find_unready(self) -> list[str]:
        """Describe each resource that is not listed yet, or not connected."""
        plural = self._kind.resource.plural
        unready = []
        for watch in self._watches:
            if not watch.synced.is_set():
                unready.append(f"{plural}: not listed yet ({watch.last_error or 'in progress'})")
            elif not watch.is_connected:
                unready.append(f"{plural}: not connected ({watch.last_error})")
        return unready

    async def _work(self) -> None:
        while True:
            key = await self._queue.get()
            try:
                is_done = await self._reconcile(key)
            except GateClosedError:
                # The gate enqueues all keys when it opens.
                continue
            except KubeError as e:
                # If the job has changed or is gone since it was read, the watch queues it again.
                is_stale = isinstance(e, ConflictError | NotFoundError)
                level = logging.DEBUG if is_stale else logging.INFO
                logger.log(level, "job not reconciled", extra={"job": key, "error": str(e)})
                is_done = False
            except Exception:
                # One job must not stop the others.
                logger.exception("job not reconciled", extra={"job": key})
                is_done = False
            finally:
                self._store.put_away(key, self._kept_json)
                self._queue.done(key)
            if is_done:
                self._pauses.pop(key, None)
            else:
                self._pause(key)

    def _pause(self, key: str) -> None:
        backoff = self._pauses.setdefault(
            key, Backoff(initial=_FIRST_PAUSE_SECONDS, maximum=_MAX_PAUSE_SECONDS)
        )
        bound = backoff.next_bound_seconds()
        self._queue.add_after(key, self._runtime.random.uniform(bound / 2, bound))

    async def _reconcile(self, key: str) -> bool:
        """Reconcile one job; return False if it is to be decided again after a pause."""
        if not await self._read_stripped(key):
            return False
        job = self._store.find_job(key)
        is_wanted = job is not None or self._scalers.has_open(key)
        if not is_wanted or not self._runtime.write_gate.may_write():
            self._queue.forget(key)
            self._settled.pop(key, None)
            self._scalers.forget(key)
            return True
        if job is None:
            turn, is_done, obstacle = await self._scalers.observe(key, None, None), True, None
        else:
            job.setdefault("apiVersion", self._kind.resource.api_version)
            job.setdefault("kind", self._kind.resource.kind)
            snapshot = self._observe(key, job)
            if self._store.is_too_large(key):
                text = describe_size(MAX_JOB_BYTES)
                await self._leave(key, snapshot, Obstacle(TOO_LARGE, text))
                return True
            try:
                turn = await self._scalers.observe(key, job, snapshot)
            except KubeError:
                raise
            except Exception as e:
                logger.exception("scalers not decided", extra={"job": key})
                await self._leave(key, snapshot, Obstacle(UNDECIDABLE, describe_scaler_error(e)))
                return True
            is_done, obstacle = await self._reconcile_job(key, snapshot, turn)
        return await self._execute_scalers(key, turn, obstacle) and is_done

    async def _read_stripped(self, key: str) -> bool:
        """Read the objects of a job live whose JSON was not kept.

        Returns:
            False if a watch has meanwhile shown a later version.
        """
        namespace, _, name = key.partition("/")
        for sink in self._store.list_stripped(key):
            is_job = sink is self._store.jobs
            resource = self._kind.resource if is_job else FRAMEWORKS
            sink.put(await self._runtime.client.get(resource, namespace, name))
        return not self._store.list_stripped(key)

    async def _execute_scalers(self, key: str, turn: Turn, obstacle: Obstacle | None) -> bool:
        """Execute the steps of the scalers; return False if they were decided from old objects."""
        has_step = await self._scalers.execute(key, turn, obstacle)
        pause = self._scalers.find_pause(key, turn)
        if has_step:
            self._queue.add(key)
        elif pause is not None:
            self._queue.add_after(key, pause)
        return not turn.is_stale

    async def _reconcile_job(
        self, key: str, snapshot: Snapshot, turn: Turn
    ) -> tuple[bool, Obstacle | None]:
        """Decide and execute.

        Returns:
            Whether the job is done; if not, it is decided again after a pause. And the obstacle
            that has stopped the execution.
        """
        services_version = self._store.get_services_version(key)
        for _ in range(_MAX_DECISIONS):
            # In each round, because a Framework that was found may have workers of scalers.
            scaled = add_scaling(snapshot, turn) if self._kind.has_scalers else snapshot
            version = _find_version(scaled, services_version)
            is_settled = self._settled.get(key) == version
            try:
                decision = self._kind.decide(replace(scaled, has_settled_services=is_settled))
            except Exception as e:
                # An error in one job must not stop the others. Its user sees it in the status.
                logger.exception("job not decided", extra={"job": key})
                obstacle = Obstacle(UNDECIDABLE, describe_error(e))
                await self._leave(key, snapshot, obstacle)
                return True, obstacle
            try:
                await self._executor.execute(snapshot.job, decision)
            except ObstacleError as e:
                snapshot = replace(snapshot, obstacle=e.obstacle, now=self._runtime.clock.now())
            except FrameworkFoundError as e:
                snapshot = replace(snapshot, framework=e.found, now=self._runtime.clock.now())
            else:
                if decision.has_settled_services:
                    self._settled[key] = version
                if decision.has_more:
                    self._queue.add(key)
                return not decision.is_blocked, snapshot.obstacle
        return False, snapshot.obstacle

    async def _leave(self, key: str, snapshot: Snapshot, obstacle: Obstacle) -> None:
        """Write into the status why nothing is decided about the job."""
        decision = decide_undecided(snapshot, obstacle, self._kind.build_condition)
        await self._executor.execute(snapshot.job, decision)
        self._queue.add_after(key, _UNDECIDED_PAUSE_SECONDS)

    def _observe(self, key: str, job: Object) -> Snapshot:
        """Build the Snapshot of a job, without its scalers."""
        return Snapshot(
            job=job,
            framework=self._store.find_framework(key),
            services=self._store.list_services(key, job),
            now=self._runtime.clock.now(),
            creator_key=self._creator.public_key,
        )


def _find_version(snapshot: Snapshot, services_version: int) -> Hashable:
    """Build a version of the inputs that decide about the Services of a job."""
    metadata = snapshot.job["metadata"]
    return (
        metadata.get("uid"),
        metadata.get("generation"),
        snapshot.workers,
        services_version,
    )

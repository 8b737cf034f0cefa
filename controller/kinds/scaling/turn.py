"""The turn of the scalers of a TrainingJob: observe, decide, execute.

1. Observe the launcher, if a scaler has not ended or the status of the job names one.
2. Decide the next steps (``framework.kinds.scaling.decide``).
3. Before a step with an effect on the job, read metadata from the API server: of the scaler, of the
   scaler that the status of the job names, and of the Framework before the start of a scaler. The
   store may not have the last writes of a controller that ended a moment ago. If the store is
   behind, drop the steps and decide again after a pause.
4. ``SetWorkers`` becomes the wanted workers of the decision about the job, which replaces the
   Framework. Execute the other steps after that decision.
5. If the API server refuses a step, let the scaler fail with the message of the server.
6. If there was a step, queue the job at once, otherwise after a pause: while a scaler is in
   progress, every second, later every ten seconds, because no watch shows the answer of the
   launcher's agent.

Invariants:
- A step with an effect on the job is executed only if the store had the current version of the
  scaler after the decision.
- A scaler that waits and cannot be written delays no other scaler.
- Each turn has at most one step of a scaler. After a crash, the next controller decides the same
  step again.

Example: a ScaleOut adds worker 2. The first turn stores the condition Scaling. The second one sets
the workers of the Framework to 0, 1 and 2. When the new worker runs, a turn writes the request for
the launcher's agent into the ConfigMap of the attempt. When the agent has answered, one turn stores
ScriptExecuted, one removes the request, and one stores ScaleSucceeded.
"""

import logging
from dataclasses import dataclass, field, replace
from datetime import datetime

from controller.kinds.decide.decision import Obstacle, Snapshot
from controller.kinds.decide.ownership import is_owned
from controller.kinds.decide.plan import REFUSED, find_framework
from controller.kinds.decide.workers import choose_workers, is_resizing
from controller.kinds.scaling.delays import Delays
from controller.kinds.scaling.execute import ScalerExecutor, Send, read_shown
from controller.kinds.scaling.observe import LauncherObserver
from controller.kinds.scaling.store import ScalerStore
from framework.api import constants
from framework.api.types import Framework
from framework.clock import Clock
from framework.kinds.compiled import Object, WantedWorkers
from framework.kinds.scaling.decide import decide, refuse
from framework.kinds.scaling.reading import read_job
from framework.kinds.scaling.snapshot import (
    Action,
    AddOwner,
    ClearRequest,
    JobFacts,
    ScalingDecision,
    ScalingSnapshot,
    SetWorkers,
    WriteRequest,
    WriteStatus,
)
from framework.kinds.scaling.status import SCALING, find_condition, is_started
from framework.kinds.scaling.types import Failure, Scaler
from framework.kinds.trainingjob.status import ScalerEnd
from framework.kube.client import KubeClient
from framework.kube.errors import (
    ApiError,
    ConflictError,
    NotFoundError,
    UnauthorizedError,
)

logger = logging.getLogger(__name__)

_LEAST_PAUSE_SECONDS = 1.0
_MOST_PAUSE_SECONDS = 10.0
# The object has changed or is gone since it was read, or the server accepts no request of ours.
_TEMPORARY = (ConflictError, NotFoundError, UnauthorizedError)
# The pause is the time since the start divided by this: after 30 s, a turn every 3 s.
_PAUSE_DIVISOR = 10


@dataclass(frozen=True, slots=True)
class Turn:
    """The decision about the scalers of one job."""

    job: Object | None = None
    """The TrainingJob; None if there is none of this name."""
    framework: Framework | None = None
    """Its Framework; None if it has none."""
    decision: ScalingDecision = field(default_factory=ScalingDecision)
    """The next step of each scaler."""
    current: Scaler | None = None
    """The scaler in progress."""
    shown_end: ScalerEnd | None = None
    """How the scaler ended that the status of the job still names; None if it has not."""
    is_stale: bool = False
    """Whether the decision was dropped, because the store is behind the API server."""
    pause_seconds: float | None = None
    """Seconds until the next turn without an event; None if it is not needed."""


class Scalers:
    """Takes the turns of the scalers of all jobs."""

    def __init__(self, client: KubeClient, store: ScalerStore, send: Send, clock: Clock) -> None:
        """Read through ``client``, write by ``send``."""
        self._client = client
        self._store = store
        self._clock = clock
        self._executor = ScalerExecutor(client, store, send)
        self._delays = Delays(clock)
        self._observer = LauncherObserver(client)

    def has_open(self, key: str) -> bool:
        """Return whether a scaler of the job has not ended."""
        return self._store.has_open(key)

    def forget(self, key: str) -> None:
        """Forget the requests and delays of a job that is gone."""
        self._observer.forget(key)
        self._delays.forget(key)

    def find_pause(self, key: str, turn: Turn) -> float | None:
        """Find the seconds until the next turn without an event; None if it is not needed."""
        pauses = (turn.pause_seconds, self._delays.find_pause(key))
        return min((pause for pause in pauses if pause is not None), default=None)

    async def observe(self, key: str, job: Object | None, snapshot: Snapshot | None) -> Turn:
        """Decide the next steps of the scalers of a job; ``snapshot`` None: there is no job.

        Raises:
            KubeError: a request failed.
        """
        scalers = self._store.list_open(key, self._delays.list_waiting(key))
        if not scalers and not (job and read_shown(job)):
            if not self._store.has_open(key):
                self.forget(key)
            return Turn(job)
        framework = None if snapshot is None else find_framework(snapshot)
        facts = ScalingSnapshot(
            now=self._clock.now(),
            job=_read_facts(job, framework, snapshot),
            framework=framework,
            launcher=await self._observer.observe(key, framework),
            scalers=scalers,
        )
        decision = decide(facts)
        current = next((s for s in scalers if s.title == decision.current), None)
        pause = _find_pause(decision, current, facts.now)
        if await self._is_stale(job, framework, decision, current):
            dropped = replace(decision, actions=())
            return Turn(job, framework, dropped, current, is_stale=True, pause_seconds=pause)
        end = self._store.find_end(read_shown(job)) if job else None
        return Turn(job, framework, decision, current, end, pause_seconds=pause)

    async def _is_stale(
        self,
        job: Object | None,
        framework: Framework | None,
        decision: ScalingDecision,
        current: Scaler | None,
    ) -> bool:
        """Return whether a step with an effect was decided from old objects.

        Raises:
            KubeError: a request failed.
        """
        for action in decision.actions:
            match action:
                case SetWorkers() | WriteRequest():
                    if current and not await self._executor.is_current(current):
                        return True
                case ClearRequest(uid):
                    is_known = current is not None and current.uid == uid
                    if job and not is_known and not await self._executor.knows_shown(job):
                        return True
                case WriteStatus(scaler, status):
                    is_start = is_started(status) and not is_started(scaler.status)
                    if (
                        job
                        and is_start
                        and not (
                            await self._executor.is_framework_current(framework)
                            and await self._executor.knows_shown(job)
                        )
                    ):
                        return True
                case AddOwner():
                    pass
        return False

    async def execute(self, key: str, turn: Turn, obstacle: Obstacle | None) -> bool:
        """Execute the steps; return whether there was one, so that the next can be decided.

        A scaler that waits and cannot be written waits longer, and delays no other one.

        Args:
            key: of the job.
            turn: the steps.
            obstacle: why the Framework was not replaced; None if it was, or is as wanted.

        Raises:
            KubeError: a request for the scaler in progress failed, or no request is answered.
        """
        has_step = False
        for action in turn.decision.actions:
            waiting = _find_waiting(action)
            try:
                has_step |= await self._execute(turn, action, obstacle)
            except ApiError as e:
                if waiting is None:
                    raise
                logger.info("scaler not written", extra={"scaler": waiting.title, "error": str(e)})
                self._delays.add(key, waiting.uid)
            else:
                if waiting is not None:
                    self._delays.clear(key, waiting.uid)
        return has_step

    async def _execute(self, turn: Turn, action: Action, obstacle: Obstacle | None) -> bool:
        if isinstance(action, SetWorkers):
            if obstacle is None:
                return False
            return await self._refuse(turn, action, Failure(obstacle.reason, obstacle.message))
        try:
            await self._executor.execute(turn.job, turn.framework, action)
        except ApiError as e:
            failure = Failure(REFUSED, f"the API server refuses the request: {e}")
            is_temporary = e.is_transient or isinstance(e, _TEMPORARY)
            if is_temporary or not await self._refuse(turn, action, failure):
                raise
        return True

    async def _refuse(self, turn: Turn, action: Action, failure: Failure) -> bool:
        """Write the failure of a scaler whose step was refused; return whether it was stored."""
        scaler = action.scaler if isinstance(action, AddOwner) else turn.current
        if scaler is None:
            return False
        step = refuse(scaler, action, failure, self._clock.now())
        if step is None:
            return False
        await self._executor.execute(turn.job, turn.framework, step)
        return True


def add_scaling(snapshot: Snapshot, turn: Turn) -> Snapshot:
    """Add the earlier and the new changes of scalers to the Snapshot of a job."""
    decision = turn.decision
    changes = [a.workers for a in decision.actions if isinstance(a, SetWorkers)]
    stored, scaled = snapshot.framework, None
    if stored is not None and not is_owned(stored, snapshot.job):
        stored = None
    if changes or decision.current or stored is None or _has_annotation(stored):
        change: WantedWorkers | None = changes[0] if changes else None
        scaled = choose_workers(
            snapshot.job,
            turn.framework or find_framework(snapshot),
            stored,
            change,
            is_scaling=bool(decision.current) or _is_faulty(snapshot.job),
        )
    # The status names a deleted scaler until its request has been removed.
    is_clearing = any(isinstance(action, ClearRequest) for action in decision.actions)
    shown = decision.current or (read_shown(snapshot.job) if is_clearing else "")
    name = constants.SCALED_WORKERS_ANNOTATION
    return replace(
        snapshot,
        workers=None if scaled is None else scaled.workers,
        has_new_workers=bool(changes) and scaled is not None,
        annotations={} if scaled is None else {name: scaled.encode()},
        scaled_workers=None if scaled is None else scaled.build_wire(),
        scaler=shown,
        scaler_end=None if shown == read_shown(snapshot.job) else turn.shown_end,
    )


def _has_annotation(framework: Object) -> bool:
    annotations = framework["metadata"].get("annotations")
    return constants.SCALED_WORKERS_ANNOTATION in (annotations or {})


def _find_waiting(action: Action) -> Scaler | None:
    """Find the scaler that a step changes, if it is not in progress."""
    if isinstance(action, AddOwner | WriteStatus) and not is_started(action.scaler.status):
        return action.scaler
    return None


def _read_facts(
    job: Object | None, framework: Framework | None, snapshot: Snapshot | None
) -> JobFacts | None:
    if job is None or snapshot is None:
        return None
    facts = read_job(job, framework)
    stored = snapshot.framework
    if stored is None or not is_owned(stored, job) or framework is None:
        return facts
    return replace(facts, is_resizing=is_resizing(job, framework, stored))


def _is_faulty(job: Object) -> bool:
    return read_job(job, None).is_faulty


def _find_pause(decision: ScalingDecision, current: Scaler | None, now: datetime) -> float | None:
    """Find the seconds until the next decision; None if it waits for an event."""
    pauses = []
    if decision.wake_at is not None:
        pauses.append((decision.wake_at - now).total_seconds())
    started = None if current is None else find_condition(current.status, SCALING)
    if started is not None:
        elapsed = (now - started.since).total_seconds()
        pause = elapsed / _PAUSE_DIVISOR
        pauses.append(min(max(pause, _LEAST_PAUSE_SECONDS), _MOST_PAUSE_SECONDS))
    return min(pauses, default=None)

"""What scalers do in one turn of a TrainingJob: observe, decide, execute.

1. The launcher is observed, if a scaler has not ended or the status of the job names one.
2. The next steps are decided (``framework.kinds.scaling.decide``).
3. Before a step with an effect on the job, the scaler is read from the API server: the store may be
   behind a controller that ended a moment ago.
4. ``SetWorkers`` becomes the wanted workers of the decision about the job, which replaces the
   Framework. The other steps are executed after that decision.

While a scaler is in progress, the job has a turn every second, later every ten seconds: no watch
shows the answer of the launcher's agent.
"""

from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from controller.kinds.decide.decision import Snapshot
from controller.kinds.decide.plan import find_framework
from controller.kinds.decide.workers import choose_workers
from controller.kinds.scaling.execute import ScalerExecutor, Send
from controller.kinds.scaling.observe import observe_launcher
from controller.kinds.scaling.store import ScalerStore
from framework.api import constants
from framework.api.types import Framework
from framework.clock import Clock
from framework.kinds.compiled import Object, WantedWorkers
from framework.kinds.scaling.decide import decide
from framework.kinds.scaling.reading import read_job
from framework.kinds.scaling.snapshot import (
    ClearRequest,
    ScalingDecision,
    ScalingSnapshot,
    SetWorkers,
    WriteRequest,
)
from framework.kinds.scaling.status import SCALING, find_condition
from framework.kinds.scaling.types import Scaler
from framework.kube.client import KubeClient

_LEAST_PAUSE_SECONDS = 1.0
_MOST_PAUSE_SECONDS = 10.0
_CALM = 10  # a scaler in progress for 30 s is looked at every 3 s


@dataclass(frozen=True, slots=True)
class Turn:
    """The decision about the scalers of one job."""

    job: Object | None = None
    """The TrainingJob; None if there is none of this name."""
    framework: Framework | None = None
    """Its Framework; None if it has none."""
    decision: ScalingDecision = field(default_factory=ScalingDecision)
    """The next step of each scaler."""
    is_stale: bool = False
    """Whether the decision was dropped, because the store is behind the API server."""
    pause_seconds: float | None = None
    """When to look again without an event; None if that is not needed."""


class Scalers:
    """Takes the turns of the scalers of all jobs."""

    def __init__(self, client: KubeClient, store: ScalerStore, send: Send, clock: Clock) -> None:
        """Read through ``client``, write by ``send``."""
        self._client = client
        self._store = store
        self._clock = clock
        self._executor = ScalerExecutor(client, store, send)

    def has_open(self, key: str) -> bool:
        """Return whether a scaler of the job has not ended."""
        return bool(self._store.list_open(key))

    async def observe(self, key: str, job: Object | None, snapshot: Snapshot | None) -> Turn:
        """Decide the next steps of the scalers of a job; ``snapshot`` None: there is no job.

        Raises:
            KubeError: a request failed.
        """
        scalers = self._store.list_open(key)
        if not scalers and not (job and _read_shown(job)):
            return Turn(job)
        framework = None if snapshot is None else find_framework(snapshot)
        facts = ScalingSnapshot(
            now=self._clock.now(),
            job=None if job is None else read_job(job, framework),
            framework=framework,
            launcher=await observe_launcher(self._client, framework),
            scalers=scalers,
        )
        decision = decide(facts)
        current = next((s for s in scalers if s.title == decision.current), None)
        pause = _find_pause(decision, current, facts.now)
        has_effect = any(isinstance(a, SetWorkers | WriteRequest) for a in decision.actions)
        if has_effect and current and not await self._executor.is_current(current):
            dropped = replace(decision, actions=())
            return Turn(job, framework, dropped, is_stale=True, pause_seconds=pause)
        return Turn(job, framework, decision, pause_seconds=pause)

    async def execute(self, turn: Turn) -> bool:
        """Execute the steps; return whether there was one, so that the next can be decided.

        Raises:
            KubeError: a request failed.
        """
        steps = [a for a in turn.decision.actions if not isinstance(a, SetWorkers)]
        for action in steps:
            await self._executor.execute(turn.job, turn.framework, action)
        return bool(steps)


def add_scaling(snapshot: Snapshot, turn: Turn) -> Snapshot:
    """Add to the Snapshot of a job what scalers have changed, and change now."""
    decision = turn.decision
    changes = [a.workers for a in decision.actions if isinstance(a, SetWorkers)]
    scaled = None
    if changes or decision.current or _has_annotation(snapshot.framework):
        change: WantedWorkers | None = changes[0] if changes else None
        scaled = choose_workers(
            snapshot.job,
            turn.framework or find_framework(snapshot),
            snapshot.framework,
            change,
            is_scaling=bool(decision.current),
        )
    # The status names a deleted scaler until its request has been removed.
    is_clearing = any(isinstance(action, ClearRequest) for action in decision.actions)
    shown = decision.current or (_read_shown(snapshot.job) if is_clearing else "")
    name = constants.SCALED_WORKERS_ANNOTATION
    return replace(
        snapshot,
        workers=None if scaled is None else scaled.workers,
        has_new_workers=bool(changes) and scaled is not None,
        annotations={} if scaled is None else {name: scaled.encode()},
        scaler=shown,
    )


def _has_annotation(framework: Object | None) -> bool:
    annotations = None if framework is None else framework["metadata"].get("annotations")
    return constants.SCALED_WORKERS_ANNOTATION in (annotations or {})


def _read_shown(job: Object) -> str:
    """Read which scaler the status of a job names."""
    status: Any = job.get("status")
    shown = status.get("currentScaler") if isinstance(status, dict) else None
    return shown if isinstance(shown, str) else ""


def _find_pause(decision: ScalingDecision, current: Scaler | None, now: datetime) -> float | None:
    """Find when to decide again."""
    pauses = []
    if decision.wake_at is not None:
        pauses.append((decision.wake_at - now).total_seconds())
    started = None if current is None else find_condition(current.status, SCALING)
    if started is not None:
        elapsed = (now - started.since).total_seconds()
        pauses.append(min(max(elapsed / _CALM, _LEAST_PAUSE_SECONDS), _MOST_PAUSE_SECONDS))
    return min(pauses, default=None)

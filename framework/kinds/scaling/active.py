"""The scaler in progress or next to start, with the facts that its steps depend on. Pure."""

from dataclasses import dataclass
from datetime import datetime
from typing import Self

from framework.api.states import TaskState
from framework.api.types import Framework
from framework.kinds.observing import is_running
from framework.kinds.scaling import status as statuses
from framework.kinds.scaling.plan import find_worker_tasks, list_ended, list_workers, read_plan
from framework.kinds.scaling.snapshot import (
    JobFacts,
    LauncherFacts,
    ScalingSnapshot,
    SetWorkers,
    WriteStatus,
)
from framework.kinds.scaling.types import Failure, Scaler, ScalerKind, ScalerSpec
from framework.kinds.scaling.workers import Workers, build_wanted, name_workers

AGENT_SECONDS = 10
"""After this time a launcher whose agent never acknowledged has no agent."""
ANSWER_SECONDS = 30
"""How long the agent's answer may take beyond the limits of the scaler."""
_DRAIN_MARGIN_SECONDS = 60
_MAX_NAMED = 5


@dataclass(frozen=True, slots=True)
class ActiveScaler:
    """A scaler whose turn it is, with its job and their Framework at one moment."""

    scaler: Scaler
    """The scaler: not ended, with the condition Created."""
    job: JobFacts
    """Its TrainingJob."""
    framework: Framework | None
    """The Framework of the job; None if there is none."""
    launcher: LauncherFacts
    """The launcher's Pod and agent."""
    now: datetime
    """The time."""

    @classmethod
    def observe(cls, scaler: Scaler, job: JobFacts, snapshot: ScalingSnapshot) -> Self:
        """Take the facts of a snapshot."""
        return cls(scaler, job, snapshot.framework, snapshot.launcher, snapshot.now)

    @property
    def spec(self) -> ScalerSpec:
        """The spec; of a scaler that has faults now, a spec that is enough to undo its changes."""
        return self.scaler.spec or ScalerSpec(job="", count=0)

    @property
    def is_scale_in(self) -> bool:
        """Whether it removes workers."""
        return self.scaler.kind is ScalerKind.SCALE_IN

    # --- Workers ---------------------------------------------------------------------------------

    @property
    def workers(self) -> Workers:
        """The wanted workers of the Framework."""
        return list_workers(self.framework)

    @property
    def ended(self) -> Workers:
        """The wanted workers that have ended and are not replaced."""
        return list_ended(self.framework, self.workers)

    @property
    def plan(self) -> Workers:
        """The workers to remove or to add, as stored with the condition Scaling."""
        return read_plan(self.scaler, self.job)

    def list_missing(self) -> list[int]:
        """List the new workers that do not run yet; none for a ScaleIn."""
        if self.is_scale_in:
            return []
        running = {
            task.index
            for task in find_worker_tasks(self.framework, self.plan)
            if is_running(task) and not task.deletion_pending
        }
        return sorted(self.plan - running)

    def list_leaving(self) -> list[int]:
        """List the removed workers whose Pods are not deleted yet; not those wanted again."""
        tasks = find_worker_tasks(self.framework, self.plan - self.workers)
        return [task.index for task in tasks if task.state is not TaskState.COMPLETED]

    def name_some(self, indexes: list[int]) -> str:
        """Name the first Pods of these workers."""
        return ", ".join(name_workers(self.job.name, indexes[:_MAX_NAMED]))

    def set_workers(self, wanted: Workers) -> SetWorkers | None:
        """Make these the wanted workers; None if they are, or if no worker would be left."""
        if wanted == self.workers or not wanted:
            return None
        # The agent answers before this deadline of the drain.
        drain_seconds = 2 * self.spec.timeout_seconds + _DRAIN_MARGIN_SECONDS
        return SetWorkers(build_wanted(wanted, drain_seconds))

    # --- The launcher's agent --------------------------------------------------------------------

    @property
    def is_same_launcher(self) -> bool:
        """Whether the launcher's Pod is the one for which the scaler started."""
        return self.launcher.pod_uid == self.scaler.status.launcher_uid

    @property
    def is_requested(self) -> bool:
        """Whether the request of this scaler is in the attempt's ConfigMap."""
        return self.launcher.request_uid == self.scaler.uid

    @property
    def has_answered(self) -> bool:
        """Whether the agent that was asked has finished."""
        result = self.launcher.result
        return self.is_same_launcher and result is not None and result.uid == self.scaler.uid

    @property
    def lacks_reporter(self) -> bool:
        """Whether no agent can report the script of the scaler, so that no agent may run it."""
        return bool(self.spec.script) and self._lacks_agent and not self.is_requested

    @property
    def needs_no_agent(self) -> bool:
        """Whether it has no script, and the launcher no agent for which it would wait."""
        return not self.spec.script and self._lacks_agent and self.elapsed_seconds >= AGENT_SECONDS

    @property
    def _lacks_agent(self) -> bool:
        """Whether no agent has acknowledged in the launcher for which the scaler started."""
        return self.is_same_launcher and not self.launcher.has_agent

    # --- Time ------------------------------------------------------------------------------------

    @property
    def elapsed_seconds(self) -> float:
        """Seconds since its start; 0 before it."""
        started = statuses.find_condition(self.scaler.status, statuses.SCALING)
        return 0.0 if started is None else (self.now - started.since).total_seconds()

    @property
    def limit_seconds(self) -> int:
        """Seconds after its start at which it fails in any case.

        It has one timeout for each wait: for new workers (ScaleOut only), of the agent, and for the
        script.
        """
        parts = 2 if self.is_scale_in else 3
        return parts * self.spec.timeout_seconds + ANSWER_SECONDS

    # --- Its status ------------------------------------------------------------------------------

    def add_condition(self, type_: str, reason: str, message: str) -> WriteStatus:
        """Write its status with one more condition."""
        status = statuses.add_condition(self.scaler.status, type_, reason, message, self.now)
        return WriteStatus(self.scaler, status)

    def end_with(self, failure: Failure) -> WriteStatus:
        """End it: it has changed nothing, or its changes were put back."""
        return self.add_condition(statuses.FAILED, failure.reason, failure.message)

"""Scalers on a simulated job: controllers of Frameworks and agents that do their part, in steps."""

import random
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from framework.api.scalerequest import (
    ScaleRequest,
    ScaleResult,
    decode_request,
    decode_result,
    encode_result,
)
from framework.api.states import TaskState
from framework.api.types import Framework, TaskStatus
from framework.kinds.scaling.decide import decide
from framework.kinds.scaling.snapshot import (
    Action,
    AddOwner,
    ClearRequest,
    JobFacts,
    LauncherFacts,
    ScalingSnapshot,
    SetWorkers,
    WriteRequest,
    WriteStatus,
)
from framework.kinds.scaling.status import decode_status, encode_status, find_end
from framework.kinds.scaling.types import Scaler, ScalerKind, ScalerSpec
from framework.kinds.scaling.workers import build_wanted
from tests.support.builders import (
    at,
    build_framework,
    build_role,
    build_role_status,
    build_spec,
    build_status,
    build_task,
)

JOB = "gang"
JOB_UID = "job-uid"
LAUNCHER_UID = "launcher-0"
IN, OUT = ScalerKind.SCALE_IN, ScalerKind.SCALE_OUT


def build_scaler(name: str = "s", kind: ScalerKind = IN, seconds: float = 0, **spec: Any) -> Scaler:
    """A new scaler of one worker."""
    fields = {"job": JOB, "count": 0 if "pod_names" in spec else 1, **spec}
    return Scaler(kind, "default", name, f"uid-{name}", at(seconds), spec=ScalerSpec(**fields))


def build_job(**fields: Any) -> JobFacts:
    return JobFacts(**{"name": JOB, "uid": JOB_UID, **fields})


def build_gang(workers: set[int], tasks: tuple[TaskStatus, ...]) -> Framework:
    """The Framework of a job: a running launcher, these wanted workers and these Tasks of them."""
    wanted = build_wanted(frozenset(workers), 60)
    role = build_role("worker", wanted.count, absent_task_indices=wanted.absent)
    status = build_status(
        build_role_status("launcher"), replace(build_role_status("worker", 0), tasks=tasks)
    )
    return build_framework(build_spec(build_role("launcher"), role), status)


@dataclass
class Simulation:
    """One job: what the API server has, and one step of each program at a time."""

    workers: set[int] = field(default_factory=lambda: {0, 1})
    """The wanted workers of the Framework."""
    scalers: dict[str, Scaler] = field(default_factory=dict)
    job: JobFacts | None = field(default_factory=build_job)
    has_agent: bool = True
    launcher_uid: str = LAUNCHER_UID
    script_codes: dict[str, int] = field(default_factory=dict)
    """Exit codes of scripts, by scaler; 0 if it is not named."""
    broken: set[int] = field(default_factory=set)
    """Workers that never run."""
    seconds: float = 0
    request: str = ""
    """The request in the ConfigMap, encoded; "" for none."""
    result: str = ""
    """The result on the Pod of the launcher, encoded."""
    done: dict[str, ScaleResult] = field(default_factory=dict)
    """What the agent has stored in its volume."""
    scripts: list[str] = field(default_factory=list)
    """The arguments of each script that was run."""
    tasks: dict[int, TaskState] = field(default_factory=dict)
    gone: set[int] = field(default_factory=set)
    """Workers below the greatest index that were scaled down: their Tasks stay, Completed."""
    pods: list[tuple[str, int]] = field(default_factory=list)
    """Created and deleted Pods."""
    least: int = 10**6
    """The least number of workers that were wanted at any time."""
    overlaps: int = 0
    """How often two scalers were in progress at a time."""

    def __post_init__(self) -> None:
        """Begin with running workers."""
        for index in self.workers:
            self.tasks[index] = TaskState.ATTEMPT_RUNNING

    def add(self, *scalers: Scaler) -> None:
        for scaler in scalers:
            self.scalers[scaler.name] = scaler

    def build_snapshot(self) -> ScalingSnapshot:
        tasks = (
            build_task(state, index=index, deletion_pending=self.is_leaving(index))
            for index, state in sorted(self.tasks.items())
        )
        result = decode_result(self.result) if self.result else None
        told = decode_request(self.request).uid if self.request else ""
        facts = LauncherFacts(self.launcher_uid, self.has_agent, told, result)
        return ScalingSnapshot(
            now=at(self.seconds),
            job=self.job,
            framework=build_gang(self.workers, tuple(tasks)),
            launcher=facts if self.launcher_uid else LauncherFacts(),
            scalers=tuple(self.scalers.values()),
        )

    def is_leaving(self, index: int) -> bool:
        return index not in self.workers or index in self.gone

    def decide(self) -> tuple[Action, ...]:
        decision = decide(self.build_snapshot())
        started = [s for s in self.scalers.values() if self.is_in_progress(s)]
        self.overlaps += len(started) > 1
        return decision.actions

    @staticmethod
    def is_in_progress(scaler: Scaler) -> bool:
        types = {c.type for c in scaler.status.conditions}
        return "Scaling" in types and find_end(scaler.status) is None

    def execute(self, action: Action) -> None:
        """Do what the API server would: nothing for a scaler that has ended."""
        if isinstance(action, AddOwner):
            scaler = self.scalers[action.scaler.name]
            self.add(replace(scaler, owners=scaler.owners | {action.uid}))
        elif isinstance(action, WriteStatus):
            kind = action.scaler.kind
            stored = decode_status(kind, encode_status(kind, action.status))
            self.add(replace(self.scalers[action.scaler.name], status=stored))
        elif isinstance(action, WriteRequest):
            self.request = action.request
        elif isinstance(action, ClearRequest):
            self.request = ""
        elif isinstance(action, SetWorkers):
            wanted = action.workers
            self.workers = set(range(wanted.count)) - set(wanted.absent)
            self.least = min(self.least, len(self.workers))

    def run_agent(self) -> None:
        """Carry out the request, once; report the stored result again after a restart."""
        if not self.request or not self.has_agent:
            return
        request = decode_request(self.request)
        if request.uid not in self.done and self._is_met(request):
            code = 0
            if request.script:
                names = [f"{JOB}-worker-{index}:{request.slots}" for index in request.indexes]
                self.scripts.append(f"{request.uid} {request.script} {','.join(names)}")
                code = self.script_codes.get(request.uid.removeprefix("uid-"), 0)
            text = f"the script ended with {code}" if code else ""
            self.done[request.uid] = ScaleResult(request.uid, code, text)
        if request.uid in self.done:
            self.result = encode_result(self.done[request.uid])

    def _is_met(self, request: ScaleRequest) -> bool:
        members = {index for index in self.workers if index in self.tasks.keys() - self.gone}
        planned = set(request.indexes)
        return not planned & members if request.is_scale_in else planned <= members

    def run_core(self) -> None:
        """Create and delete one Pod: those that leave only after the agent has finished."""
        for index in sorted(self.workers - (self.tasks.keys() - self.gone)):
            self.gone.discard(index)
            self.tasks[index] = TaskState.ATTEMPT_PREPARING
            self.pods.append(("created", index))
            return
        for index in sorted(self.workers):
            if self.tasks[index] is TaskState.ATTEMPT_PREPARING and index not in self.broken:
                self.tasks[index] = TaskState.ATTEMPT_RUNNING
                return
        held = bool(self.request) and decode_request(self.request).uid not in self.done
        for index in sorted(self.tasks.keys() - self.workers - self.gone):
            if not held:
                if index < max(self.workers):
                    self.gone.add(index)
                    self.tasks[index] = TaskState.COMPLETED
                else:
                    del self.tasks[index]
                self.pods.append(("deleted", index))
                return

    def run_controller(self) -> bool:
        """Decide and execute; return whether there was an action."""
        actions = self.decide()
        for action in actions:
            self.execute(action)
        return bool(actions)

    def wait(self) -> None:
        """Let time pass until the next decision."""
        wake_at = decide(self.build_snapshot()).wake_at
        self.seconds = self.seconds + 1 if wake_at is None else (wake_at - at(0)).total_seconds()

    def run(self, rng: random.Random | None = None) -> None:
        """Take steps, in turn or in a random order, until nothing changes any more."""
        programs: list[Callable[[], object]] = [
            self.run_controller,
            self.run_core,
            self.run_agent,
        ]
        idle = 0
        while True:
            before = self.describe()
            for program in rng.choices(programs, k=6) if rng else ():
                program()
            is_chosen_calm = self.describe() == before
            for program in programs if is_chosen_calm else ():
                program()
            if self.describe() != before:
                continue
            decision = decide(self.build_snapshot())
            if decision.actions:  # the controller has crashed
                idle += 1
                assert idle < 3, f"an action without an effect: {decision.actions}"
            elif decision.wake_at is None:
                return
            else:  # time passes only when no program has anything to do
                self.wait()

    def describe(self) -> tuple[object, ...]:
        statuses = {name: scaler.status for name, scaler in self.scalers.items()}
        owners = {name: scaler.owners for name, scaler in self.scalers.items()}
        return (
            statuses,
            owners,
            dict(self.tasks),
            frozenset(self.gone),
            dict(self.done),
            self.request,
            self.result,
            frozenset(self.workers),
            len(self.scripts),
        )

    def list_conditions(self, name: str = "s") -> list[str]:
        return [c.type for c in self.scalers[name].status.conditions]

    def get_last(self, name: str = "s") -> tuple[str, str, str]:
        last = self.scalers[name].status.conditions[-1]
        return last.type, last.reason, last.message

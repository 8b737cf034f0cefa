"""A gang that is suspended, or has a deadline or a TTL, from decision to decision."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

from controller.core.decision import Decision
from controller.core.settings import Settings
from framework.api.states import FrameworkState
from framework.api.types import Condition, ExecutionType, RetryPolicySpec
from tests.support.builders import build_role, build_spec
from tests.support.builders.worlds import World, get_code

S = FrameworkState
SETTINGS = Settings(
    min_conflict_delay_seconds=20, max_conflict_delay_seconds=20, completed_retain_seconds=500
)
STOP = ExecutionType.STOP


class Gang(World):
    """A Framework whose Pods run at once, and whose terminating Pods end at once."""

    def __init__(self, number: int = 2, **spec: Any) -> None:
        super().__init__(build_spec(build_role(number=number), **spec), SETTINGS)
        self.events: list[str] = []

    def carry_out(self, decision: Decision) -> None:
        super().carry_out(decision)
        self.events += [event.reason for event in decision.events]

    def change(self, **spec: Any) -> None:
        self.edit(replace(self.framework.spec, **spec))

    def rest(self) -> None:
        """Let controller, kubelets and garbage collector work until nothing changes."""
        for _ in range(8):
            if self.is_gone:
                return
            self.settle()
            for name in sorted(self.pods):
                if self.pods[name].is_terminating:
                    self.remove_pod(name)
                elif not self.pods[name].is_ended:
                    self.run_pod(name)
            self.collect_garbage()

    def advance(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)
        self.rest()

    def suspend(self) -> None:
        self.change(suspend=True)
        self.rest()

    def resume(self) -> None:
        self.change(suspend=False)
        self.rest()

    @property
    def suspended(self) -> Condition | None:
        return next((c for c in self.status.conditions or () if c.type == "Suspended"), None)

    def is_suspended(self) -> bool:
        assert self.suspended is not None
        return self.suspended.status == "True"

    def count_objects(self) -> int:
        return len(self.pods) + (self.configmap is not None)

    def describe(self) -> tuple[FrameworkState, int, int | None]:
        return self.status.state, self.status.attempt_status.id, get_code(self.status)


def start(number: int = 2, **spec: Any) -> Gang:
    gang = Gang(number, **spec)
    gang.rest()
    return gang


def fail_fast() -> Any:
    return replace(build_role().completion_policy, min_failed_task_count=1)


def start_conflict() -> Gang:
    """A gang that waits 20 s for its retry after a transient conflict."""
    gang = start(1, retry_policy=RetryPolicySpec(fancy_retry_policy=True))
    gang.change(task_roles=(build_role(number=1, completion_policy=fail_fast()),))
    gang.rest()
    gang.end_pod("gang-worker-0", 201)
    gang.rest()
    assert gang.status.retry_policy_status.retry_delay_seconds == 20
    return gang

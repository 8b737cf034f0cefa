"""Two workers whose Tasks avoid nodes on which they failed."""

from datetime import timedelta
from typing import Any

from framework.api.avoiding import AvoidNodesSpec
from framework.api.recovery import RecoverySpec
from framework.api.types import RetryPolicySpec, TaskSpec
from tests.support.builders import build_role, build_spec, build_template_wire
from tests.support.builders.worlds import World, get_task

AVOID = AvoidNodesSpec(failures=2, within_seconds=3600, max_nodes=2)
# Longer than the pause after an attempt that ends at once, and than such an attempt.
LIFE_SECONDS = 400


class Gang(World):
    """Two workers whose every failure is retried; worker 0 runs on the node n9."""

    def __init__(self, avoid: AvoidNodesSpec | None = AVOID, **fields: Any) -> None:
        task = TaskSpec(RetryPolicySpec(max_retry_count=-1), pod=build_template_wire())
        recovery = RecoverySpec(avoid_nodes=avoid)
        fields = {"number": 2, "recovery": recovery, "task": task, **fields}
        super().__init__(build_spec(build_role(**fields)))
        self.settle()
        self.run_pod(name(0), 1, "n9")
        self.settle()

    def run_worker(self, node: str, seconds: float = LIFE_SECONDS) -> None:
        """Worker 1 runs on a node for some time."""
        self.run_pod(name(1), 2, node)
        self.pause(seconds)

    def fail(self, node: str, code: int = 1) -> None:
        """Worker 1 runs on a node and fails there; its next attempt begins."""
        self.run_worker(node)
        self.end_pod(name(1), code)
        self.replace()

    def replace(self) -> None:
        """The Pod of worker 1 is gone, and its next Pod is created."""
        self.settle()
        if name(1) in self.pods and self.pods[name(1)].is_terminating:
            self.remove_pod(name(1))
        self.pause(LIFE_SECONDS)

    def pause(self, seconds: float) -> None:
        self.settle()
        self.now += timedelta(seconds=seconds)
        self.settle()

    def list_avoided(self) -> list[str]:
        """List the nodes that worker 1 avoids."""
        return list(get_task(self.status, 1).attempt_status.avoided_nodes)

    def list_failures(self) -> list[str]:
        """List the nodes of the stored failures of worker 1."""
        return [failure.node for failure in get_task(self.status, 1).node_failures]


def name(index: int) -> str:
    return f"gang-worker-{index}"

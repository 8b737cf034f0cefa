"""Three workers whose Tasks leave before their nodes go."""

from datetime import timedelta
from typing import Any

from framework.api import constants
from framework.api.epochreports import EpochStart, encode_start
from framework.api.leaving import LeaveNodesSpec
from framework.api.nodes import Taint
from framework.api.recovery import InPlaceSpec, RecoverySpec
from tests.support.builders import build_role, build_spec
from tests.support.builders.nodes import build_notices
from tests.support.builders.worlds import World, get_task

ACKNOWLEDGED = constants.ACKNOWLEDGED_GENERATION_ANNOTATION
LEAVE = LeaveNodesSpec(timeout_seconds=60, max_leaves=2, within_seconds=3600)
SPOT = Taint("aws-node-termination-handler/spot-itn", "NoSchedule", "soon")


class Gang(World):
    """Three workers that run on the nodes n0 to n2; their agents have acknowledged generation 1."""

    def __init__(
        self,
        leave: LeaveNodesSpec | None = LEAVE,
        *,
        in_place: InPlaceSpec | None = None,
        has_agents: bool = True,
        **fields: Any,
    ) -> None:
        recovery = RecoverySpec(in_place, leave)
        super().__init__(build_spec(build_role(number=3, recovery=recovery, **fields)))
        self.settle()
        for index in range(3):
            self.run_worker(index)
        self.settle()
        for index in range(3) if has_agents else ():
            self.acknowledge(index)
        self.pause(10)
        if in_place is not None:
            self.start_epoch()

    def start_epoch(self) -> None:
        """The agent of worker 0 reports that the processes of the newest epoch have started."""
        roster = self.published.roster
        assert roster is not None
        assert roster.recovery is not None
        start = encode_start(EpochStart(roster.recovery.since, roster.recovery.epoch))
        self.annotate_pod(name(0), constants.EPOCH_STARTED_ANNOTATION, start)
        self.settle()

    def run_worker(self, index: int, node: str = "") -> None:
        self.run_pod(name(index), index + 1, node or f"n{index}")

    def pause(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)
        self.settle()

    def acknowledge(self, index: int) -> None:
        assert self.published.roster is not None
        generation = str(self.published.roster.generation)
        self.annotate_pod(name(index), ACKNOWLEDGED, generation)

    def notice(self, index: int, *taints: Taint) -> None:
        """The node of a worker is cordoned, or gets taints."""
        self.nodes[f"n{index}"] = build_notices(self.now, *taints)
        self.pause(1)

    def disrupt(self, index: int, reason: str = "EvictionByEvictionAPI") -> None:
        self.disrupt_pod(name(index), reason)

    def evict(self, index: int) -> None:
        """The eviction API sets the condition and deletes the Pod."""
        self.disrupt(index)
        self.terminate_pod(name(index))
        self.pause(1)

    def replace_worker(self, index: int) -> None:
        """The Pod that terminates is gone, and the next one runs on another node."""
        self.remove_pod(name(index))
        self.pause(1)
        self.run_worker(index, "n9")
        self.pause(1)

    def get_marks(self) -> list[str]:
        tasks = [get_task(self.status, index).attempt_status.leaving for index in range(3)]
        return [mark.reason if mark is not None else "" for mark in tasks]

    def list_members(self) -> list[int]:
        assert self.published.roster is not None
        return [member.index for member in self.published.roster.roles[0].members]

    def list_left(self) -> list[tuple[int, str]]:
        assert self.published.roster is not None
        return [(entry.index, entry.deadline) for entry in self.published.roster.leaving]

    def list_failed(self) -> list[tuple[int, int | None]]:
        assert self.published.roster is not None
        return [(failed.index, failed.code) for failed in self.published.roster.failed]

    def is_kept(self, index: int) -> bool:
        return name(index) in self.pods and not self.pods[name(index)].is_terminating

    def get_retries(self, index: int) -> tuple[int, int]:
        retries = get_task(self.status, index).retry_policy_status
        return retries.total_retried_count, retries.accountable_retried_count


def name(index: int) -> str:
    return f"gang-worker-{index}"

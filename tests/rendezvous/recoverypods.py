"""The recovery of one Pod in virtual time, with a barrier that the test controls."""

from collections.abc import Mapping
from typing import Any

from framework.agent.report import LineReporter
from framework.api.roster import FailedMember, RosterRecovery
from rendezvous.core.recovery import BarrierKey
from rendezvous.recovery.recovery import OwnPod, Recovery
from tests.rendezvous.gangs import build_role, build_roster, get_uid
from tests.support.fakes.agentclock import VirtualClock

GRACE_SECONDS = 5.0
# The agent's own part of the deadline of the start barrier: of a new generation, after a restart.
START_SECONDS, RESTART_SECONDS = 300.0, 30.0
# How long an agent waits before it names the Pod that serves, and before it ends.
SERVER_SECONDS, GIVE_UP_SECONDS = 600.0, 1200.0
ANSWER_SECONDS = 60.0
LONGEST_SPREAD_SECONDS = 2.0
LATE = "89abcdef"


class Barrier:
    """A start barrier: the test says who is missing, and releases it."""

    def __init__(self, on_released: Any, *_: object) -> None:
        self.release = on_released
        self.target: BarrierKey | None = None
        self.missing: tuple[str, ...] = ()
        self.server: tuple[int, str] | None = None

    def gather(self, target: BarrierKey) -> None:
        self.target = target

    def list_missing(self, _: BarrierKey) -> tuple[str, ...]:
        return self.missing

    def find_server(self) -> tuple[int, str] | None:
        return self.server


class Pod:
    """Records orders and reports of the recovery: it replaces the wrapper and the acknowledger."""

    def __init__(self, jitter: float = 1.0) -> None:
        self.clock = VirtualClock(jitter=jitter)
        self.started: list[str] = []
        self.ended_reports: list[str] = []
        self.start_reports: list[str] = []
        self.code: int | None = None
        self.ends = 0
        self.finishes = 0
        self.env: dict[str, str] = {}
        self.sizes: list[str] = []
        own_pod = OwnPod(get_uid("worker", 0), GRACE_SECONDS, lambda: self.env)
        reporter = LineReporter("test", is_json=False)
        self.recovery = Recovery(own_pod, self, self, reporter, self.clock)  # type: ignore[arg-type]  # both

    @property
    def barrier(self) -> Barrier:
        return self.recovery._barrier  # type: ignore[return-value]  # the fixtures replace it

    def start(self, env: Mapping[str, str]) -> None:
        self.started.append(env["FB_EPOCH"])
        self.sizes.append(env.get("FB_SIZE", ""))

    def end(self) -> None:
        self.ends += 1
        self.end_process(143)

    def end_process(self, code: int) -> None:
        self.recovery.follow_end(code)
        self.recovery.follow_gone()

    def give_up(self, exit_code: int) -> None:
        self.code = exit_code

    def report_end(self, report: str) -> None:
        self.ended_reports.append(report)

    def report_start(self, report: str) -> None:
        self.start_reports.append(report)

    def finish(self) -> None:
        self.finishes += 1

    def publish(
        self,
        epoch: int,
        *,
        running: bool = True,
        members: int = 3,
        wanted: int | None = None,
        refused: tuple[str, ...] = (),
    ) -> None:
        wanted = members if wanted is None else wanted
        role = build_role("worker", members)._replace(running=running, wanted=wanted)
        recovery = RosterRecovery(epoch, 1, ("worker",), refused)
        self.recovery.observe(build_roster(role)._replace(recovery=recovery), is_ready=True)

    def publish_incomplete(self, since: int, failed_role: str, *lost: int) -> None:
        """Publish that a Pod failed; ``lost`` are the workers that are no members."""
        role = build_role("worker", 3)
        members = tuple(member for member in role.members if member.index not in lost)
        failed = FailedMember(failed_role, 2, LATE, 0, since, 1)
        roster = build_roster(role._replace(members=members), generation=since)
        recovery = RosterRecovery(0, since, ("worker",))
        self.recovery.observe(
            roster._replace(complete=False, failed=(failed,), recovery=recovery),
            is_ready=False,
        )

    def turn(self, seconds: float = 0.0) -> None:
        self.clock.now += seconds
        for _ in range(4):
            self.recovery.turn()

    def start_epoch(self, epoch: int, members: int = 3) -> None:
        self.publish(epoch, members=members)
        self.turn()
        self.barrier.release(BarrierKey(1, epoch), is_serving=True)
        self.turn()
        assert self.started[-1] == str(epoch)

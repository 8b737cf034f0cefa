import itertools
from typing import Any

from framework.agent.framework_roster import FrameworkView, build_view
from framework.agent.gang import Gang
from framework.agent.gang_observer import GangObserver, Sources
from framework.agent.health import Health, SourceState
from tests.barrier.api_server import make_framework
from tests.support.fakes.agentclock import VirtualClock

GANG = Gang("default", "f", "", "")


class ScriptedFrameworks:
    """A source whose reads take no time; its watch reports one change."""

    def __init__(self, clock: VirtualClock, tasks: int, watch_health: Health) -> None:
        self._clock = clock
        self._watch_health = watch_health
        self._framework = make_framework(number=tasks)
        self.view: FrameworkView | None = None
        self.state = SourceState(Health.STARTING, 0.0, "")
        self.watch_health = Health.STARTING
        self.retry_after_seconds = 0.0
        self.has_newer_version = False
        self.change_at: float | None = None
        self.reads: list[float] = []

    def get_descriptor(self) -> int:
        return -1

    def get_idle_seconds(self) -> float:
        return 1.0

    def poll(self, timeout_seconds: float) -> None:
        ends_at = self._clock.now + timeout_seconds
        if self.change_at is not None and self.change_at <= ends_at:
            self._clock.now = max(self._clock.now, self.change_at)
            self.change_at, self.has_newer_version = None, True
        else:
            self._clock.now = ends_at
        self.watch_health = self._watch_health

    def read(self) -> None:
        self.reads.append(round(self._clock.now, 2))
        self.view = build_view(self._framework, is_attempt_aware=True)
        self.state = SourceState(Health.HEALTHY, 0.0, "")
        self.has_newer_version = False


def follow(
    seconds: float, *, tasks: int = 2, watch_health: Health, change_at: float | None = None
) -> list[float]:
    clock = VirtualClock()
    frameworks: Any = ScriptedFrameworks(clock, tasks, watch_health)
    frameworks.change_at = change_at
    observer = GangObserver(clock, GANG, Sources(None, frameworks, None, None))
    while clock.now < seconds:
        observer.poll(1.0)
    reads: list[float] = frameworks.reads
    return reads


def test_watched_and_quiet_reads_at_once_and_then_only_as_a_precaution() -> None:
    reads = follow(60.0, watch_health=Health.HEALTHY)
    assert reads[0] == 0.0
    assert len(reads) <= 4


def test_watched_and_changed_reads_soon() -> None:
    reads = follow(15.0, watch_health=Health.HEALTHY, change_at=10.0)
    assert len(reads) == 2
    assert 10.0 <= reads[1] <= 10.01


def test_watched_large_gang_spreads_its_reads() -> None:
    reads = follow(20.0, tasks=800, watch_health=Health.HEALTHY, change_at=14.0)
    assert 14.3 <= reads[1] <= 14.5, "half a millisecond a Task"


def test_not_watched_reads_every_few_seconds() -> None:
    reads = follow(30.0, watch_health=Health.FORBIDDEN)
    gaps = [b - a for a, b in itertools.pairwise(reads)]
    assert all(1.0 <= gap <= 4.0 for gap in gaps)
    assert len(reads) >= 8

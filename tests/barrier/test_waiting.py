"""The wait in virtual time: scripted sources, a clock that moves only when something waits."""

from collections.abc import Callable
from typing import Any

import pytest

from barrier.config import load_config
from barrier.decision import Fail, Pass
from barrier.report import Reporter
from barrier.waiting import Waiting
from framework.agent.exitcodes import ExitCode
from framework.agent.framework_roster import FrameworkView, build_view
from framework.agent.gang_observer import Sources
from framework.agent.health import Health, SourceState, update_state
from framework.agent.permission import Permission
from framework.agent.sources import AttemptConfigMap, parse_configmap
from framework.api.gangreadiness import GangReadiness
from tests.barrier.api_server import make_configmap, make_framework, make_roster
from tests.barrier.test_decision import ENV, QUORUM
from tests.support.fakes.agentclock import VirtualClock

FIVE_MINUTES = 300.0
Captured = pytest.CaptureFixture[str]


class World:
    """Both sources and the reviews; ``script`` changes them as time passes."""

    def __init__(self, clock: VirtualClock, script: "Script") -> None:
        self.clock = clock
        self.script = script
        self.configmap: AttemptConfigMap | None = None
        self.view: FrameworkView | None = None
        self.configmap_health = Health.HEALTHY
        self.framework_health = Health.HEALTHY
        self.framework_watch_health = Health.FORBIDDEN
        self.framework_next: dict[str, Any] | None = None
        self.is_review_denied: bool | None = True
        self.reads: list[float] = []
        self.prepared_at: list[float] = []
        self.retry_after_seconds = 0.0
        self.configmaps = _ConfigMaps(self)
        self.frameworks = _Frameworks(self)

    def is_denied(self, _permission: Permission) -> bool | None:
        return self.is_review_denied

    def show(self, body: dict[str, Any]) -> None:
        self.configmap = parse_configmap(body)


Script = Callable[[World, float], None]


class _Watched:
    """The common part of both sources: a watch without a socket, which must be polled."""

    def get_descriptor(self) -> int:
        return -1

    def get_idle_seconds(self) -> float:
        return 0.5

    def close(self) -> None:
        pass


class _ConfigMaps(_Watched):
    def __init__(self, world: World) -> None:
        self._world = world
        self.configmap: AttemptConfigMap | None = None
        self.state = SourceState(Health.STARTING, world.clock.now, "")

    def poll(self, timeout_seconds: float) -> None:
        world = self._world
        # In small steps, as news would come in the middle of a wait.
        world.clock.sleep(min(timeout_seconds, 0.5))
        world.script(world, world.clock.now - 1000.0)
        self.configmap = world.configmap
        health = world.configmap_health
        self.state = update_state(self.state, health, health.value, world.clock.now)


class _Frameworks(_Watched):
    def __init__(self, world: World) -> None:
        self._world = world
        self.view: FrameworkView | None = None
        self.framework: dict[str, Any] | None = None
        self.state = SourceState(Health.STARTING, world.clock.now, "")
        self.retry_after_seconds = 0.0
        self.has_newer_version = False
        self.watch_health = Health.STARTING

    def poll(self, _timeout_seconds: float) -> None:
        self.watch_health = self._world.framework_watch_health

    def stop_watching(self) -> None:
        pass

    def prepare(self) -> None:
        self._world.prepared_at.append(self._world.clock.now - 1000.0)

    def read(self, *, is_cached: bool = True) -> None:
        assert is_cached
        world = self._world
        world.reads.append(world.clock.now - 1000.0)
        if world.framework_health is Health.HEALTHY and world.framework_next is not None:
            self.view = build_view(world.framework_next, is_attempt_aware=True)
        self.framework = world.framework_next
        health = world.framework_health
        self.state = update_state(self.state, health, health.value, world.clock.now)


def wait(script: Script, **env: str) -> tuple[Pass | Fail, float, World]:
    config = load_config({**ENV, **env})
    clock = VirtualClock(1000.0, jitter=0.5)
    world = World(clock, script)
    reporter = Reporter(clock.now, config.interval_seconds, is_json=False)
    sources = Sources(world.configmaps, world.frameworks, world, None)
    waiting = Waiting(config, clock, sources, reporter)
    return waiting.wait(), clock.now - 1000.0, world


def test_wait_gang_never_complete_exits_201_at_the_timeout(capsys: Captured) -> None:
    def script(world: World, _now: float) -> None:
        world.show(make_configmap(missing="ImagePullBackOff: no such image"))

    decision, waited, _ = wait(script, BARRIER_CHECK_TIMEOUT_SEC="60")
    assert isinstance(decision, Fail)
    assert decision.exit_code is ExitCode.TRANSIENT_CONFLICT
    assert 60.0 <= waited < 61.0
    assert decision.readiness is not None
    assert decision.readiness.missing[0].reason.startswith("ImagePullBackOff")
    lines = capsys.readouterr().err.splitlines()
    assert 5 <= len(lines) <= 7, "one line in each interval of 10 s"
    assert "1/2 ready" in lines[0]


def test_wait_api_lost_at_the_end_exits_1() -> None:
    def script(world: World, now: float) -> None:
        world.show(make_configmap(missing="Pending"))
        if now > 40:
            world.configmap_health = world.framework_health = Health.UNREACHABLE

    decision, _, world = wait(script, BARRIER_CHECK_TIMEOUT_SEC="60")
    assert isinstance(decision, Fail)
    assert decision.exit_code is ExitCode.UNKNOWN
    assert world.reads, "the Framework was tried too"


@pytest.mark.parametrize(
    ("total", "times"),
    [pytest.param(100, [0.5, 40.5], id="small"), pytest.param(101, [0.5], id="large")],
)
def test_wait_connects_for_the_release_anew_while_the_gang_comes_nearer(
    total: int, times: list[float]
) -> None:
    """The API server closes an idle connection long before a slow gang is complete."""

    def script(world: World, now: float) -> None:
        configmap = parse_configmap(make_configmap(missing="Pending"))
        ready = 1 if now <= 40.0 else 2
        world.configmap = configmap._replace(readiness=GangReadiness(ready, total, ()))

    _, _, world = wait(script, BARRIER_CHECK_TIMEOUT_SEC="60", BARRIER_FRAMEWORK_JSON="on")
    assert world.prepared_at == times


@pytest.mark.parametrize(
    ("is_denied", "exit_code", "low", "high"),
    [
        pytest.param(True, ExitCode.PERMANENT, 30.0, 32.0, id="confirmed"),
        pytest.param(False, ExitCode.UNKNOWN, FIVE_MINUTES, FIVE_MINUTES + 2, id="contradicted"),
        pytest.param(None, ExitCode.UNKNOWN, FIVE_MINUTES, FIVE_MINUTES + 2, id="no-answer"),
    ],
)
def test_wait_denied_everywhere(
    capsys: Captured, exit_code: ExitCode, low: float, high: float, *, is_denied: bool | None
) -> None:
    def script(world: World, _now: float) -> None:
        world.configmap_health = world.framework_health = Health.FORBIDDEN
        world.is_review_denied = is_denied

    decision, waited, _ = wait(script, BARRIER_CHECK_TIMEOUT_SEC="300")
    assert isinstance(decision, Fail)
    assert decision.exit_code is exit_code
    assert low <= waited < high
    text = capsys.readouterr().err
    assert text.count("missing right: watch configmaps") == 1
    assert text.count("missing right: get frameworks") == 1


@pytest.mark.parametrize(
    ("complete_at", "passes_at"),
    [pytest.param(10, 40.0, id="grace-over"), pytest.param(50, 60.0, id="timeout")],
)
def test_wait_quorum_passes_when_its_grace_or_the_timeout_is_over(
    complete_at: float, passes_at: float
) -> None:
    def script(world: World, now: float) -> None:
        world.show(make_configmap(QUORUM if now > complete_at else None))

    decision, waited, _ = wait(script, BARRIER_CHECK_TIMEOUT_SEC="60")
    assert isinstance(decision, Pass)
    assert passes_at <= waited < passes_at + 2.0


def test_wait_roster_to_come_never_reads_the_framework() -> None:
    def script(world: World, now: float) -> None:
        world.show(make_configmap(make_roster() if now > FIVE_MINUTES else None))

    decision, _, world = wait(script)
    assert isinstance(decision, Pass)
    assert world.reads == []


def test_wait_large_framework_is_read_less_often() -> None:
    def script(world: World, _now: float) -> None:
        world.configmap_health = Health.FORBIDDEN
        world.framework_next = make_framework(number=1200)

    _, _, world = wait(script, BARRIER_CHECK_TIMEOUT_SEC="60")
    assert 5 <= len(world.reads) <= 8, "every interval, not every fifth of it"

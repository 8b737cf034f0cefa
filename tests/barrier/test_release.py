"""The steps from the decision to the files."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from barrier.config import Config, load_config
from barrier.decision import Pass
from barrier.release import ReleaseError, prepare_injector, release, wants_framework_json
from barrier.report import Reporter
from framework.agent.exitcodes import ExitCode
from framework.agent.framework_roster import FrameworkView, build_view
from framework.agent.gang import SOURCE_CONFIGMAP
from framework.agent.health import Health, SourceState
from tests.barrier.api_server import make_framework, make_roster, make_task
from tests.barrier.test_decision import ENV
from tests.support.fakes.agentclock import VirtualClock

LAGGING = make_framework(make_task(0, "10.0.0.2"), make_task(1, ""))


class ScriptedFrameworks:
    """Answers in turn; the last answer stays."""

    def __init__(self, *answers: dict[str, Any] | Health) -> None:
        self._answers = list(answers)
        self.framework: dict[str, Any] | None = None
        self.view: FrameworkView | None = None
        self.state = SourceState(Health.STARTING, 0.0, "")
        self.retry_after_seconds = 0.0
        self.reads: list[bool] = []

    def prepare(self) -> None:
        """Nothing is connected here."""

    close = prepare

    def read(self, *, is_cached: bool = True) -> None:
        self.reads.append(is_cached)
        answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        if isinstance(answer, Health):
            self.state = SourceState(answer, 0.0, "refused")
            return
        self.framework = answer
        self.view = build_view(answer, is_attempt_aware=True)
        self.state = SourceState(Health.HEALTHY, 0.0, "")


def list_names(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


def make_config(tmp_path: Path, **env: str) -> Config:
    return load_config({**ENV, "BARRIER_WORKING_DIR": str(tmp_path), **env})


def run_release(
    config: Config, frameworks: ScriptedFrameworks, meanwhile: Callable[[], object] = lambda: None
) -> None:
    clock = VirtualClock(jitter=0.5)
    reporter = Reporter(0.0, 10.0, is_json=False)
    passed = Pass(make_roster(), SOURCE_CONFIGMAP)
    injector_file = prepare_injector(config.working_dir)
    try:
        meanwhile()
        release(config, clock, frameworks, passed, reporter, injector_file)
    finally:
        injector_file.discard()


def test_release_cache_lags_asks_for_the_newest(tmp_path: Path) -> None:
    frameworks = ScriptedFrameworks(LAGGING, make_framework())
    run_release(make_config(tmp_path), frameworks)
    assert frameworks.reads == [True, False]
    assert '"podIP":"10.0.0.3"' in (tmp_path / "framework.json").read_text()


def test_release_peer_left_again_takes_the_newest_form(tmp_path: Path) -> None:
    frameworks = ScriptedFrameworks(LAGGING)
    run_release(make_config(tmp_path), frameworks)
    assert frameworks.reads == [True, False]
    assert list_names(tmp_path) == ["framework.json", "injector.sh"]


def test_release_attempt_ended_meanwhile_fails(tmp_path: Path) -> None:
    other = make_framework()
    other["status"]["attemptStatus"]["instanceUID"] = "1_next"
    with pytest.raises(ReleaseError, match="ended while"):
        run_release(make_config(tmp_path), ScriptedFrameworks(other))
    assert list_names(tmp_path) == []


def test_release_server_busy_retries(tmp_path: Path) -> None:
    frameworks = ScriptedFrameworks(Health.UNREACHABLE, Health.UNREACHABLE, make_framework())
    run_release(make_config(tmp_path), frameworks)
    assert list_names(tmp_path) == ["framework.json", "injector.sh"]


@pytest.mark.parametrize(
    ("health", "mode", "exit_code"),
    [
        pytest.param(Health.UNREACHABLE, "auto", ExitCode.UNKNOWN, id="unreachable"),
        pytest.param(Health.FORBIDDEN, "on", ExitCode.PERMANENT, id="forbidden-but-wanted"),
        pytest.param(Health.NOT_FOUND, "auto", ExitCode.PERMANENT, id="gone"),
    ],
)
def test_release_framework_not_to_be_had_fails_and_writes_nothing(
    tmp_path: Path, health: Health, mode: str, exit_code: ExitCode
) -> None:
    config = make_config(tmp_path, BARRIER_FRAMEWORK_JSON=mode)
    with pytest.raises(ReleaseError) as caught:
        run_release(config, ScriptedFrameworks(health))
    assert caught.value.fail.exit_code is exit_code
    assert list_names(tmp_path) == []


def test_release_framework_forbidden_in_auto_writes_the_injector(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run_release(make_config(tmp_path), ScriptedFrameworks(Health.FORBIDDEN))
    assert list_names(tmp_path) == ["injector.sh"]
    assert "framework.json is not written" in capsys.readouterr().err


def test_release_off_reads_nothing(tmp_path: Path) -> None:
    frameworks = ScriptedFrameworks(make_framework())
    run_release(make_config(tmp_path, BARRIER_FRAMEWORK_JSON="off"), frameworks)
    assert frameworks.reads == []
    assert list_names(tmp_path) == ["injector.sh"]


def test_wants_framework_json_auto_is_for_small_gangs_or_without_a_roster(tmp_path: Path) -> None:
    config = make_config(tmp_path)
    assert wants_framework_json(config, 100, is_published=True)
    assert not wants_framework_json(config, 101, is_published=True)
    assert wants_framework_json(config, 101, is_published=False)
    asked = make_config(tmp_path, BARRIER_FRAMEWORK_JSON="on")
    assert wants_framework_json(asked, 101, is_published=True)


def test_release_volume_gone_meanwhile_names_the_directory(tmp_path: Path) -> None:
    volume = tmp_path / "gone"
    config = make_config(tmp_path, BARRIER_WORKING_DIR=str(volume))
    with pytest.raises(ReleaseError) as caught:
        run_release(config, ScriptedFrameworks(make_framework()), lambda: shutil.rmtree(volume))
    assert caught.value.fail.exit_code is ExitCode.UNKNOWN
    assert str(volume) in caught.value.fail.message


def test_release_volume_emptied_meanwhile_writes_both_files(tmp_path: Path) -> None:
    def empty() -> None:
        for path in tmp_path.iterdir():
            path.unlink()

    run_release(make_config(tmp_path), ScriptedFrameworks(make_framework()), empty)
    assert list_names(tmp_path) == ["framework.json", "injector.sh"]
    assert (tmp_path / "injector.sh").stat().st_mode & 0o777 == 0o755


def test_prepare_injector_directory_missing_is_made(tmp_path: Path) -> None:
    injector_file = prepare_injector(str(tmp_path / "a" / "b"))
    assert not (tmp_path / "a" / "b" / "injector.sh").exists()
    injector_file.discard()
    assert list_names(tmp_path / "a" / "b") == []


def test_prepare_injector_no_directory_names_it(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ReleaseError) as caught:
        prepare_injector(str(tmp_path / "file"))
    assert caught.value.fail.exit_code is ExitCode.UNKNOWN
    assert str(tmp_path / "file") in caught.value.fail.message

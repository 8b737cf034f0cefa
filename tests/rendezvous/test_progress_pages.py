"""What an agent makes of the pages of its processes, and of their stacks."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from framework.agent.clock import AgentClock
from framework.agent.report import LineReporter
from rendezvous.core.hangs.reports import MAX_PROCESSES, AgentReport, decode_report, encode_report
from rendezvous.progress.progresspages import ProgressPages
from rendezvous.progress.stacks import read_stacks
from rendezvous.site import peers
from rendezvous.site.peers.reporting import steps
from rendezvous.site.peers.reporting.progress_page import (
    FIXED,
    MAGIC,
    PAGE_BYTES,
    STACKS_SIGNAL,
    STEP,
    STEP_OFFSET,
)
from tests.support.fakes.agentclock import VirtualClock

POD_RANK = 7


@pytest.fixture(autouse=True)
def volume(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("BARRIER_WORKING_DIR", str(tmp_path))
    monkeypatch.delenv("RANK", raising=False)
    steps._forget()
    yield tmp_path
    steps._forget()


def build_pages(root: Path, clock: AgentClock | None = None) -> ProgressPages:
    reporter = LineReporter("test", is_json=False)
    return ProgressPages(str(root), lambda: POD_RANK, reporter, clock or VirtualClock())


def test_pod_without_a_page_is_a_process_before_its_first_step(tmp_path: Path) -> None:
    clock = VirtualClock()
    pages = build_pages(tmp_path, clock)
    clock.now += 100.0
    pages.begin_command()
    clock.now += 30.0
    (process,) = pages.observe()
    assert (process.rank, process.step, process.quiet_seconds) == (POD_RANK, None, 30.0)


def test_time_without_a_step_counts_from_when_the_step_changed(tmp_path: Path) -> None:
    clock = VirtualClock()
    clock.now = 50.0
    pages = build_pages(tmp_path, clock)
    peers.progress(3, total=9)
    assert pages.observe()[0].quiet_seconds == 0.0
    clock.now += 20.0
    (process,) = pages.observe()
    assert (process.step, process.total, process.quiet_seconds) == (3, 9, 20.0)
    peers.progress(4)
    assert pages.observe()[0].quiet_seconds == 0.0
    peers.progress(0)
    clock.now += 1.0
    assert pages.observe()[0].quiet_seconds == 0.0, "training began again"


def test_pause_is_reported_and_its_end_counts_as_activity(tmp_path: Path) -> None:
    pages = build_pages(tmp_path, AgentClock())
    peers.progress(1)
    pages.observe()
    with peers.pause("checkpoint", limit_seconds=500.0):
        assert 400.0 < pages.observe()[0].pause_seconds <= 500.0
    assert pages.observe()[0].pause_seconds == 0.0


@pytest.mark.parametrize("limit", [float("inf"), 1e300])
def test_pause_without_a_limit_is_a_long_pause(tmp_path: Path, limit: float) -> None:
    pages = build_pages(tmp_path, AgentClock())
    with peers.pause("debugger", limit_seconds=limit):
        assert pages.observe()[0].pause_seconds > 86400.0


def test_busy_seconds_of_a_step_are_those_of_the_last_minute(tmp_path: Path) -> None:
    clock = VirtualClock()
    pages = build_pages(tmp_path, clock)
    for step in range(100):
        peers.progress(step, busy_seconds=5.0 if step < 30 else 0.5)
        pages.observe()
        clock.now += 1.0
    assert pages.observe()[0].busy_seconds == pytest.approx(0.5)


def test_page_of_a_process_that_has_ended_is_not_reported(tmp_path: Path) -> None:
    code = "import peers; peers.progress(1)"
    site = str(Path(peers.__file__).parent.parent)
    subprocess.run([sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": site}, check=True)
    assert len(list((tmp_path / "progress").glob("*"))) == 2
    pages = build_pages(tmp_path)
    assert [process.step for process in pages.observe()] == [None]
    pages.begin_command()
    assert list((tmp_path / "progress").glob("*")) == []


def test_own_stack_names_the_function_and_its_hash_is_that_of_the_place(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pages = build_pages(tmp_path, AgentClock())
    peers.progress(1)
    (process,) = pages.observe()
    assert process.stack == ""
    for _ in range(2):
        pages.take_stacks()
    assert "take_stacks" in capsys.readouterr().err
    first = pages.observe()[0].stack
    pages.take_stacks()
    assert pages.observe()[0].stack == first != ""


class SlowWriter(VirtualClock):
    """Writes the stacks of a process in parts, one at each look of the agent."""

    def __init__(self, path: Path, parts: list[str]) -> None:
        super().__init__()
        self._path, self._parts = path, parts

    def sleep(self, seconds: float) -> None:
        super().sleep(seconds)
        with self._path.open("a") as file:
            file.write(self._parts.pop(0) if self._parts else "")


def test_stacks_that_the_process_writes_slowly_are_read_when_they_are_whole(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """On a busy machine, a process may get no processor for long while it writes."""
    peers.progress(1)
    (path,) = (tmp_path / "progress").glob("*.stacks")
    begin = 'Current thread 0x1 (most recent call first):\n  File "train.py", line 9 in load\n'
    parts = [begin, "", "", "", '  File "train.py", line 20 in train\n', "", "", ""]
    parts.append('  File "train.py", line 30 in <module>\n')
    pages = build_pages(tmp_path, SlowWriter(path, parts))
    pages.observe()
    signal.signal(STACKS_SIGNAL, lambda *_: None)
    pages.take_stacks()
    assert 'File "train.py", line 30 in <module>' in capsys.readouterr().err


def test_process_that_has_taken_the_signal_back_is_not_signalled(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pages = build_pages(tmp_path, AgentClock())
    peers.progress(1)
    pages.observe()
    signal.signal(STACKS_SIGNAL, signal.SIG_DFL)  # it would end the process
    pages.take_stacks()
    assert "it has another handler" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["1", "99999999999999999999", "x", "-1", "1.stacks", "²", "01"])
def test_other_files_are_no_pages(tmp_path: Path, name: str) -> None:
    (tmp_path / "progress").mkdir()
    (tmp_path / "progress" / name).write_bytes(b"\xff" * 5000)
    assert [process.step for process in build_pages(tmp_path).observe()] == [None]


@given(st.binary(max_size=PAGE_BYTES - 8))
@settings(max_examples=200, deadline=None)
def test_any_bytes_in_a_page_make_a_report_that_rank_0_takes(
    tmp_path_factory: pytest.TempPathFactory, content: bytes
) -> None:
    root = tmp_path_factory.getbasetemp() / "hostile"
    (root / "progress").mkdir(parents=True, exist_ok=True)
    page = root / "progress" / str(os.getpid())
    page.write_bytes((MAGIC + content).ljust(PAGE_BYTES, b"\xff"))
    page.with_suffix(".stacks").write_bytes(content)
    pages = build_pages(root)
    for _ in range(2):
        report = AgentReport((1, 0), 0, pages.observe())
        assert decode_report(json.loads(json.dumps(encode_report(report)))).run == (1, 0)


def test_step_of_any_value_is_reported_or_not_known(tmp_path: Path) -> None:
    """Two equal sequences, so that all values are read."""
    pages = build_pages(tmp_path)
    peers.progress(1)
    page = tmp_path / "progress" / str(os.getpid())
    for value in (-(2**63), -2, 2**62, 2**63 - 1):
        for busy in (float("nan"), float("-inf"), -1.0, 1e300):
            content = bytearray(page.read_bytes())
            FIXED.pack_into(content, 0, MAGIC, value, value, 0)
            STEP.pack_into(content, STEP_OFFSET, 7, value, value, busy, busy, 7)
            page.write_bytes(content)
            (process,) = pages.observe()
            assert (process.rank, process.step, process.total) == (POD_RANK, None, None)
            report = encode_report(AgentReport((1, 0), 0, (process,)))
            assert decode_report(json.loads(json.dumps(report))).processes


def test_link_in_place_of_the_stacks_is_not_emptied(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The agent may be root, and the process not."""
    other = tmp_path / "other"
    pages = build_pages(tmp_path, AgentClock())
    peers.progress(1)
    pages.observe()
    stacks = tmp_path / "progress" / f"{os.getpid()}.stacks"
    for link in (stacks.symlink_to, stacks.hardlink_to, lambda _: os.mkfifo(stacks)):
        other.write_text("kept")
        stacks.unlink()
        link(other)
        pages.take_stacks()
        assert other.read_text() == "kept"
        assert "none, their file is not its own" in capsys.readouterr().err


def test_files_of_the_working_folder_stay_if_there_is_no_folder_of_pages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = tmp_path / "other"
    other.mkdir()
    own = other / f"{os.getpid()}.stacks"
    own.write_text("kept")
    monkeypatch.chdir(other)
    pages = build_pages(tmp_path, AgentClock())
    peers.progress(1)
    pages.observe()
    (tmp_path / "progress").rename(tmp_path / "moved")
    (tmp_path / "progress").symlink_to(other)
    pages.take_stacks()
    assert own.read_text() == "kept"


def test_process_whose_name_is_taken_has_another_page(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Another user may have made the file, which this one may not remove."""
    (tmp_path / "progress" / str(os.getpid())).mkdir(parents=True)
    pages = build_pages(tmp_path, AgentClock())
    peers.progress(3, total=9)
    assert [each.step for each in pages.observe()] == [3]
    pages.take_stacks()
    assert "take_stacks" in capsys.readouterr().err
    assert pages.observe()[0].stack
    peers.progress(9, total=9)
    assert [each.step for each in pages.observe_last()] == [9]


def test_newer_page_of_a_process_counts_only_if_its_user_has_made_it(tmp_path: Path) -> None:
    folder = tmp_path / "progress"
    plain = folder / str(os.getpid())
    pages = build_pages(tmp_path)
    peers.progress(3)
    before = plain.read_bytes()
    steps._forget()
    plain.unlink()
    plain.mkdir()
    peers.progress(4)
    plain.rmdir()
    plain.write_bytes(before)
    assert [each.step for each in pages.observe()] == [4], "the program was executed anew"
    own = folder / f"{os.getpid()}.{os.geteuid()}"
    own.rename(folder / f"{os.getpid()}.{os.geteuid() + 1}")
    assert [each.step for each in pages.observe()] == [3], "of another user"


def test_link_in_place_of_the_folder_is_not_opened_to_all(tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir(0o755)
    (tmp_path / "progress").symlink_to(other)
    build_pages(tmp_path).begin_command()
    assert other.stat().st_mode & 0o7777 == 0o755


def test_files_behind_a_link_in_place_of_the_folder_stay(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / "model").touch()
    (tmp_path / "progress").symlink_to(other)
    pages = build_pages(tmp_path)
    pages.begin_command()
    assert [each.name for each in other.iterdir()] == ["model"]
    assert "the pages are not read" in capsys.readouterr().err


def test_command_whose_process_has_ended_has_no_process_to_judge(tmp_path: Path) -> None:
    clock = VirtualClock()
    pages = build_pages(tmp_path, clock)
    code = "import peers; peers.progress(1); print(flush=True); input()"
    site = str(Path(peers.__file__).parent.parent)
    with subprocess.Popen(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": site},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        clock.now += 7200.0
        assert [each.step for each in pages.observe()] == [1]
        process.communicate(b"\n")
    assert pages.observe() == ()
    peers.progress(0)
    assert [each.step for each in pages.observe()] == [0], "a launcher has started the next one"
    pages.is_command_running = lambda: False
    assert pages.observe() == ()


def test_no_more_files_are_looked_at_than_a_pod_has_processes(tmp_path: Path) -> None:
    peers.progress(1)
    page = bytearray((tmp_path / "progress" / str(os.getpid())).read_bytes())
    FIXED.pack_into(page, 0, MAGIC, 0, 0, 0)
    for pid in range(3000):
        (tmp_path / "progress" / str(pid)).write_bytes(page)
    reports = build_pages(tmp_path).observe()
    assert len(reports) <= MAX_PROCESSES


def test_page_of_a_process_before_with_the_same_id_is_none(tmp_path: Path) -> None:
    pages = build_pages(tmp_path)
    peers.progress(5)
    page = tmp_path / "progress" / str(os.getpid())
    content = bytearray(page.read_bytes())
    assert [process.step for process in pages.observe()] == [5]
    _, rank, number, started = FIXED.unpack_from(content)
    FIXED.pack_into(content, 0, MAGIC, rank, number, started - 1)
    page.write_bytes(content)
    assert pages.observe() == ()


def test_pause_ends_after_seven_days(tmp_path: Path) -> None:
    clock = VirtualClock()
    clock.now = time.monotonic()
    pages = build_pages(tmp_path, clock)
    peers.progress(1)
    with peers.pause("debugger", limit_seconds=1e9):
        for day, left in ((0, 7), (6, 1), (8, 0)):
            begin, clock.now = clock.now, clock.now + day * 86400.0
            (process,) = pages.observe()
            assert process.pause_seconds == pytest.approx(left * 86400.0)
            clock.now = begin
        clock.now += 8 * 86400.0
        assert pages.observe()[0].quiet_seconds == pytest.approx(86400.0), "of the eighth day"
        clock.now -= 8 * 86400.0
        clock.now += 30 * 86400.0
        with peers.pause("another", limit_seconds=2e9):
            assert pages.observe()[0].pause_seconds > 6 * 86400.0


def test_stacks_of_many_threads_have_the_main_one(tmp_path: Path) -> None:
    frame = '  File "/lib/torch/utils/data/worker.py", line 10 in wait_for_a_while\n'
    thread = "Thread 0x0000 (most recent call first):\n" + frame * 12
    main = 'Current thread 0x1 (most recent call first):\n  File "train.py", line 9 in load\n'
    stacks = tmp_path / "stacks"
    stacks.write_text(main)
    alone = read_stacks(str(stacks))
    stacks.write_text(thread * 99 + main)
    found = read_stacks(str(stacks))
    assert found.main == alone.main != ""
    assert '  File "train.py", line 9 in load' in found.lines
    assert len(found.lines) <= 100
    stacks.write_text(thread * 100 + "...\n")
    assert read_stacks(str(stacks)).main == "", "the main thread is missing"

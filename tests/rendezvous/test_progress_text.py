"""The step of code that cannot be changed: patterns, files, and the output of a command."""

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from framework.agent.report import LineReporter
from rendezvous.process.outputtap import Line, OutputTap, read_step
from rendezvous.progress.progresspages import ProgressPages
from rendezvous.progress.steptext import StepText
from rendezvous.settings.progresspattern import TextStep, parse_content, parse_pattern
from tests.support.fakes.agentclock import VirtualClock
from tests.support.measuring.cost import assert_costs_at_most
from tests.support.servers.frameworkcrd import ROOT
from tests.support.waiting import HANG_SECONDS


@pytest.mark.parametrize(
    ("pattern", "line", "expected"),
    [
        ("Step {step}/{total}", "[INFO] Step   40/1000 loss=0.5", TextStep(40, 1000)),
        ("step={step}", "epoch=1 step=7", TextStep(7, None)),
        ("{total} steps, at {step}", "100 steps, at 3", TextStep(3, 100)),
        ("step={step}", "steps", None),
        ("(a+)+{step}", "aaaaaaaa1", None),
        ("(a+)+{step}", "(a+)+1", TextStep(1, None)),
        ("{step}", "x" * 10_000 + "5", None),
    ],
)
def test_pattern_finds_the_step(pattern: str, line: str, expected: TextStep | None) -> None:
    parsed = parse_pattern(pattern)
    assert parsed is not None
    assert parsed.find(line) == expected


@pytest.mark.parametrize(
    "pattern", ["step", "{total}", "{step}{step}", "{step}{total}", "{step} " + "x" * 200]
)
def test_pattern_without_one_step_is_refused(pattern: str) -> None:
    with pytest.raises(ValueError, match="it needs"):
        parse_pattern(pattern)


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("40\n", TextStep(40, None)),
        ('{"step": 1}\n{"step": 40, "total": 100, "loss": 0.5}\n', TextStep(40, 100)),
        ("", None),
        ("40.5", None),
        ("44.0", TextStep(44, None)),
        ('{"step": 44.0, "total": 1e2}', TextStep(44, 100)),
        ("1e400", None),
        ('{"step": 42}\nsaving\n\n', TextStep(42, None)),
        ('{"step": 43, "gradients": [%s0]}' % ("0.123456, " * 600), TextStep(43, None)),
        ("9\n" + "x\n" * 100, None),
        ("7" * 70_000 + "\n40", TextStep(40, None)),
        ("7" * 70_000, None),
        ("-1", None),
        ("true", None),
        ('{"step": "40"}', None),
        ("[" * 4000, None),
    ],
)
def test_last_line_of_a_file_has_the_step(
    content: str, expected: TextStep | None, tmp_path: Path
) -> None:
    assert parse_content(content) == expected
    path = tmp_path / "step"
    assert read_step(str(path)) is None
    path.write_text(content)
    assert read_step(str(path)) == expected


@given(st.text(max_size=50), st.text(alphabet="{}stepotal 0123", max_size=50))
def test_no_text_is_a_fault(line: str, content: str) -> None:
    pattern = parse_pattern("s {step} t {total}")
    assert pattern is not None
    for text in (line, content):
        assert pattern.find(text) is None or pattern.find(text)
        parse_content(text)


def test_output_passes_unchanged_and_its_newest_step_is_found(
    capfd: pytest.CaptureFixture[str],
) -> None:
    pattern = parse_pattern("step {step}")
    assert pattern is not None
    tap = OutputTap(pattern)
    output, errors = tap.open()
    os.write(output, b"step 1\nstep 2\r50% st")
    os.write(output, b"ep 3\nend")
    os.write(errors, "step è\n".encode())
    for descriptor in (output, errors):
        os.close(descriptor)
    tap.drain()
    assert tap.read() == TextStep(3, None)
    assert capfd.readouterr() == ("step 1\nstep 2\r50% step 3\nend", "step è\n")
    for descriptor in tap.open():
        os.close(descriptor)
    assert tap.read() is None, "another command"


def test_line_without_an_end_needs_no_more_memory(capfd: pytest.CaptureFixture[str]) -> None:
    pattern = parse_pattern("step {step}.")
    assert pattern is not None
    tap = OutputTap(pattern)
    output, errors = tap.open()
    for _ in range(100):
        os.write(output, b"x" * 60_000)
    os.write(output, b"\nstep 9.\n")
    for descriptor in (output, errors):
        os.close(descriptor)
    tap.drain()
    assert tap.read() == TextStep(9, None)
    assert len(capfd.readouterr().out) == 100 * 60_000 + 9


def build_pages(path: Path, clock: VirtualClock) -> ProgressPages:
    reporter = LineReporter("test", is_json=False)
    folder, setting = str(path.parent), f"FB_PROGRESS_FILE={path}"
    return ProgressPages(folder, lambda: 0, reporter, clock, lambda: read_step(str(path)), setting)


def test_step_of_a_text_counts_as_one_of_the_process(tmp_path: Path) -> None:
    clock = VirtualClock()
    path = tmp_path / "step"
    path.write_text("5")
    pages = build_pages(path, clock)
    clock.now += 10.0
    pages.begin_command()
    clock.now += 10.0
    (process,) = pages.observe()
    assert (process.step, process.quiet_seconds) == (None, 10.0), "it is of the command before"
    path.write_text('{"step": 1, "total": 9}')
    assert pages.observe()[0].quiet_seconds == 0.0
    clock.now += 4.0
    (process,) = pages.observe()
    assert (process.step, process.total, process.quiet_seconds) == (1, 9, 4.0)


def test_last_step_counts_while_the_file_has_none(tmp_path: Path) -> None:
    clock = VirtualClock()
    path = tmp_path / "step"
    pages = build_pages(path, clock)
    clock.now = 50.0
    pages.begin_command()
    for content in ("41", "", "saving", "40.5", "41"):
        path.write_text(content)
        (process,) = pages.observe()
        assert (process.step, process.moved_seconds) == (41, None)
        clock.now += 10.0
    path.unlink()
    assert pages.observe()[0].quiet_seconds == 50.0
    path.write_text("42")
    (process,) = pages.observe()
    assert (process.step, process.quiet_seconds, process.moved_seconds) == (42, 0.0, 50.0)


def test_file_that_gives_no_step_is_named_after_300_seconds(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    clock = VirtualClock()
    path = tmp_path / "step"
    pages = build_pages(path, clock)
    pages.begin_command()
    path.write_text("loss 0.5")
    clock.now += 299.0
    pages.observe()
    assert capsys.readouterr().err == ""
    clock.now += 1.0
    pages.observe()
    pages.take_stacks()
    errors = capsys.readouterr().err
    assert f"FB_PROGRESS_FILE={path} has given no step for 300 s" in errors
    assert f"stacks: none, steps come from FB_PROGRESS_FILE={path}" in errors


def test_file_on_a_server_that_hangs_does_not_hold_the_main_thread() -> None:
    is_answered = threading.Event()

    def read() -> TextStep | None:
        is_answered.wait(HANG_SECONDS)
        return TextStep(7, None)

    text = StepText(read, "FB_PROGRESS_FILE=/nfs/step", LineReporter("test", is_json=False))
    text.begin_command()
    assert not is_answered.is_set()
    is_answered.set()
    assert text.observe(0.0, 1.0).step == 7


def test_helper_with_a_page_that_has_ended_does_not_end_the_watch_of_the_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BARRIER_WORKING_DIR", str(tmp_path))
    clock = VirtualClock()
    path = tmp_path / "step"
    pages = build_pages(path, clock)
    pages.begin_command()
    path.write_text("41")
    assert pages.observe()[0].step == 41
    code = (
        "import peers, sys; peers.pause('x', 60).__enter__(); print(flush=True); sys.stdin.read()"
    )
    env = {**os.environ, "PYTHONPATH": str(ROOT / "rendezvous" / "site")}
    with subprocess.Popen(
        [sys.executable, "-c", code], env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as helper:
        assert helper.stdout
        helper.stdout.readline()
        clock.now += 500.0
        assert pages.observe()[0].pause_seconds > 0.0
        helper.communicate()
    clock.now += 5.0
    (process,) = pages.observe()
    assert (process.step, process.quiet_seconds) == (41, 5.0), "the pause counts as activity"


def write_parts(*parts: bytes) -> TextStep | None:
    pattern = parse_pattern("step {step}/{total}")
    assert pattern is not None
    line, newest = Line(pattern), None
    for part in parts:
        newest = line.take(part) or newest
    return newest


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        ([b"step 1/9 ", *[b"\b" * 20 + b"step %d/9 " % i for i in range(2, 9)]], 8),
        ([b"step 1/9 " + b"\b" * 5000, b"\b" * 9 + b"step 8/9 "], 8),
        ([b"\x1b[2K\x1b[1Gstep %d/9 " % i for i in range(2, 9)], 8),
        ([b"step 1/9 \x1b[", b"1Gstep 8/9 "], 8),
        ([b"step 1/9 \x1b[1Gstep 8/9 \x1b[1G"], 8),
        ([b"\x1b[32mstep 8/9 \x1b[0m", b"and on"], 8),
        ([b"x" * 5000 + b"step 8/9 "], 8),
        ([b"x" * 5000, b"st", b"ep ", b"8/9 "], 8),
        ([b"step 8/9, after step 7/9\n"], 8),
        ([b"step 8/9, ", b"after step 7/9\n", b"."], 8),
        ([b"step 7/9\nstep 8/9"], 7),
        ([b"step 7/9\nstep 8/9", b"0 "], 8),
        ([b"step 1/9\r\nstep 8/9\r\n"], 8),
        ([b"step 1", b"\n2/9 "], None),
        ([b"step %d/9 " % i for i in range(1, 9)], 8),
        ([b"step 1/9 step 2/9 ", b"step 8", b"/9 "], 8),
        ([b"step 8/9 ", b"x" * 5000, b"step 9", b"/9."], 9),
        ([b"\x1b8step %d/9 " % i for i in range(1, 9)], 8),
        ([b"\x1b[ustep %d/9 " % i for i in range(1, 9)], 8),
        ([b"step 8/9, ", b"step 1000/9000 in all"], 8),
        ([b"step 8/9 ", b"\nstep 1/9 "], 1),
    ],
)
def test_newest_step_of_a_progress_bar_is_found(parts: list[bytes], expected: int | None) -> None:
    found = write_parts(*parts)
    assert (found.step if found else None) == expected


@pytest.mark.parametrize("chunk", [b"\n" * 65536, b"a\n" * 32768, b"\x1b[1G" * 16384])
def test_output_of_many_short_lines_costs_little(chunk: bytes) -> None:
    """At least 20 MB/s."""
    write_parts(chunk)
    assert_costs_at_most(0.0035 * 20, lambda: write_parts(*[chunk] * 20))


def test_step_that_was_read_before_a_start_is_none_of_the_new_command() -> None:
    steps = [TextStep(41, None), TextStep(42, None), TextStep(42, None)]

    def read() -> TextStep | None:
        found = steps.pop(0)
        if len(steps) == 2:
            text.begin_command()  # in the main thread, while this one reads
        return found

    text = StepText(read, "FB_PROGRESS_FILE=/step", LineReporter("test", is_json=False))
    assert [text.observe(0.0, 1.0).step for _ in range(2)] == [None, None]

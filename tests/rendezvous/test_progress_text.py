"""The step of code that cannot be changed: patterns, files, and the output of a command."""

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from framework.agent.report import LineReporter
from rendezvous.process.outputtap import OutputTap, read_step
from rendezvous.process.progresspages import ProgressPages
from rendezvous.settings.progresspattern import TextStep, parse_content, parse_pattern
from tests.support.fakes.agentclock import VirtualClock


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


def test_step_of_a_text_counts_as_one_of_the_process(tmp_path: Path) -> None:
    clock = VirtualClock()
    path = tmp_path / "step"
    path.write_text("5")
    pages = ProgressPages(
        str(tmp_path),
        lambda: 0,
        LineReporter("test", is_json=False),
        clock,
        lambda: read_step(str(path)),
    )
    clock.now += 10.0
    pages.note_start()
    clock.now += 10.0
    (process,) = pages.observe()
    assert (process.step, process.quiet_seconds) == (None, 10.0), "it is of the command before"
    path.write_text('{"step": 1, "total": 9}')
    assert pages.observe()[0].quiet_seconds == 0.0
    clock.now += 4.0
    (process,) = pages.observe()
    assert (process.step, process.total, process.quiet_seconds) == (1, 9, 4.0)

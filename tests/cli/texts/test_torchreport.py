"""The error of a PyTorch script is the end of its output, not the report of torchrun."""

import json

import pytest

from cli.running.failures import SHOWN_LINES, split_tail
from cli.texts.diagnostics import explain_diagnostics, find_cut_message
from cli.texts.torchreport import strip_report
from tests.support.measuring.cost import assert_costs_at_most

SCRIPT = [
    "step 1, and more of the output of a script, so that the lines have more than 120 characters",
    "Traceback (most recent call last):",
    '  File "/app/train.py", line 3, in <module>',
    "    main()",
    "ValueError: the data set is empty",
]
LOG = [
    "W1124 15:00:00.100000 7 torch/distributed/elastic/multiprocessing/api.py:1] Sending process",
    "E1124 15:00:00.123000 7 torch/distributed/elastic/multiprocessing/api.py:8] failed (x)",
]
OLD_LOG = ["ERROR:torch.distributed.elastic.multiprocessing.api:failed (exitcode: 1)"]
OTHER_LOG = ["[2024-01-01 10:00:00,1] torch.distributed.elastic.multiprocessing.api: [ERROR] x"]
TRACEBACK = [
    "Traceback (most recent call last):",
    *[f'  File "/torch/{number}.py", line 1, in run' for number in range(20)],
    "    raise ChildFailedError(",
    "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: ",
]
BLOCK = [
    "=" * 60,
    "train.py FAILED",
    "-" * 60,
    "Failures:",
    "  <NO_OTHER_FAILURES>",
    "-" * 60,
    "Root Cause (first observed failure):",
    "[0]:",
    "  exitcode  : 1 (pid: 9)",
    "  error_file: <N/A>",
    "  traceback : To enable traceback see: https://pytorch.org/docs/stable/elastic/errors.html",
    "=" * 60,
]


@pytest.mark.parametrize("log", [LOG, OLD_LOG, OTHER_LOG, []])
@pytest.mark.parametrize("after", [[], ["", "the job ends"]])
def test_lines_of_the_script_are_left(log: list[str], after: list[str]) -> None:
    assert strip_report([*SCRIPT, *log, *TRACEBACK, *BLOCK, *after]) == [*SCRIPT, *after]


def test_block_without_its_traceback_is_removed() -> None:
    assert strip_report([*SCRIPT, *BLOCK]) == SCRIPT


@pytest.mark.parametrize("lines", [SCRIPT, [*TRACEBACK, *BLOCK], BLOCK, BLOCK[3:], []])
def test_output_of_which_nothing_would_be_left_stays(lines: list[str]) -> None:
    assert strip_report(lines) == lines


def test_line_of_a_script_that_looks_like_the_error_hides_nothing() -> None:
    lines = [SCRIPT[0], TRACEBACK[-1] + "caught, trying again", *SCRIPT]
    assert strip_report(lines) == lines


def test_last_lines_and_termination_message_have_the_error_of_the_script() -> None:
    lines = [*SCRIPT, *LOG, *TRACEBACK, *BLOCK]
    text = "\n".join(lines)
    assert split_tail(text.encode()) == SCRIPT
    assert len(split_tail(b"x\n" * 99)) == SHOWN_LINES
    container = {"name": "main", "code": 1, "reason": "Error", "message": text}
    diagnostics = f"Pod failed: x: {json.dumps({'containers': [container]})}"
    assert explain_diagnostics(diagnostics).endswith("; last output: " + SCRIPT[-1])
    assert find_cut_message(diagnostics) == ("main", SCRIPT)


@pytest.mark.parametrize(
    "line",
    ["Root Cause (first observed failure)", " FAILED", "=" * 60, "  ", LOG[0], TRACEBACK[-1]],
)
def test_hostile_output_costs_linear_time(line: str) -> None:
    lines = [*[line] * 100_000, TRACEBACK[-1], BLOCK[0], BLOCK[6]]
    assert_costs_at_most(2, lambda: strip_report(lines))

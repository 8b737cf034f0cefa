"""Removes the report of torchrun from an output, so that the error of the script is its end. Pure.

When a worker fails, torchrun writes after the worker's own output: lines of its log, the traceback
of its ChildFailedError, and a block between two rulers. None of them has the error of the script.

Cost: linear in the number of lines; of each line only the first characters are searched.
"""

import re
from collections.abc import Sequence

REPORT_LINES = 80
"""Lines to read in addition to those that are shown: a report is about this long."""
_ERROR = "torch.distributed.elastic.multiprocessing.errors.ChildFailedError"
_TRACEBACK = "Traceback (most recent call last):"
_ROOT_CAUSE = "Root Cause (first observed failure)"
_HEADING = " FAILED"
_RULER = "=" * 20
_RULERS = 2
_LOG = re.compile(r"[EWI]\d{4} |(?:ERROR|WARNING|INFO):|\[\d{4}-")
_LOGGERS = ("torch/distributed/elastic/", "torch.distributed.elastic.")
_MAX_PREFIX = 200


def strip_report(lines: Sequence[str]) -> list[str]:
    """Return the lines without the last report of torchrun; all lines if no others are left."""
    begin = _find_block(lines)
    if begin is None:
        return list(lines)
    rulers = [i for i in range(begin, len(lines)) if lines[i].startswith(_RULER)]
    if len(rulers) < _RULERS:
        return list(lines)  # a line of the script that looks like the error
    end = rulers[1] + 1
    if lines[begin].startswith(_ERROR):
        begin = _find_traceback(lines, begin)
    while begin > 0 and _is_log(lines[begin - 1]):
        begin -= 1
    kept = [*lines[:begin], *lines[end:]]
    return kept if any(line.strip() for line in kept) else list(lines)


def _find_block(lines: Sequence[str]) -> int | None:
    """Find the line of the error, or without it the first ruler of the block."""
    positions = range(len(lines) - 1, -1, -1)
    error = next((i for i in positions if lines[i].startswith(_ERROR)), None)
    cause = next((i for i in positions if lines[i].startswith(_ROOT_CAUSE)), None)
    if error is not None or cause is None:
        return error
    heading = next((i for i in range(cause, 0, -1) if lines[i].rstrip().endswith(_HEADING)), 0)
    return heading - 1 if heading and lines[heading - 1].startswith(_RULER) else None


def _find_traceback(lines: Sequence[str], error: int) -> int:
    """Find the first line of the traceback that ends with the error."""
    first = error
    while first > 0 and (not lines[first - 1] or lines[first - 1][0] in " \t"):
        first -= 1
    is_whole = first > 0 and lines[first - 1].startswith(_TRACEBACK)
    return first - 1 if is_whole else first


def _is_log(line: str) -> bool:
    begin = line[:_MAX_PREFIX]
    return _LOG.match(begin) is not None and any(name in begin for name in _LOGGERS)

"""Compares the sample of an output in a page with a real output."""

import re
from collections.abc import Sequence

_NUMBER = re.compile(r"-?\d+(\.\d+)?")
_DIRECTORY = re.compile(r"/\S*/framework-\w+")
_FRAMEWORK = re.compile(r"\S*bin/framework\b")


def find_shape(line: str) -> str:
    """Replace what differs between two runs: numbers, and the directory of the run."""
    line = _DIRECTORY.sub("DIRECTORY", line)
    line = _FRAMEWORK.sub("framework", line)
    return _NUMBER.sub("0", line).rstrip()


def find_difference(sample: str, output: Sequence[str]) -> str:
    """Return the first line of the sample that the output lacks in this order, or "".

    ``...`` stands for lines that the sample leaves out. So do other lines between two lines of
    logs, because those of several Tasks arrive in any order. The last lines must be the same.
    """
    wanted = [line for line in sample.splitlines() if line != "..."]
    shapes = iter([find_shape(line) for line in output])
    for line in wanted:
        if find_shape(line) not in shapes:
            return line
    return next(shapes, "")

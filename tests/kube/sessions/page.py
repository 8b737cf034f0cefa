"""The page of recorded sessions: what is of one machine or one run, and what is compared."""

import re
import sys
from pathlib import Path

PAGE = Path(__file__).parents[3] / "docs" / "sessions.md"
_PROGRAMS = str(Path(sys.executable).parent)
# In a comparison, each of these stands for any other of its kind.
_VARIABLE = (
    (re.compile(r"\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ"), "TIME"),
    (re.compile(r"\b(?:\d+h)?(?:\d+m)?\d+(?:\.\d+)? ?s\b"), "SECONDS"),
    (re.compile(r"\b\d+m\b"), "SECONDS"),
    (re.compile(r"\b[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}\b"), "UID"),
    (re.compile(r"\b10(?:\.\d{1,3}){3}\b"), "ADDRESS"),
    (re.compile(r"(127\.0\.0\.1:|Handling connection for )\d+\b"), r"\1PORT"),
    # Columns are as wide as their widest value.
    (re.compile(r" {2,}"), "  "),
)
_CREATED = re.compile(
    r"^(.*PodCreated .*Created the Pods of )(.*)\n.*PodCreated .*Created the Pods of (.*)\n",
    re.MULTILINE,
)
_TASK_PROGRESS = re.compile(r" +\d+\.\d+s  (\w+/\d+)  (.*)\n")


def hide_machine(text: str, namespace: str) -> str:
    """Replace names of this run and paths of this machine; order what has no order."""
    text = text.replace(namespace, "training").replace(_PROGRAMS, "/usr/local/bin")
    # Whether a machine has IPv6 is not of interest.
    text = re.sub(r"^Forwarding from \[::1\].*\n", "", text, flags=re.MULTILINE)
    return _sort_progress(text)


def normalize(page: str) -> str:
    """Replace times, UIDs, ports and addresses by words."""
    for pattern, word in _VARIABLE:
        page = pattern.sub(word, page)
    # Pods whose creates are answered at different times have an Event each.
    return _CREATED.sub(_join_created, page)


def _join_created(found: re.Match[str]) -> str:
    begin, *names = found.groups()
    return f"{begin}{', '.join(sorted(', '.join(names).split(', ')))}\n"


def _sort_progress(text: str) -> str:
    """Sort neighbouring lines of `run` about equal changes of Tasks, which came at one time."""
    lines = text.splitlines(keepends=True)
    for i in range(len(lines) - 1):
        one, two = _TASK_PROGRESS.fullmatch(lines[i]), _TASK_PROGRESS.fullmatch(lines[i + 1])
        if one and two and one[2] == two[2] and one[1] > two[1]:
            lines[i : i + 2] = lines[i + 1], lines[i]
    return "".join(lines)

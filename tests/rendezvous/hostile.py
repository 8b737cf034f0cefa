"""Hostile texts, and real shells to read what was made of them.

How many cases: ``$FRAMEWORKBARRIER_HOSTILE_CASES`` (10,000). One shell reads many of them.
"""

import os
import random
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support.waiting import HANG_SECONDS

CASES = int(os.environ.get("FRAMEWORKBARRIER_HOSTILE_CASES", "10000"))
SHELLS = {"dash": ["dash"], "bash": ["bash"], "busybox": ["busybox", "sh"]}

_FRAGMENTS = (
    "$(touch canary)", "`touch canary`", "';touch canary;'", '";touch canary;"',
    "\\';touch canary;#", "'\\''", "${IFS}", "$((1))", "$'\\n'", "\ntouch canary\n", "\r\n", "\n",
    "\r", "\0", "\t", "\x0b", "\x1b[2J", "\x7f", "\x85", "\u2028", "\u2029", "\ud800", "\xa0",
    "é", "漢", "🦊", "&& touch canary", "| touch canary", "> canary", "; touch canary", "#", "!",
    "!!", "*", "?", "[a-z]", "~", "{a,b}", "%s", "%n", "\\", "\\\\", "\\n", "'", '"', "=", " ",
    "  ", "-n", "--", ":", "::", ",", "@", "/", "..", "%eth0", "slots=9", "10.0.0.2",
    "10.0.0.256", "010.0.0.1", "fd00::1", "::ffff:10.0.0.1", "fe80::1%$(touch canary)",
    "[fd00::1]", "worker", "WORKER", "job", "0", "1", "-1",
    "9" * 30, "\u0661",  # the last: a digit to Python's \d, to no shell
)  # fmt: skip


def draw_texts(seed: int, count: int) -> list[str]:
    """Every fragment alone, then any of them joined."""
    source = random.Random(seed)
    texts = list(_FRAGMENTS[:count])
    while len(texts) < count:
        texts.append("".join(source.choices(_FRAGMENTS, k=source.randint(1, 6))))
    return texts


def find_shell(name: str) -> list[str]:
    """Find a shell, or skip with what to install."""
    command = SHELLS[name]
    if shutil.which(command[0]) is None:
        pytest.skip(f"{name} is not installed: apt-get install {name}")
    return command


def run_script(shell: list[str], script: bytes, directory: Path) -> bytes:
    """Run a script in an empty directory; it must say nothing on stderr and leave no file."""
    path = directory / "script.sh"
    path.write_bytes(script)
    ran = subprocess.run(
        [*shell, str(path)],
        cwd=directory,
        capture_output=True,
        check=False,
        env={"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8"},
        timeout=HANG_SECONDS,
    )
    assert ran.stderr == b"", ran.stderr[:500]
    assert ran.returncode == 0
    assert sorted(entry.name for entry in directory.iterdir()) == ["script.sh"]
    return ran.stdout

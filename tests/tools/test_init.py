"""`make init` prints its progress while pip works, which takes minutes on a fresh machine."""

import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[2]


def report(*lines: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        ["sh", "tools/initprogress", "25"],
        input="".join(f"{line}\n" for line in lines),
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
    )


def test_progress_has_a_line_for_every_ten_packages() -> None:
    collected = [f"Collecting package{number}==1.0" for number in range(25)]
    noise = ["  Downloading package.whl (1 kB)", "Requirement already satisfied: pip"]
    done = report(*collected, *noise, "Installing collected packages: a, b", "exit 0")
    assert done.returncode == 0
    assert done.stdout.splitlines() == [
        "make init: fetched 10 of 25 packages",
        "make init: fetched 20 of 25 packages",
        "make init: installing the 25 fetched packages",
    ]


def test_progress_of_a_failed_installation_passes_errors_and_exit_code_on() -> None:
    done = report("Collecting a==1.0", "ERROR: no such package", "exit 3")
    assert (done.returncode, done.stdout) == (3, "ERROR: no such package\n")


def test_progress_of_an_installation_that_was_killed_fails() -> None:
    assert report("Collecting a==1.0").returncode == 1

"""The entry point: a Ctrl-C while the command line is still being loaded, and the version."""

import subprocess
import sys
from types import ModuleType

import pytest

from cli.__main__ import main
from cli.exitcodes import ExitCode
from framework.version import VERSION


class Interrupted(ModuleType):
    """A module whose import is interrupted by Ctrl-C."""

    def __getattr__(self, name: str) -> object:
        raise KeyboardInterrupt


def test_main_interrupted_while_loading_ends_quietly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cli.main", Interrupted("cli.main"))
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == ExitCode.INTERRUPTED
    assert ended.value.__suppress_context__


@pytest.mark.parametrize(
    "words",
    [
        *(["cli", "--version"], ["cli", "-V"], ["cli", "version"]),
        *([program, "--version"] for program in ("controller", "barrier", "rendezvous")),
    ],
    ids=" ".join,
)
def test_every_program_prints_its_version_and_nothing_else(words: list[str]) -> None:
    done = subprocess.run(
        [sys.executable, "-m", *words], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, f"{VERSION}\n", "")


WITH_CLEANUP = """
import atexit, sys
from cli.__main__ import main
atexit.register(print, "cleanup")
sys.argv[:] = ["framework", *sys.argv[1:]]
main()
"""


@pytest.mark.parametrize(
    ("words", "code", "has_cleanup"),
    [
        (["--help"], 0, False),
        (["--version"], 0, False),
        (["--nonsense"], 2, False),
        (["version"], 0, True),
        (["lint", "/nonexistent.yaml"], 2, True),
    ],
    ids=str,
)
def test_program_ends_at_once_if_no_command_ran(
    words: list[str], code: int, *, has_cleanup: bool
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", WITH_CLEANUP, *words], capture_output=True, text=True, check=False
    )
    assert done.returncode == code, done
    assert done.stdout or done.stderr
    assert done.stdout.endswith("cleanup\n") == has_cleanup


def test_help_into_a_closed_pipe_is_no_error() -> None:
    program = [sys.executable, "-m", "cli", "--help"]
    with subprocess.Popen(program, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as child:
        assert child.stdout is not None
        assert child.stderr is not None
        child.stdout.close()
        assert child.stderr.read() == b""

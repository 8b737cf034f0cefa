"""How the consumer tests run a stack: a script in its own Python, JSON in and out."""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

import pytest

from framework.api.roster import Roster
from rendezvous.renderers.registry import Rendering, render_all
from tests.consumers.install import explain_missing, find_python
from tests.rendezvous.gangs import IPV4, IPV6, build_gang, build_options, see

COUNTS = (1, 2, 100)
FAMILIES = (IPV4, IPV6)
ANSWER = "answer: "
# A limit for a hang: the slowest of these programs needs a tenth of it. It is shorter than the
# limit of a test, because its message has the output of the program.
HANG_SECONDS = 240.0
_END_SECONDS = 10.0
_MAX_SHOWN = 3000


def require_python(stack: str) -> Path:
    """Find the Python of a stack, or skip with what to install."""
    python = find_python(stack)
    if python is None:
        pytest.skip(explain_missing(stack))
    return python


def require_program(stack: str, program: str) -> str:
    """Find a program, or skip with what to install."""
    path = shutil.which(program)
    if path is None:
        pytest.skip(explain_missing(stack))
    return path


def run_program(
    command: list[str],
    directory: Path,
    env: Mapping[str, str] | None = None,
    timeout: float = HANG_SECONDS,
) -> subprocess.CompletedProcess[str]:
    """Run a program to its end; a program that hangs fails with its output.

    It writes to files: processes that outlive it would keep its pipes open.
    """
    with _open_output() as out, _open_output() as err:
        program = subprocess.Popen(
            command,
            cwd=directory,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            start_new_session=True,
        )
        try:
            program.wait(timeout)
        except subprocess.TimeoutExpired:
            pytest.fail(f"no end in {timeout:g} s: {explain(_stop(program, out, err))}")
        except BaseException:  # the test is ended: by its limit, or by a signal
            _stop(program, out, err)
            raise
        return _collect(program, out, err)


def explain(ran: "subprocess.CompletedProcess[str]") -> str:
    """Return command, exit code and last output of a program, for a log of CI."""
    return (
        f"{ran.args}: exit code {ran.returncode}\n"
        f"--- stdout\n{ran.stdout[-_MAX_SHOWN:]}\n--- stderr\n{ran.stderr[-_MAX_SHOWN:]}"
    )


def _open_output() -> IO[str]:
    return tempfile.TemporaryFile("w+", errors="replace")


def _stop(
    program: "subprocess.Popen[bytes]", out: IO[str], err: IO[str]
) -> "subprocess.CompletedProcess[str]":
    """End a program that hangs, and what it has started: a shell does not end its commands."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(program.pid, signal.SIGTERM)
    try:
        program.wait(_END_SECONDS)
    except subprocess.TimeoutExpired:
        program.kill()
        program.wait()
    return _collect(program, out, err)


def _collect(
    program: "subprocess.Popen[bytes]", out: IO[str], err: IO[str]
) -> "subprocess.CompletedProcess[str]":
    texts = []
    for file in (out, err):
        file.seek(0)
        texts.append(file.read())
    return subprocess.CompletedProcess(program.args, program.returncode, *texts)


def ask(stack: str, script: str, directory: Path, env: dict[str, str] | None = None) -> Any:
    """Run a script in a stack's Python; it calls ``answer(value)``, which is returned.

    The script is a real file with a main guard: some stacks start themselves again.
    """
    python = require_python(stack)
    body = "".join(f"    {line}\n" for line in script.strip().splitlines())
    path = directory / f"ask_{stack}.py"
    path.write_text(
        "import json\n"
        f"def answer(value):\n    print({ANSWER!r} + json.dumps(value))\n"
        f"def main():\n{body}"
        "if __name__ == '__main__':\n    main()\n"
    )
    ran = run_program([str(python), str(path)], directory, {**os.environ, **(env or {})})
    assert ran.returncode == 0, explain(ran)
    lines = [line for line in ran.stdout.splitlines() if line.startswith(ANSWER)]
    assert len(lines) == 1, explain(ran)
    return json.loads(lines[0].removeprefix(ANSWER))


def write_volume(
    directory: Path, roster: Roster, role: str = "worker", index: int = 0, **flags: str
) -> Rendering:
    """Write a generation as the agent does, all in one directory named ``current``."""
    flags["directory"] = str(directory)
    rendering = render_all(see(roster, role, index, **flags), build_options(**flags))
    current = directory / "current"
    current.mkdir(exist_ok=True)
    for files, target in ((rendering.files, current), (rendering.fixed_files, directory)):
        for name, (content, mode) in files.items():
            path = target / name
            path.unlink(missing_ok=True)
            path.write_bytes(content)
            path.chmod(mode)
    return rendering


def list_addresses(count: int, family: str) -> list[str]:
    """The addresses of ``build_gang``."""
    return [m.addresses[0] for m in build_gang(count, family).roles[0].members]

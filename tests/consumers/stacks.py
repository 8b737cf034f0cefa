"""How the consumer tests run a stack: a script in its own Python, JSON in and out."""

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from framework.api.roster import Roster
from rendezvous.registry import Rendering, render_all
from tests.consumers.install import explain_missing, find_python
from tests.rendezvous.gangs import IPV4, IPV6, build_gang, build_options, see

COUNTS = (1, 2, 100)
FAMILIES = (IPV4, IPV6)
ANSWER = "answer: "


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


def ask(stack: str, script: str, directory: Path, env: dict[str, str] | None = None) -> Any:
    """Run a script in a stack's Python; it calls ``answer(value)``, which is returned.

    The script is a real file with a main guard: some stacks start themselves anew.
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
    ran = subprocess.run(
        [str(python), str(path)],
        cwd=directory,
        env={**os.environ, **(env or {})},
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )
    assert ran.returncode == 0, ran.stderr[-3000:]
    (line,) = [line for line in ran.stdout.splitlines() if line.startswith(ANSWER)]
    return json.loads(line.removeprefix(ANSWER))


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

"""Writes commands for users to copy: quoted for a shell, with a name that this shell finds."""

import shlex
import shutil
import sys
from pathlib import Path

_NAMES = frozenset({"framework", "kubectl-framework"})


def build_command(*arguments: str) -> str:
    """Write a call of this program, by the path it was called by if it is not on the PATH."""
    called = sys.argv[0]
    is_hidden = Path(called).name in _NAMES and shutil.which("framework") is None
    return shlex.join([called if is_hidden else "framework", *arguments])


def build_export(name: str, value: str) -> str:
    """Write the line that sets a variable in a shell."""
    return f"export {name}={shlex.quote(value)}"

"""env.sh and .env: all variables of a generation, for shells and for readers of dotenv. Pure.

Each line has one variable, always quoted. A value of more than 100 kB is not exported, because
Linux starts no program with a variable of 128 KiB: a file has the value, and <NAME>_FILE
(FB_<NAME>_FILE if NAME does not begin with FB_) has the path of the file.
"""

from typing import Dict, Mapping, NamedTuple

from framework.api.text import quote_shell
from rendezvous.core.refusal import RefusedError
from rendezvous.renderers.quoting import check_value, quote_dotenv
from rendezvous.renderers.rendered import RenderedFile, build_lines_file

SHELL_FILE_NAME = "env.sh"
DOTENV_FILE_NAME = ".env"
MAX_VALUE_BYTES = 100 * 1000
# All variables and arguments share 2 MiB, a quarter of the usual stack: leave room for the others.
MAX_TOTAL_BYTES = 1000 * 1000


class Environment(NamedTuple):
    """The variables of a generation, and their files."""

    env: Dict[str, str]
    """The variables that are exported."""
    files: Dict[str, RenderedFile]
    """env.sh, .env, and a file for each variable that is too long to export."""
    moved: Dict[str, str]
    """For each variable that is too long to export, the variable that names its file."""
    refusals: Dict[str, RefusedError]
    """For each file that is missing, the reason."""


def render_environment(env: Mapping[str, str], directory: str) -> Environment:
    """Render both files, and a file in ``directory`` for each variable that is too long to export.

    A shell may source env.sh again, so env.sh unsets variables that an earlier generation exported.

    Raises:
        RefusedError: A name is invalid, or a value would not stay on its line. If only
            readers of .env would disagree, only that file is refused.
    """
    for name, value in env.items():
        check_value(name, value)
    moved = _choose_moved(env)
    fitting: Dict[str, str] = {}
    files: Dict[str, RenderedFile] = {}
    for name, value in env.items():
        if name in moved:
            files[f"{name}.txt"] = build_lines_file([value])
            fitting[moved[name]] = f"{directory}/{name}.txt"
        else:
            fitting[name] = value
    shell = [f"unset {name}" for name in moved]
    shell += [f"export {name}={quote_shell(value)}" for name, value in fitting.items()]
    files[SHELL_FILE_NAME] = build_lines_file(shell)
    refusals: Dict[str, RefusedError] = {}
    try:
        dotenv = [f"{name}={quote_dotenv(name, value)}" for name, value in fitting.items()]
        files[DOTENV_FILE_NAME] = build_lines_file(dotenv)
    except RefusedError as e:
        refusals[DOTENV_FILE_NAME] = e
    return Environment(fitting, files, moved, refusals)


def _choose_moved(env: Mapping[str, str]) -> Dict[str, str]:
    """Choose the variables that are not exported: each that is too long, then the longest."""
    sizes = {name: len(name) + len(value.encode()) + 2 for name, value in env.items()}
    total = sum(sizes.values())
    moved: Dict[str, str] = {}
    for name in sorted(sizes, key=lambda name: (-sizes[name], name)):
        if sizes[name] > MAX_VALUE_BYTES or total > MAX_TOTAL_BYTES:
            moved[name] = (name if name.startswith("FB_") else "FB_" + name) + "_FILE"
            total -= sizes[name]
    return moved

"""env.sh and .env: all variables of a generation, for shells and for readers of dotenv. Pure.

One variable a line, always quoted; a value of more than 100 kB is not exported, since Linux refuses
to start any program with one of 128 KiB: a file holds it, and <NAME>_FILE (with FB_ before it, if
it is not there) its path.
"""

from typing import Dict, Mapping, NamedTuple

from framework.api.text import quote_shell
from rendezvous.core.refusal import RefusedError
from rendezvous.renderers.quoting import check_value, quote_dotenv
from rendezvous.renderers.rendered import RenderedFile, build_lines_file

SHELL_FILE_NAME = "env.sh"
DOTENV_FILE_NAME = ".env"
MAX_VALUE_BYTES = 100 * 1000
# All variables and arguments share 2 MiB (a quarter of the usual stack): leave room for theirs.
MAX_TOTAL_BYTES = 1000 * 1000


class Environment(NamedTuple):
    """The variables as they can be exported, their files, and those of variables too long for it.

    ``moved`` maps the names of variables that became files to the variables that name the files;
    ``refusals`` says why a file is missing.
    """

    env: Dict[str, str]
    files: Dict[str, RenderedFile]
    moved: Dict[str, str]
    refusals: Dict[str, RefusedError]


def render_environment(env: Mapping[str, str], directory: str) -> Environment:
    """Render both files; what is too long to export goes into files, which lie in ``directory``.

    A shell may source env.sh again, so it forgets what an earlier generation could still export.

    Raises:
        RefusedError: A name is invalid, or a value would not stay on its line. Where only readers
            of .env would disagree, that file alone is refused.
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
    """Choose what is not exported: what is too long alone, then the longest."""
    sizes = {name: len(name) + len(value.encode()) + 2 for name, value in env.items()}
    total = sum(sizes.values())
    moved: Dict[str, str] = {}
    for name in sorted(sizes, key=lambda name: (-sizes[name], name)):
        if sizes[name] > MAX_VALUE_BYTES or total > MAX_TOTAL_BYTES:
            moved[name] = (name if name.startswith("FB_") else "FB_" + name) + "_FILE"
            total -= sizes[name]
    return moved

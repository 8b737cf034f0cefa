"""The command line of the rendezvous agent: its parser and its help. Pure.

``options`` defines the flags.
"""

from typing import Dict, List, NamedTuple

from rendezvous.settings.options import BEHAVIOUR, OPTIONS, RENDERING

RENDER, WATCH, RUN, INSTALL, RSH = "render", "watch", "run", "install", "rsh"
USAGE = """\
usage: framework-rendezvous COMMAND [FLAGS]

  render         write the first complete generation and end (init container)
  watch          keep the files up to date and notify processes (sidecar)
  run -- CMD...  the same round a command: wait, start it, forward signals, exit with its code
  rsh HOST -- CMD...
                 run a command in another member, whose agent has FB_RSH=on
  install        put the agent for images without it into the volume

Every flag may also be given as the variable beside it. Those marked * may also be given as the
Pod's annotation frameworkbarrier.io/FLAG, where its annotations are mounted at
/etc/podinfo/annotations. The gang and the own Task come from the variables FC_* that the
controller sets in every container of its Pods.
"""
_COMMANDS = (RENDER, WATCH, RUN, INSTALL, RSH)
_FORMS = {RUN: "run [FLAGS] -- COMMAND", RSH: "rsh [FLAGS] HOST -- COMMAND"}
_EXITS = """
exit codes: 0; 201 gang not complete in time; 210 permanent (bad settings, missing rights, what is
asked for cannot be rendered, unknown command or flag); 1 anything else; 128 + N ended by signal N.
run ends with the code of its command, watch with 0 once it has started, rsh with the code of its
command, or 255 if that is not known.
"""


class UsageError(Exception):
    """The command line is wrong."""


class Arguments(NamedTuple):
    """The parsed command line. Flags are keyed by the names of options."""

    command: str
    flags: Dict[str, str]
    argv: List[str]
    host: str = ""


def parse_arguments(words: List[str]) -> Arguments:
    """Parse the command line.

    Raises:
        UsageError: It is not valid.
    """
    if not words or words[0] not in _COMMANDS:
        raise UsageError(f"unknown command {words[0]!r}" if words else "no command")
    names = {option.flag: option.name for option in OPTIONS}
    flags: Dict[str, str] = {}
    rest, argv = words[1:], []  # type: List[str], List[str]
    if "--" in rest:
        rest, argv = rest[: rest.index("--")], rest[rest.index("--") + 1 :]
    host = rest.pop() if words[0] == RSH and rest and not rest[-1].startswith("-") else ""
    while rest:
        flag, found, value = rest.pop(0).partition("=")
        if flag not in names:
            raise UsageError(f"unknown flag {flag!r}")
        if not found:
            if not rest:
                raise UsageError(f"{flag} needs a value")
            value = rest.pop(0)
        flags[names[flag]] = value
    form = _FORMS.get(words[0])
    if bool(argv) is not (form is not None) or (words[0] == RSH and not host):
        raise UsageError(f"write: {form}" if form else "no -- is wanted")
    return Arguments(words[0], flags, argv, host)


def render_help() -> str:
    """Render the text of ``--help``."""
    lines = [USAGE]
    for title, settings in (
        ("How the agent behaves:", BEHAVIOUR),
        ("What is rendered:", RENDERING),
    ):
        lines.append(title)
        for setting in settings:
            default = f" [{setting.default}]" if setting.default else ""
            mark = "*" if setting.by_annotation else " "
            lines.append(f"{mark} {setting.flag}, {setting.env_name}: {setting.form}{default}")
            lines.append(f"      {setting.summary}")
        lines.append("")
    return "\n".join(lines).rstrip("\n") + "\n" + _EXITS

"""Completion for bash, zsh and fish by click's classes, and for kubectl.

A completion writes nothing but candidates: an error of any kind, also in a command that has one, is
an empty list, because its text would appear in the line that the user is typing.
"""

import io
import os
from collections.abc import Sequence
from contextlib import redirect_stderr, suppress

import click
from click.shell_completion import (
    BashComplete,
    CompletionItem,
    FishComplete,
    ShellComplete,
    ZshComplete,
    add_completion_class,
    split_arg_string,
)

from cli.catalog import COMPLETE_VARIABLE, PROGRAM

# The words come from the line, not from COMP_WORDS, where a name with a colon is three words.
_SOURCE_BASH = """\
%(complete_func)s() {
    local IFS=$'\\n' type value response
    response=$(COMP_LINE="$COMP_LINE" COMP_POINT="$COMP_POINT" \\
        %(complete_var)s=bash_complete "$1" 2>/dev/null)
    COMPREPLY=()
    while IFS=',' read -r type value; do
        case $type in
        dir) compopt -o dirnames ;;
        file) compopt -o default ;;
        plain) COMPREPLY+=("$value") ;;
        esac
    done <<<"$response"
    # A number follows ROLE=.
    [[ ${#COMPREPLY[@]} != 1 || ${COMPREPLY[0]} != *= ]] || compopt -o nospace 2>/dev/null
}
complete -o nosort -F %(complete_func)s %(prog_name)s
"""
# A character that is in no command line: it marks the position of the cursor.
_CURSOR = "\0"
_KUBECTL_NO_SPACE, _KUBECTL_NO_FILES = 2, 4
"""Directives of kubectl (those of cobra), to add: no space after the name; no names of files."""


class _SilentCompletion(ShellComplete):
    """Candidates without errors, and each with the part of its word that the shell replaces."""

    def get_completions(self, args: list[str], incomplete: str) -> list[CompletionItem[str]]:
        """Complete; no candidates if anything is wrong."""
        self.ctx_args["obj"] = list(args)
        with suppress(Exception), redirect_stderr(io.StringIO()):
            items = super().get_completions(args, incomplete)
            return [self.fit(item, incomplete) for item in items]
        return []

    def fit(self, item: CompletionItem[str], incomplete: str) -> CompletionItem[str]:
        """Put ``--option=`` in front of a value: these shells replace the whole word."""
        option, found, _ = incomplete.partition("=")
        if found and option.startswith("-") and not item.value.startswith("-"):
            item.value = f"{option}={item.value}"
        return item


class _Bash(_SilentCompletion, BashComplete):
    source_template = _SOURCE_BASH

    def source(self) -> str:
        """Write the script; click would first start a bash to learn its version."""
        return self.source_template % self.source_vars()

    def get_completion_args(self) -> tuple[list[str], str]:
        """Split the line up to the cursor, without variables in front of the command."""
        line = os.fsencode(os.environ["COMP_LINE"])[: int(os.environ["COMP_POINT"])]
        *words, last = split_arg_string(os.fsdecode(line) + _CURSOR)
        while words and "=" in words[0]:
            words = words[1:]
        return words[1:], last.partition(_CURSOR)[0]

    def fit(self, item: CompletionItem[str], incomplete: str) -> CompletionItem[str]:
        """Remove the part before the last colon: bash keeps it, and replaces what follows."""
        head, colon, _ = incomplete.rpartition(":")
        kept = (head + colon).partition("=")[2] if head.startswith("-") else head + colon
        item.value = item.value.removeprefix(kept)
        return item


class _Zsh(_SilentCompletion, ZshComplete):
    pass


class _Fish(_SilentCompletion, FishComplete):
    pass


_CLASSES: dict[str, type[ShellComplete]] = {"bash": _Bash, "zsh": _Zsh, "fish": _Fish}


def register_shells() -> None:
    """Have click use the classes of this module."""
    for shell in _CLASSES.values():
        add_completion_class(shell)


def build_script(shell: str, command: click.Command) -> str:
    """Write the script that a shell evaluates at its start, to complete the whole ``command``."""
    return _CLASSES[shell](command, {}, PROGRAM, COMPLETE_VARIABLE).source()


def complete_for_kubectl(command: click.Command, words: Sequence[str]) -> list[str]:
    """Complete as kubectl asks it of ``kubectl_complete-framework``.

    Args:
        command: the whole command line.
        words: those after ``kubectl framework``; the last is to be completed.

    Returns:
        The lines of the answer: names with descriptions, and a directive at the end.
    """
    *args, incomplete = words or ("",)
    shell = _SilentCompletion(command, {}, PROGRAM, COMPLETE_VARIABLE)
    items = shell.get_completions(args, incomplete)
    names = [item for item in items if item.type == "plain"]
    lines = [f"{item.value}\t{item.help}" if item.help else item.value for item in names]
    directive = _KUBECTL_NO_FILES if len(names) == len(items) else 0
    directive += _KUBECTL_NO_SPACE if any(item.value.endswith("=") for item in names) else 0
    return [*lines, f":{directive}"]

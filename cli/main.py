"""The command line: finds the command, and turns errors into messages and exit codes.

Installed as ``framework`` and as ``kubectl-framework``, so that ``kubectl framework`` works. A
command is imported when it is called (``cli.catalog``), so that ``--help`` stays fast.
"""

import errno
import gc
import os
import sys
from importlib import import_module
from typing import Any

import click
from click.shell_completion import CompletionItem

from cli.catalog import COMPLETE_VARIABLE, MEANT, PROGRAM, SECTIONS
from cli.exitcodes import CliError, ExitCode
from cli.terminal import print_error, silence
from framework.api.text import make_printable
from framework.version import VERSION

_FILE_OPTIONS = frozenset({"-f", "--filename"})
_NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})


class _Program(click.Group):
    """Finds the commands of the catalog, and turns a CliError into its message and exit code."""

    has_started = False
    """Whether a command was called, not only its help or its completion."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 click's signature
        """List the commands in the order of the help."""
        return [name for commands in SECTIONS.values() for name in commands]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import a command; None if there is none of this name."""
        if cmd_name not in self.list_commands(ctx):
            return super().get_command(ctx, cmd_name)
        name = cmd_name.replace("-", "_")
        command: click.Command = getattr(import_module(f"cli.commands.{name}"), name)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command that the arguments name; the fault names similar ones."""
        try:
            return super().resolve_command(ctx, args)
        except click.NoSuchCommand as e:
            if meant := MEANT.get(e.command_name):
                text = f"No such command '{e.command_name}': {meant}"
                raise click.UsageError(text, ctx=ctx) from None
            # Click looks for similar names among the commands that are imported.
            names = self.list_commands(ctx)
            raise click.NoSuchCommand(e.command_name, possibilities=names, ctx=ctx) from None

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem[Any]]:
        """Complete the name of a command without importing them, or an option."""
        if incomplete.startswith("-"):
            return super().shell_complete(ctx, incomplete)
        return [
            CompletionItem(name, help=text)
            for commands in SECTIONS.values()
            for name, text in commands.items()
            if name.startswith(incomplete)
        ]

    def main(self, *args: Any, **extra: Any) -> Any:
        """Run the program, or complete a command line for the script of a shell."""
        if COMPLETE_VARIABLE in os.environ:
            from cli.shells import register_shells

            register_shells()
        extra.setdefault("complete_var", COMPLETE_VARIABLE)
        try:
            return super().main(*args, **extra)
        except OSError as e:
            if e.errno not in _NO_ROOM:
                raise
            _discard_output()
            print_error(f"error: cannot write: {e.strerror}; make room for it")
            raise SystemExit(int(ExitCode.USAGE)) from e

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read the words before the command; explain an option of a command among them."""
        given = list(args)
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as e:
            if not set(self.list_commands(ctx)).intersection(given):
                raise
            option = make_printable(e.option_name)
            raise click.UsageError(
                f"{option} is in front of the command; write options after it: "
                f"{PROGRAM} COMMAND {option} ...",
                ctx=ctx,
            ) from None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands without importing them."""
        width = max(len(name) for name in self.list_commands(ctx))
        for title, commands in SECTIONS.items():
            with formatter.section(title):
                formatter.write_dl([(f"{name:{width}}", text) for name, text in commands.items()])

    def invoke(self, ctx: click.Context) -> object:
        """Run the command."""
        self.has_started = True
        gc.enable()
        try:
            return super().invoke(ctx)
        except click.exceptions.NoArgsIsHelpError:
            raise  # Its message is the help of the group.
        except click.UsageError as e:
            # The message repeats arguments, which a script may have read from a file or a cluster.
            raise click.UsageError(make_printable(_explain(e)), ctx=e.ctx) from e
        except CliError as e:
            for line in e.lines:
                print_error(f"error: {line}")
            ctx.exit(int(e.exit_code))
        except KeyboardInterrupt:
            # Nothing was started yet that must be stopped.
            ctx.exit(int(ExitCode.INTERRUPTED))


def _explain(error: click.UsageError) -> str:
    """Return the message; explain the option -f of kubectl."""
    text = error.format_message()
    if isinstance(error, click.MissingParameter):
        return " ".join(text.split())  # Click lists choices in several lines.
    if not isinstance(error, click.NoSuchOption) or error.ctx is None:
        return text
    names = {param.human_readable_name for param in error.ctx.command.params}
    if error.option_name in _FILE_OPTIONS and names & {"FILE", "FILE..."}:
        return f"{text} Write the file without it: {error.ctx.command_path} FILE"
    return text


def _discard_output() -> None:
    """Discard the unwritten output: the interpreter would fail to write it again at exit."""
    silence(sys.stdout)


@click.group(
    cls=_Program,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(VERSION, "-V", "--version", message="%(version)s")
def main() -> None:
    """Run gangs of training Pods: on a Kubernetes cluster, or on this machine with --local."""
    from framework.logs import configure_logging

    # The display shows a lost connection; log lines of a watch would damage the display.
    configure_logging(level="error")


if __name__ == "__main__":
    main()

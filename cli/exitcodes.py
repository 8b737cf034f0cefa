"""Exit codes of the command line, and the error that carries one.

docs/cli.md explains the codes to users; a test compares the two.
"""

from enum import IntEnum


class ExitCode(IntEnum):
    """Exit codes of every command."""

    SUCCEEDED = 0
    """Done; for ``run``: every Framework succeeded."""
    FAILED = 1
    """For ``run``: a Framework failed, was stopped or deleted. For ``lint``: something was found.
    For a wait: its condition can never be reached. Else: the requested object does not exist."""
    USAGE = 2
    """Bad usage or input, or a cluster that it does not fit; nothing was applied."""
    UNREACHABLE = 3
    """The API server cannot be reached, does not let us in, or fails."""
    TIMEOUT = 4
    """``--timeout`` passed; ``run`` has stopped the Frameworks."""
    HUNG_UP = 129
    """SIGHUP, the terminal went away; the local cluster ended."""
    INTERRUPTED = 130
    """Ctrl-C; ``run`` has stopped the Frameworks."""
    TERMINATED = 143
    """SIGTERM; ``run`` has stopped the Frameworks."""


class CliError(Exception):
    """Ends the program with a message on standard error."""

    def __init__(self, exit_code: ExitCode, *lines: str) -> None:
        """Build the error.

        Args:
            exit_code: of the program.
            lines: the message, each line with its remedy.
        """
        super().__init__("\n".join(lines))
        self.exit_code = exit_code
        self.lines = lines

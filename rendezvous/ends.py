"""The end of the program before its work is done: exit code, log lines, termination message."""

from typing import Mapping

from framework.agent.exitcodes import ExitCode
from framework.agent.report import LineReporter
from framework.agent.termination import write_termination_message
from framework.api import constants


class EndError(Exception):
    """The program ends with this code, for this reason."""

    def __init__(self, code: ExitCode, reason: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason


def report_end(end: EndError, reporter: LineReporter, env: Mapping[str, str]) -> int:
    """Log the fault, and write the termination message; return the exit code."""
    for line in str(end).split("\n"):  # several bad settings have a line each
        reporter.say(line, "error", reason=end.reason)
    write_end(end, reporter, env)
    return end.code.value


def write_end(end: EndError, reporter: LineReporter, env: Mapping[str, str]) -> None:
    """Log the next step of the controller, and write the termination message."""
    reporter.say(end.code.describe(), "error")
    path = env.get(constants.TERMINATION_LOG_ENV) or constants.TERMINATION_LOG
    fields = {"exitCode": end.code.value, "reason": end.reason, "message": str(end)}
    write_termination_message(path, fields)

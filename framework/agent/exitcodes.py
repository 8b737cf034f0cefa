"""Exit codes of the agents, and how the controller reacts to each.

The controller derives the completion of a failed Pod from the exit codes of its containers. 200,
201 and 210 are predefined codes of the original; every other code is an unknown failure. Rules:
docs/design/agents.md, "Exit codes of agents".
"""

import enum

from framework.api.constants import HUNG_EXIT_CODE


class ExitCode(enum.IntEnum):
    """The exit code of an agent."""

    PASSED = 0
    UNKNOWN = 1
    TRANSIENT = 200
    TRANSIENT_CONFLICT = 201
    HUNG = HUNG_EXIT_CODE
    PERMANENT = 210

    def describe(self) -> str:
        """Describe the code and the next step of the controller: the last line of an agent."""
        name = " (hang)" if self is ExitCode.HUNG else ""
        return f"exit {self.value}{name}: {_CONSEQUENCES[self]}"


_UNKNOWN = "an unknown failure, retried only within maxRetryCount"
_CONSEQUENCES = {
    ExitCode.PASSED: "the kubelet starts the next container of the Pod",
    ExitCode.UNKNOWN: _UNKNOWN,
    ExitCode.TRANSIENT: "transient failure, so the controller retries",
    ExitCode.TRANSIENT_CONFLICT: "transient conflict, so the controller backs off and retries",
    ExitCode.HUNG: _UNKNOWN,
    ExitCode.PERMANENT: "permanent failure, so the controller does not retry",
}

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

    @property
    def consequence(self) -> str:
        """Describe the next step of the controller."""
        return _CONSEQUENCES[self]


_CONSEQUENCES = {
    ExitCode.PASSED: "the kubelet starts the next container of the Pod",
    ExitCode.UNKNOWN: "unknown failure, so the controller retries within maxRetryCount",
    ExitCode.TRANSIENT: "transient failure, so the controller retries",
    ExitCode.TRANSIENT_CONFLICT: "transient conflict, so the controller backs off and retries",
    ExitCode.HUNG: "unknown failure, so the controller retries within maxRetryCount",
    ExitCode.PERMANENT: "permanent failure, so the controller does not retry",
}

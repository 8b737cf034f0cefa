"""The exit codes of the agents, and what the controller makes of each.

The controller matches a failed Pod's container codes; 200, 201 and 210 are predefined
(microsoft/frameworkcontroller ``completion.go``), every other code is an ordinary failure. Rules:
docs/design/agents.md, "Exit codes of agents".
"""

import enum


class ExitCode(enum.IntEnum):
    """What an agent tells the controller by its exit."""

    PASSED = 0
    UNKNOWN = 1
    TRANSIENT = 200
    TRANSIENT_CONFLICT = 201
    PERMANENT = 210

    @property
    def consequence(self) -> str:
        """Say in words what the controller does next."""
        return _CONSEQUENCES[self]


_CONSEQUENCES = {
    ExitCode.PASSED: "the Pod goes on to its next container",
    ExitCode.UNKNOWN: "unknown failure, so the controller retries within maxRetryCount",
    ExitCode.TRANSIENT: "transient failure, so the controller retries",
    ExitCode.TRANSIENT_CONFLICT: "transient conflict, so the controller backs off and retries",
    ExitCode.PERMANENT: "permanent failure, so the controller does not retry",
}

"""Why something is not rendered.

::

    RefusedError            the consumer would misread it; says why and what to do
    +-- NotConcernedError   this Pod's role takes no part in that consumer: no fault
    +-- MembershipError     the roster holds what must not get into any file
    +-- PluginError         a user's renderer is broken
    OptionsError            all bad settings at once (in ``options``)

Raised by the pure part, turned into log lines and exit codes by the programs.
"""


class RefusedError(ValueError):
    """Something cannot be rendered for a consumer without being misread."""

    def __init__(self, reason: str, remedy: str = "") -> None:
        super().__init__(f"{reason}; {remedy}" if remedy else reason)
        self.reason = reason
        self.remedy = remedy


class NotConcernedError(RefusedError):
    """The Pod's own role has no part in this consumer: skipped, also if the user asked for it."""


class MembershipError(RefusedError):
    """A name or an address in the roster is invalid."""


class PluginError(RefusedError):
    """A user's renderer raised, or returned what no renderer may return."""

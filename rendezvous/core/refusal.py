"""The errors of rendering.

::

    RefusedError            the consumer would misread the gang; has the reason and the remedy
    +-- NotConcernedError   the consumer does not concern this Pod's role: not a fault
    +-- MembershipError     the roster has a value that must not get into a file
    +-- PluginError         a user's renderer is broken
    OptionsError            all bad settings at once (in ``option``)

The pure part raises them; the programs turn them into log lines and exit codes.
"""


class RefusedError(ValueError):
    """The consumer would misread the gang."""

    def __init__(self, reason: str, remedy: str = "") -> None:
        super().__init__(f"{reason}; {remedy}" if remedy else reason)
        self.reason = reason
        self.remedy = remedy


class NotConcernedError(RefusedError):
    """The consumer does not concern this Pod's role. Skipped, also if the user asked for it."""


class MembershipError(RefusedError):
    """A name or an address in the roster is invalid."""


class PluginError(RefusedError):
    """A user's renderer raised an error, or returned an invalid value."""

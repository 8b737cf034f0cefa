"""Judges whether a condition of a Framework is reached, or can never be reached. Pure.

A Framework that is Completed does not change any more, so a condition that does not hold then never
will. ``kubectl wait`` goes on until its timeout.
"""

from dataclasses import dataclass
from difflib import get_close_matches

from cli.exitcodes import CliError, ExitCode
from cli.steer.changes import Gang
from cli.steer.effects import Deleted, Goal, Verdict, explain_blocked
from framework.api.types import Condition

# The conditions that this project's controller writes.
_KNOWN = ("Blocked", "Completed", "Failed", "GangReady", "Running", "Succeeded", "Suspended")
_NEAR = 0.6
"""Similarity (0 to 1) from which an unknown name is misspelt, not a condition of another writer."""
_DELETE = "delete"
_PREFIX = "condition="
_TRUE, _FALSE = "True", "False"


@dataclass(frozen=True, slots=True)
class Wanted:
    """A condition with its status, from ``--for``; without a condition, the deletion."""

    condition: str = ""
    status: str = _TRUE

    def build_goal(self, name: str, uid: str) -> Goal:
        """Build the goal for one Framework."""
        return _Condition(name, uid, self) if self.condition else Deleted(name, uid)


def parse_wanted(text: str) -> Wanted:
    """Read ``condition=NAME``, ``condition=NAME=STATUS`` or ``delete``.

    Raises:
        CliError: it has another form, or NAME is a misspelt condition.
    """
    if text.casefold() == _DELETE:
        return Wanted()
    prefix, _, rest = text.partition("=")
    name, _, status = rest.partition("=")
    known = {each.casefold(): each for each in _KNOWN}
    statuses = {each.casefold(): each for each in (_TRUE, _FALSE, "Unknown", "")}
    if prefix.casefold() + "=" != _PREFIX or not name or status.casefold() not in statuses:
        raise CliError(
            ExitCode.USAGE,
            f"--for: {text!r}: write condition=NAME, condition=NAME=false, or delete; the names "
            f"are {', '.join(_KNOWN)}",
        )
    folded = name.casefold()
    near = get_close_matches(folded, known, n=1, cutoff=_NEAR)
    if near and folded not in known:
        raise CliError(
            ExitCode.USAGE,
            f"--for: {text!r}: a Framework has no condition {name!r}; did you mean "
            f"{known[near[0]]}?",
        )
    return Wanted(known.get(folded, name), statuses[status.casefold()] or _TRUE)


@dataclass(frozen=True, slots=True)
class _Condition:
    """A condition with a status."""

    name: str
    uid: str
    wanted: Wanted

    def judge(self, gang: Gang | None) -> Verdict:
        """Judge by the conditions."""
        if gang is None or gang.uid != self.uid:
            return Verdict(failure="was deleted")
        title = f"{self.wanted.condition}={self.wanted.status}"
        found = _find(gang, self.wanted.condition)
        # A condition of an older spec may change for this spec, but the end is final.
        is_valid = gang.is_current or gang.is_completed
        if found is not None and is_valid and found.status == self.wanted.status:
            return Verdict(is_reached=True, text="condition met")
        if gang.is_completed:
            return Verdict(failure=f"has ended ({_explain_end(gang)}): {title} can never come")
        state = "New" if gang.status is None else gang.status.state.value
        return Verdict(text="; ".join([f"is {state}", *explain_blocked(gang)]))


def _find(gang: Gang, type_: str) -> Condition | None:
    conditions = None if gang.status is None else gang.status.conditions
    for condition in conditions or _derive(gang):
        if condition.type == type_:
            return condition
    return None


def _derive(gang: Gang) -> list[Condition]:
    """Derive the end from the state: the Go original writes no conditions."""
    status = gang.status
    if status is None or not gang.is_completed:
        return []
    ended = status.attempt_status.completion_status
    is_succeeded = ended is not None and ended.type.is_succeeded
    return [
        Condition("Completed", _TRUE),
        Condition("Succeeded", _TRUE if is_succeeded else _FALSE),
        Condition("Failed", _FALSE if is_succeeded else _TRUE),
    ]


def _explain_end(gang: Gang) -> str:
    failed = _find(gang, "Failed")
    if failed is None or failed.status != _TRUE or not failed.message:
        return gang.describe_end()
    return f"{failed.reason}: {failed.message}"

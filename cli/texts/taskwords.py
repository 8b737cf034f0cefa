"""Finds the Task that a user means by a word of another form than ROLE/INDEX. Pure."""

import re
from collections.abc import Iterator

from framework.api.naming import TaskKey, parse_pod_name

_RANGE = re.compile(
    r"(?P<role>[a-z0-9]{1,63})([/=:-]|\[|/\[)(?P<first>[0-9]{1,5})(-|\.\.|:)(?P<last>[0-9]{1,5})\]?\Z"
)
_OTHER = re.compile(r"(?P<role>[a-z0-9]{1,63})([-:.=]|/0*|\[)(?P<index>0|[1-9][0-9]{0,4})\]?\Z")
_SHOWN = 4


def suggest_tasks(word: str) -> str:
    """Suggest the arguments ROLE/INDEX that a user meant; "" if no Task can be guessed.

    Args:
        word: as written: ``worker-0``, or ``worker/0-2``.
    """
    return " ".join(_list_tasks(word))


def suggest_pod(word: str) -> tuple[str, TaskKey] | None:
    """Find the Framework and the Task of a word that is the name of a Pod; None if it is not."""
    return parse_pod_name(word.removeprefix("pods/").removeprefix("pod/"))


def _list_tasks(word: str) -> Iterator[str]:
    if found := _RANGE.match(word):
        indexes = range(int(found["first"]), int(found["last"]) + 1)
        yield from (f"{found['role']}/{index}" for index in indexes[:_SHOWN])
        if len(indexes) > _SHOWN:
            yield "..."
    elif found := _OTHER.match(word):
        yield f"{found['role']}/{found['index']}"

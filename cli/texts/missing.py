"""Explains that a Framework, Task or container does not exist, and lists those that do. Pure."""

import shlex
from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from itertools import islice

from cli.texts.kindwords import is_kind_word, is_other_kind
from cli.texts.ranges import list_ranges
from cli.texts.taskwords import suggest_pod, suggest_tasks

_SHOWN = 10
_SHOWN_RANGES = 4
_MAX_DIGITS = 10


def explain_framework(
    name: str, where: str, known: Iterable[str], others: Sequence[str] = ()
) -> str:
    """Explain that there is no such Framework.

    Args:
        name: the word of the user.
        where: the namespace or place, in words.
        known: names of the Frameworks there.
        others: the words of the user after ``name``.
    """
    names = sorted(set(known))
    offer = _offer(names, "check the name and -n")
    return f"no Framework {name!r} {where}: {offer}{_explain_word(name, names, others)}"


def _explain_word(word: str, known: Sequence[str], others: Sequence[str]) -> str:
    """Explain a word that names something else than a Framework; "" if it does not."""
    if is_kind_word(word):
        return "; the kind may be left out, or written as framework/NAME"
    pod = suggest_pod(word)
    if pod is not None and pod[0] in known:
        name, task = pod
        return f"; this is a name of a Pod: write {name}, and for its Task {name} {task}"
    if is_other_kind(word.partition("/")[0]):
        return f"; this is another kind: use `{shlex.join(('kubectl', 'get', word, *others))}`"
    meant = suggest_tasks(word).partition(" ")[0]
    if meant:
        framework = known[0] if len(known) == 1 else "NAME"
        return f"; if it is a Task, write its Framework in front: {framework} {meant}"
    return "; write NAME or framework/NAME" if "/" in word else ""


def explain_task(
    name: str, role: str, index: str | None, known: Mapping[str, Sequence[int]]
) -> str | None:
    """Explain that a Framework has no such role or Task; None if it has.

    Args:
        name: of the Framework.
        role: as the user wrote it.
        index: of the Task, None for all of the role.
        known: the roles, each with the indices of its Tasks.
    """
    if role not in known:
        near = get_close_matches(role, known, n=1)
        meant = f"; did you mean {near[0]}?" if near else ""
        return f"Framework {name} has no role {role!r}: {list_roles(known)}{meant}"
    indices = _sort(known[role])
    if index is None or _is_known(index, indices):
        return None
    return f"Framework {name} has no Task {role}/{index}: {list_roles(known)}"


def list_roles(known: Mapping[str, Sequence[int]]) -> str:
    """List the roles of a Framework with their Tasks: ``its Tasks are ps/0, worker/0-31``."""
    names = [f"{role}{_list_indices(_sort(indices))}" for role, indices in known.items()]
    more = f" and {len(names) - _SHOWN} more roles" if len(names) > _SHOWN else ""
    return f"its Tasks are {', '.join(names[:_SHOWN])}{more}" if names else "it has no roles"


def _list_indices(indices: Sequence[int]) -> str:
    if not indices:
        return " (no Tasks)"
    ranges = list(islice(list_ranges(indices), _SHOWN_RANGES + 1))
    more = ",..." if len(ranges) > _SHOWN_RANGES else ""
    return f"/{','.join(ranges[:_SHOWN_RANGES])}{more}"


def _sort(indices: Sequence[int]) -> Sequence[int]:
    # A range may be too long to be listed: the CRD of the Go original has no bound.
    return indices if isinstance(indices, range) else sorted(set(indices))


def _is_known(index: str, indices: Sequence[int]) -> bool:
    is_number = len(index) <= _MAX_DIGITS and index.isascii() and index.isdecimal()
    return is_number and str(int(index)) == index and int(index) in indices


def explain_container(title: str, container: str, known: Iterable[str]) -> str:
    """Explain that a Task's Pod has no such container."""
    return f"{title} has no container {container!r}: {_offer(list(known), 'it has none')}"


def _offer(known: Sequence[str], otherwise: str) -> str:
    if not known:
        return otherwise
    more = f" and {len(known) - _SHOWN} more" if len(known) > _SHOWN else ""
    verb = "is" if len(known) == 1 else "are"
    return f"there {verb} {', '.join(known[:_SHOWN])}{more}"

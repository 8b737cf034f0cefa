"""Explains that a Framework, Task or container does not exist, and lists those that do. Pure."""

from collections.abc import Iterable, Mapping, Sequence

_SHOWN = 10
_MAX_DIGITS = 10


def explain_framework(name: str, where: str, known: Iterable[str]) -> str:
    """Explain that there is no such Framework."""
    return f"no Framework {name!r} {where}: {_offer(sorted(set(known)), 'check the name and -n')}"


def explain_task(
    name: str, role: str, index: str | None, known: Mapping[str, Sequence[int]]
) -> str | None:
    """Explain that a Framework has no such role or Task; None if it has.

    Args:
        name: of the Framework.
        role: what the user asked for.
        index: of the Task, None for all of the role.
        known: the roles, each with the indices of its Tasks.
    """
    if role not in known:
        return f"Framework {name} has no role {role!r}: {_offer(list(known), 'it has none')}"
    # A range may be too long to be listed: the CRD of the Go original has no bound.
    indices = known[role] if isinstance(known[role], range) else sorted(set(known[role]))
    if index is None or _is_known(index, indices):
        return None
    shown = [f"{role}/{i}" for i in indices[:_SHOWN]]
    remedy = _offer(shown, "the role has none", len(indices))
    return f"Framework {name} has no Task {role}/{index}: {remedy}"


def _is_known(index: str, indices: Sequence[int]) -> bool:
    is_number = len(index) <= _MAX_DIGITS and index.isascii() and index.isdecimal()
    return is_number and str(int(index)) == index and int(index) in indices


def explain_container(title: str, container: str, known: Iterable[str]) -> str:
    """Explain that a Task's Pod has no such container."""
    return f"{title} has no container {container!r}: {_offer(list(known), 'it has none')}"


def _offer(known: Sequence[str], otherwise: str, count: int | None = None) -> str:
    if not known:
        return otherwise
    count = len(known) if count is None else count
    more = f" and {count - _SHOWN} more" if count > _SHOWN else ""
    verb = "is" if count == 1 else "are"
    return f"there {verb} {', '.join(known[:_SHOWN])}{more}"

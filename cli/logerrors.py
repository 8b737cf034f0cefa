"""Explains why there is no log to print, and lists the names that exist. Pure."""

from collections.abc import Iterable, Mapping, Sequence

_SHOWN = 10


def explain_framework(name: str, where: str, known: Iterable[str]) -> str:
    """Say that there is no such Framework."""
    return f"no Framework {name!r} {where}: {_offer(sorted(set(known)), 'check the name and -n')}"


def explain_task(
    name: str, role: str, index: str | None, known: Mapping[str, Sequence[int]]
) -> str | None:
    """Say that a Framework has no such role or Task; None if it has.

    Args:
        name: of the Framework.
        role: what the user asked for.
        index: of the Task, None for all of the role.
        known: the roles, each with the indices of its Tasks.
    """
    if role not in known:
        return f"Framework {name} has no role {role!r}: {_offer(list(known), 'it has none')}"
    indices = [str(i) for i in sorted(set(known[role]))]
    if index is None or index in indices:
        return None
    remedy = _offer([f"{role}/{i}" for i in indices], "the role has none")
    return f"Framework {name} has no Task {role}/{index}: {remedy}"


def explain_container(title: str, container: str, known: Iterable[str]) -> str:
    """Say that a Task's Pod has no such container."""
    return f"{title} has no container {container!r}: {_offer(list(known), 'it has none')}"


def _offer(known: Sequence[str], otherwise: str) -> str:
    if not known:
        return otherwise
    more = f" and {len(known) - _SHOWN} more" if len(known) > _SHOWN else ""
    return f"there is {', '.join(known[:_SHOWN])}{more}"

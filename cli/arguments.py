"""Arguments and options that name objects of a cluster, with the completion of live names.

A shell asks for names through the ``shell_complete`` of an argument. What reads them from the
cluster (``cli.start.livenames``) is imported only then.
"""

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import click

from cli.options import read_choice

KIND_PREFIX = "framework/"
"""A Framework may be written as NAME or, as in kubectl, as framework/NAME."""
_Decorated = TypeVar("_Decorated", bound=Callable[..., Any])
_Decorator = Callable[[_Decorated], _Decorated]


def framework_argument(param: str = "name", **attributes: Any) -> _Decorator[Any]:
    """Add an argument for the name of a Framework; the shell completes it.

    Args:
        param: name of the parameter. ``task_argument`` and ``container_option`` read "name".
        attributes: those of ``click.argument``, for example ``nargs`` and ``required``.
    """
    attributes.setdefault("metavar", param.upper())
    return click.argument(param, shell_complete=complete_frameworks, **attributes)


def task_argument(param: str = "task", **attributes: Any) -> _Decorator[Any]:
    """Add an argument ROLE/INDEX, after one that ``framework_argument`` added as "name"."""
    attributes.setdefault("metavar", "ROLE/INDEX")
    return click.argument(param, shell_complete=complete_tasks, **attributes)


def role_or_task_argument(param: str = "task", **attributes: Any) -> _Decorator[Any]:
    """Add an argument ROLE or ROLE/INDEX, after one that ``framework_argument`` added as "name"."""
    attributes.setdefault("metavar", "ROLE[/INDEX]")
    return click.argument(param, shell_complete=complete_roles_and_tasks, **attributes)


def role_argument(param: str = "role", **attributes: Any) -> _Decorator[Any]:
    """Add an argument ROLE, after one that ``framework_argument`` added as "name"."""
    attributes.setdefault("metavar", "ROLE")
    return click.argument(param, shell_complete=complete_roles, **attributes)


def container_option(help_text: str = "Container; else the first of the Pod.") -> _Decorator[Any]:
    """Add ``-c/--container`` to a command with the argument "name"."""
    return click.option(
        "-c", "--container", metavar="NAME", help=help_text, shell_complete=complete_containers
    )


def complete_frameworks(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """Complete the name of a Framework, with or without ``framework/``."""
    from cli.start.livenames import list_frameworks

    prefix = KIND_PREFIX if incomplete.startswith(KIND_PREFIX) else ""
    given = ctx.params.get(param.name or "")
    known = frozenset(given) if isinstance(given, tuple) else frozenset()
    names = (prefix + name for name in list_frameworks(read_choice(ctx)))
    return _offer((name for name in names if name not in known), incomplete)


def complete_tasks(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    """Complete ROLE/INDEX of the Framework in the command line."""
    return _offer(_list_tasks(ctx), incomplete)


def complete_roles(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    """Complete ROLE of the Framework in the command line."""
    return _offer(_read_roles(ctx), incomplete)


def complete_roles_and_tasks(
    ctx: click.Context, _param: click.Parameter, incomplete: str
) -> list[str]:
    """Complete ROLE, or ROLE/INDEX after the slash, of the Framework in the command line."""
    roles = _read_roles(ctx)
    if "/" not in incomplete and len(_offer(roles, incomplete)) > 1:
        return _offer(roles, incomplete)
    return _offer([*roles, *_list_tasks(ctx)], incomplete)


def complete_containers(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    """Complete a container of the Task in the command line, or of all Tasks."""
    task = ctx.params.get("task")
    wanted = task.partition("/")[0] if isinstance(task, str) else None
    found = (names for role, (_, names) in _read_roles(ctx).items() if wanted in {None, role})
    return _offer(dict.fromkeys(name for names in found for name in names), incomplete)


def _list_tasks(ctx: click.Context) -> list[str]:
    roles = _read_roles(ctx)
    return [f"{role}/{index}" for role, (indices, _) in roles.items() for index in indices]


def _read_roles(ctx: click.Context) -> dict[str, tuple[list[int], list[str]]]:
    from cli.start.livenames import read_roles

    name = ctx.params.get("name")
    if not isinstance(name, str):
        return {}
    return read_roles(read_choice(ctx), name.removeprefix(KIND_PREFIX))


def _offer(names: Iterable[str], incomplete: str) -> list[str]:
    return [name for name in names if name.startswith(incomplete)]

"""Arguments and options that name objects of a cluster, with the completion of live names.

A shell asks for names through the ``shell_complete`` of an argument. ``cli.start.livenames``, which
reads them from the cluster, is imported only then.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

import click

from cli.exitcodes import CliError, ExitCode
from cli.options import read_choice
from cli.texts.kindwords import NAME_BY_KIND, describe_no_name, is_kind_word, strip_kind

_Decorated = TypeVar("_Decorated", bound=Callable[..., Any])
_Decorator = Callable[[_Decorated], _Decorated]
# No object has these names, and a URL path with one of them means another object.
_NO_NAMES = frozenset({"", ".", ".."})


class FrameworkCommand(click.Command):
    """A command with the argument NAME, which leaves out a word for the kind in front of it.

    Users of kubectl write ``describe framework gang``. The first word is left out if it names the
    kind, and it cannot be the name:

    - there is one word too many, as in this example, or
    - the next word cannot be a Task or a size, because it has neither "/" nor "=", as "gang" in
      ``exec framework gang worker/0``.

    If both readings are possible, the first word is the name. Commands that take several names
    find out by a request (``cli.frameworks.drop_kind``).
    """

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read the command line, without a word for the kind."""
        if ctx.resilient_parsing:
            return super().parse_args(ctx, args)
        try:
            return super().parse_args(ctx, self._drop_kind(ctx, list(args)))
        except click.MissingParameter as e:
            raise self._explain_pod(ctx, args, e) from None

    def _explain_pod(
        self, ctx: click.Context, args: list[str], error: click.MissingParameter
    ) -> click.UsageError:
        """Explain that the user wrote the name of a Pod instead of NAME ROLE/INDEX, if so."""
        from cli.texts.taskwords import suggest_pod

        read = self._read(ctx, args)
        name = None if read is None else read[0].get("name")
        pod = suggest_pod(name) if isinstance(name, str) else None
        if pod is None:
            return error
        text = (
            f"if {name!r} is a name of a Pod, write NAME ROLE/INDEX in its place: {pod[0]} {pod[1]}"
        )
        return click.UsageError(f"{error.format_message()} {text}", ctx=ctx)

    def _drop_kind(self, ctx: click.Context, args: list[str]) -> list[str]:
        name, *others = (param for param in self.params if isinstance(param, click.Argument))
        read = self._read(ctx, args)
        if read is None:
            return args
        values, rest = read
        word = values.get(name.name or "")
        if not is_kind_word(word) or not (rest or _is_name_next(others, values)):
            return args
        options = [p.name for p in self.params if not isinstance(p, click.Argument)]
        # The same word may also be the value of an option, so no option may change.
        for index in (index for index, each in enumerate(args) if each == word):
            shorter = [*args[:index], *args[index + 1 :]]
            again = self._read(ctx, shorter)
            if again and all(again[0].get(key) == values.get(key) for key in options if key):
                return shorter
        return args

    def _read(self, ctx: click.Context, args: list[str]) -> tuple[dict[str, Any], list[str]] | None:
        """Split a command line; None if it is not valid."""
        try:
            values, rest, _ = self.make_parser(ctx).parse_args(list(args))
        except click.UsageError:
            return None
        return dict(values), rest


def _is_name_next(others: Sequence[click.Argument], values: Mapping[str, Any]) -> bool:
    """Return whether the second argument is required, and its value can only be a name."""
    if not others or str(others[0].metavar).startswith("["):
        return False
    value = values.get(others[0].name or "")
    first = value[0] if isinstance(value, tuple) and value else value
    return isinstance(first, str) and not {"/", "="}.intersection(first)


def framework_argument(param: str = "name", **attributes: Any) -> _Decorator[Any]:
    """Add an argument for the name of a Framework; the shell completes it.

    The command gets the name without ``framework/``, which the user may write as in kubectl.

    Args:
        param: name of the parameter. ``task_argument`` and ``container_option`` read "name".
        attributes: those of ``click.argument``, for example ``nargs`` and ``required``.
    """
    attributes.setdefault("metavar", param.upper())
    return click.argument(
        param, shell_complete=complete_frameworks, callback=_strip_kind, **attributes
    )


def task_argument(param: str = "task", **attributes: Any) -> _Decorator[Any]:
    """Add an argument ROLE/INDEX, after one that ``framework_argument`` added as "name"."""
    attributes.setdefault("metavar", "ROLE/INDEX")
    return click.argument(param, shell_complete=complete_tasks, **attributes)


def role_or_task_argument(param: str = "task", **attributes: Any) -> _Decorator[Any]:
    """Add an argument ROLE or ROLE/INDEX, after one that ``framework_argument`` added as "name"."""
    attributes.setdefault("metavar", "ROLE[/INDEX]")
    return click.argument(param, shell_complete=complete_roles_and_tasks, **attributes)


def size_argument(param: str = "sizes", **attributes: Any) -> _Decorator[Any]:
    """Add an argument ROLE=N, after one that ``framework_argument`` added as "name"."""
    attributes.setdefault("metavar", "ROLE=N")
    return click.argument(param, shell_complete=complete_sizes, **attributes)


def container_option(help_text: str = "Container; else the first of the Pod.") -> _Decorator[Any]:
    """Add ``-c/--container`` to a command with the argument "name"."""
    return click.option(
        "-c", "--container", metavar="NAME", help=help_text, shell_complete=complete_containers
    )


def _strip_kind(ctx: click.Context, param: click.Parameter, value: Any) -> Any:
    """Turn framework/NAME into NAME, in one value or in several.

    Raises:
        CliError: no object can have this name, so no path of the API server has it.
    """
    if value is None:
        return None
    if isinstance(value, tuple):
        return tuple(_strip_kind(ctx, param, each) for each in value)
    name = strip_kind(value)
    if name in _NO_NAMES and not ctx.resilient_parsing:
        raise CliError(ExitCode.USAGE, describe_no_name(name))
    return name


def complete_frameworks(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """Complete the name of a Framework, with or without ``framework/``."""
    from cli.start.livenames import list_frameworks

    prefix = NAME_BY_KIND if incomplete.startswith(NAME_BY_KIND) else ""
    given = _read_params(ctx).get(param.name or "")
    known = frozenset(given) if isinstance(given, tuple) else frozenset()
    names = (name for name in list_frameworks(read_choice(ctx)) if name not in known)
    return _offer((prefix + name for name in names), incomplete)


def complete_tasks(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    """Complete ROLE/INDEX of the Framework in the command line."""
    return _offer(_list_tasks(ctx), incomplete)


def complete_sizes(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    """Complete ``ROLE=`` of the Framework in the command line; the user types the number."""
    return _offer(
        [] if "=" in incomplete else [f"{role}=" for role in _read_roles(ctx)], incomplete
    )


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
    task = _read_params(ctx).get("task")
    wanted = task.partition("/")[0] if isinstance(task, str) else None
    found = (names for role, (_, names) in _read_roles(ctx).items() if wanted in {None, role})
    return _offer(dict.fromkeys(name for names in found for name in names), incomplete)


def _list_tasks(ctx: click.Context) -> list[str]:
    roles = _read_roles(ctx)
    return [f"{role}/{index}" for role, (indices, _) in roles.items() for index in indices]


def _read_roles(ctx: click.Context) -> dict[str, tuple[list[int], list[str]]]:
    from cli.start.livenames import read_roles

    name = _read_params(ctx).get("name")
    if not isinstance(name, str):
        return {}
    return read_roles(read_choice(ctx), name)


def _read_params(ctx: click.Context) -> dict[str, Any]:
    """Read the parameters of the command line before the word that is being completed.

    If the last word is an option that lacks its value, click drops all arguments. Then the words,
    which ``cli.shells`` leaves in the root context, are parsed again with a value.
    """
    words = ctx.find_root().obj
    if not isinstance(words, list) or ctx.info_name not in words:
        return ctx.params
    rest = [*words[words.index(ctx.info_name) + 1 :], ""]
    again = ctx.command.make_context(
        ctx.info_name, rest, parent=ctx.parent, resilient_parsing=True, allow_extra_args=True
    )
    return {**again.params, **{key: value for key, value in ctx.params.items() if value}}


def _offer(names: Iterable[str], incomplete: str) -> list[str]:
    return [name for name in names if name.startswith(incomplete)]

"""Reads the arguments of users: names of Frameworks, Tasks, and sizes of roles. Pure."""

from collections.abc import Iterable, Mapping, Sequence

from cli.exitcodes import CliError, ExitCode
from cli.texts.kindwords import describe_no_name, is_kind_word
from cli.texts.taskwords import suggest_tasks
from framework.api import constants
from framework.api.naming import TaskKey, is_framework_name, is_role_name

_SHOWN_ROLES = 10
# A number with more digits exceeds every limit.
_MAX_DIGITS = 9


def title(name: str) -> str:
    """Name a Framework as kubectl does."""
    return f"framework.{constants.GROUP}/{name}"


def parse_names(words: Iterable[str]) -> list[str]:
    """Read NAME or framework/NAME; a repeated name is read once.

    The first one may be a word for the kind (``cli.frameworks.drop_kind``).

    Raises:
        CliError: a word is not the name of a Framework.
    """
    return list(dict.fromkeys(_parse_name(word) for word in words))


def _parse_name(word: str) -> str:
    kind, slash, name = word.rpartition("/")
    if not slash and is_kind_word(word):
        return word.casefold()
    if slash and not is_kind_word(kind):
        raise _refuse(f"{word!r} is not a Framework: write NAME or framework/NAME")
    if not is_framework_name(name):
        raise _refuse(describe_no_name(name))
    return name


class SizeError(CliError):
    """A word of ``scale`` has no role, or no number of Tasks."""


def parse_sizes(words: Sequence[str], *, is_required: bool = True) -> dict[str, int]:
    """Read ROLE=N.

    Raises:
        SizeError: a word has another form, or there is none although one is required.
        CliError: a role is named twice.
    """
    form = "write ROLE=N with a number of Tasks, for example worker=8"
    if is_required and not words:
        raise SizeError(ExitCode.USAGE, f"names no role: {form}")
    sizes: dict[str, int] = {}
    for word in words:
        role, equals, number = word.partition("=")
        if not role or not equals or not _is_number(number):
            raise SizeError(ExitCode.USAGE, f"{word!r}: {form}")
        if role in sizes:
            raise _refuse(f"{word!r}: the role {role!r} is named twice; name it once")
        sizes[role] = int(number)
    return sizes


def suggest_size(words: Sequence[str], roles: Mapping[str, int]) -> tuple[str, str]:
    """Suggest the ROLE=N that a user meant with words of another form.

    Args:
        words: as written: ``worker 3``, or ``3``.
        roles: the roles of the Framework with their numbers of Tasks.

    Returns:
        ROLE=N, and a note to append if the user must choose a role; "" if not.
    """
    parts = [part for word in words for part in word.replace("=", " ").split()]
    numbers = [part for part in parts if _is_number(part)]
    named = [part for part in parts if part in roles]
    size = numbers[0] if len(numbers) == 1 else "N"
    candidates = named or list(roles)
    if len(candidates) == 1:
        return f"{candidates[0]}={size}", ""
    shown = [f"{name} ({count})" for name, count in roles.items()][:_SHOWN_ROLES]
    more = f" and {len(roles) - _SHOWN_ROLES} more" if len(roles) > _SHOWN_ROLES else ""
    note = f"; its roles are {', '.join(shown)}{more}" if roles else "; it has no roles"
    return f"ROLE={size}", note


def parse_tasks(words: Iterable[str]) -> list[TaskKey]:
    """Read ROLE/INDEX; a repeated Task is read once.

    Raises:
        CliError: a word has another form.
    """
    tasks = []
    for word in words:
        role, slash, index = word.partition("/")
        if not role or not slash or not _is_number(index):
            raise _refuse(_explain_task(word))
        tasks.append(TaskKey(role, int(index)))
    return list(dict.fromkeys(tasks))


def _explain_task(word: str) -> str:
    meant = suggest_tasks(word)
    if " " in meant:
        return f"{word!r}: name each Task as ROLE/INDEX: {meant}"
    if meant:
        return f"{word!r}: write ROLE/INDEX: {meant}"
    if is_role_name(word):
        return f"{word!r}: name each Task of the role as ROLE/INDEX: {word}/0 {word}/1 ..."
    return f"{word!r}: write ROLE/INDEX, for example worker/3"


def _is_number(text: str) -> bool:
    is_decimal = text.isascii() and text.isdecimal() and len(text) <= _MAX_DIGITS
    return is_decimal and str(int(text)) == text


def _refuse(message: str) -> CliError:
    return CliError(ExitCode.USAGE, message)

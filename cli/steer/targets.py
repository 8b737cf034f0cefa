"""Reads the arguments of users: names of Frameworks, Tasks, and sizes of roles. Pure."""

from collections.abc import Iterable

from cli.exitcodes import CliError, ExitCode
from framework.api import constants
from framework.api.naming import TaskKey, is_framework_name

_KINDS = frozenset(
    {
        "framework",
        "fw",
        constants.FRAMEWORK_PLURAL,
        constants.FRAMEWORK_CRD_NAME,
        f"framework.{constants.GROUP}",
    }
)
# More digits are more than any limit.
_MAX_DIGITS = 9


def title(name: str) -> str:
    """Name a Framework as kubectl does."""
    return f"framework.{constants.GROUP}/{name}"


def parse_names(words: Iterable[str]) -> list[str]:
    """Read NAME or framework/NAME; a name that is there twice is read once.

    Raises:
        CliError: a word is not the name of a Framework.
    """
    return list(dict.fromkeys(_parse_name(word) for word in words))


def _parse_name(word: str) -> str:
    kind, slash, name = word.rpartition("/")
    if slash and kind.casefold() not in _KINDS:
        raise _refuse(f"{word!r} is not a Framework: write NAME or framework/NAME")
    if not is_framework_name(name):
        raise _refuse(
            f"{name!r} is not a name of a Framework: use 1 to 63 characters of a-z, 0-9 and '-'"
        )
    return name


def parse_sizes(words: Iterable[str]) -> dict[str, int]:
    """Read ROLE=N.

    Raises:
        CliError: a word has another form, or names a role again.
    """
    sizes: dict[str, int] = {}
    for word in words:
        role, equals, number = word.partition("=")
        if not role or not equals or not _is_number(number):
            raise _refuse(f"{word!r}: write ROLE=N with a number of Tasks, for example worker=8")
        if role in sizes:
            raise _refuse(f"{word!r}: the role {role!r} is named twice; name it once")
        sizes[role] = int(number)
    return sizes


def parse_tasks(words: Iterable[str]) -> list[TaskKey]:
    """Read ROLE/INDEX; a Task that is there twice is read once.

    Raises:
        CliError: a word has another form.
    """
    tasks = []
    for word in words:
        role, slash, index = word.partition("/")
        if not role or not slash or not _is_number(index):
            raise _refuse(f"{word!r}: write ROLE/INDEX, for example worker/3")
        tasks.append(TaskKey(role, int(index)))
    return list(dict.fromkeys(tasks))


def _is_number(text: str) -> bool:
    is_decimal = text.isascii() and text.isdecimal() and len(text) <= _MAX_DIGITS
    return is_decimal and str(int(text)) == text


def _refuse(message: str) -> CliError:
    return CliError(ExitCode.USAGE, message)

"""Checks of the values of a stored roster and readiness, which another program may have written.

Written for Python 3.7 (agents' zipapp).
"""

from typing import Any, List, Type, TypeVar

T = TypeVar("T")

# Raised by decoding if the JSON has another form.
MALFORMED = (
    ValueError,
    KeyError,
    TypeError,
    AttributeError,
    OverflowError,
)
# Names of objects are at most 253 characters long; an attempt's and a UID's text is shorter.
_MAX_WORD_LENGTH = 300
_MAX_INT = 2**63 - 1


class RosterError(ValueError):
    """The stored value is not a roster of a known version, or not a valid readiness."""


def read_typed(value: Any, kind: Type[T]) -> T:
    """Return ``value`` if it has exactly that type; true is not a number."""
    if type(value) is not kind:
        raise RosterError(f"{_show(value)} is not of type {kind.__name__}")
    return value


def _show(value: Any) -> str:
    """Describe an invalid value; an array or an object by its type only."""
    is_short = value is None or isinstance(value, (bool, int, float, str))
    return f"{value!r:.40}" if is_short else f"a {type(value).__name__}"


def read_count(value: Any) -> int:
    """Return a number that is not negative: an index, an attempt, a generation, a count."""
    number = read_typed(value, int)
    if not 0 <= number <= _MAX_INT:
        raise RosterError(f"{number} is not a count")
    return number


def read_word(value: Any) -> str:
    """Return a name, an address or an identity: short, and of printable ASCII."""
    text = read_typed(value, str)
    if len(text) > _MAX_WORD_LENGTH or not (text.isascii() and text.isprintable()):
        raise RosterError(f"{text!r:.40} is not a valid name")
    return text


def read_words(value: Any) -> List[str]:
    """Return an array of such texts."""
    return [read_word(text) for text in read_typed(value, list)]

"""The words by which a user names the kind Framework, as kubectl takes them. Pure."""

from framework.api import constants

_SINGULAR = constants.FRAMEWORK_KIND.lower()
_KIND_WORDS = frozenset(
    {
        _SINGULAR,
        "fw",
        constants.FRAMEWORK_PLURAL,
        constants.FRAMEWORK_CRD_NAME,
        f"{_SINGULAR}.{constants.GROUP}",
    }
)
NAME_BY_KIND = f"{_SINGULAR}/"
"""What a user may write in front of a name."""


def is_kind_word(word: object) -> bool:
    """Return whether a word names the kind; a Framework may have the same name."""
    return isinstance(word, str) and word.casefold() in _KIND_WORDS


def strip_kind(word: str) -> str:
    """Turn framework/NAME into NAME; another word stays as it is."""
    kind, slash, name = word.rpartition("/")
    return name if slash and is_kind_word(kind) else word

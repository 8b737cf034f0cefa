"""The words by which a user names the kind Framework, as kubectl takes them. Pure."""

from framework.api import constants
from framework.kube.resources import Resource

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
# The singular forms.
_OTHER_KINDS = frozenset(
    {
        *("all", "po", "pod", "cm", "configmap", "job", "deploy", "deployment", "svc", "service"),
        *("no", "node", "ns", "namespace", "pvc", "secret"),
        *("tfjob", "trainingjob", "scalein", "scaleout"),
    }
)
NAME_BY_KIND = f"{_SINGULAR}/"
"""A prefix that a user may write in front of a name."""


def is_kind_word(word: object) -> bool:
    """Return whether a word names the kind. It may also be the name of a Framework."""
    return isinstance(word, str) and word.casefold() in _KIND_WORDS


def is_other_kind(word: str) -> bool:
    """Return whether a word names another kind, which kubectl reads."""
    lower = word.casefold()
    return lower in _OTHER_KINDS or lower.removesuffix("s") in _OTHER_KINDS


def is_word_for(word: str, resource: Resource) -> bool:
    """Return whether a word names a kind, as kubectl takes it: ``tfjobs``, ``tfjob.mlkube.io``."""
    names = (resource.kind.lower(), resource.plural)
    words = (each for name in names for each in (name, f"{name}.{resource.group}"))
    return word.casefold() in words


def describe_no_name(word: str) -> str:
    """Explain that a word cannot be the name of a Framework."""
    text = f"{word!r} is not a name of a Framework: use 1 to 63 characters of a-z, 0-9 and '-'"
    return f"{text}; write the Framework in front of it: NAME {word}" if "=" in word else text


def strip_kind(word: str) -> str:
    """Turn framework/NAME into NAME; another word stays as it is."""
    kind, slash, name = word.rpartition("/")
    return name if slash and is_kind_word(kind) else word

"""Quotes text for the lines of a shell or of a dotenv file. Pure."""

import re

from rendezvous.core.refusal import RefusedError
from rendezvous.settings.values import is_printable

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_FILE_NAME = re.compile(r"[A-Za-z0-9._-]{1,100}\Z")
# Text that needs no quotes in any reader.
_PLAIN = re.compile(r"[A-Za-z0-9_@%+:,./-]*\Z")


def is_file_name(name: str) -> bool:
    """Return whether this is the plain name of a file, so that it cannot leave its directory."""
    return _FILE_NAME.match(name) is not None and name not in {".", ".."}


def check_value(name: str, value: str) -> None:
    """Check that a variable can be written on one line.

    Raises:
        RefusedError: The name is invalid, or the value would not stay on its line.
    """
    if not _VARIABLE.match(name):
        raise RefusedError(
            f"{name!r:.80} is not the name of a variable", "use letters, digits and _"
        )
    if not is_printable(value):
        raise RefusedError(
            f"the value of {name} holds a line end or another control character",
            "render it into a file",
        )


def quote_dotenv(name: str, value: str) -> str:
    """Quote a value so that every reader of dotenv files, and a shell, sees the same text.

    Raises:
        RefusedError: The readers differ: about quotes and backslashes within single quotes, and
            about ``${``, which some expand even there.
    """
    if _PLAIN.match(value):
        return value
    if "'" in value or "\\" in value or "${" in value:
        raise RefusedError(
            f"readers of .env files disagree about the value of {name} (it holds a single quote, "
            "a backslash or ${)",
            "take it from env.sh",
        )
    return f"'{value}'"

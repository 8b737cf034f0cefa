"""Untrusted text: escaping, cutting, and hiding of values that may be secrets. Pure.

Every program uses it before it logs, prints or stores text of a cluster, a container or a file.
Each function takes linear time. Python 3.7 syntax, because the zipapp of the agents contains this
file.
"""

import re
from typing import Iterable, List, Match, Optional

HIDDEN = "[hidden]"
"""Stands for a value that was taken out of a message."""

_MIN_SECRET_LENGTH = 8
_SPACES = frozenset("\u00a0\u1680\u202f\u205f\u3000" + "".join(map(chr, range(0x2000, 0x200B))))
# Printable by their category, but invisible: fillers, joiners and variation selectors. The
# selectors U+FE0E and U+FE0F are allowed: they choose between text and emoji.
_INVISIBLE = frozenset(
    "\u034f\u115f\u1160\u17b4\u17b5\u180b\u180c\u180d\u180f\u3164\uffa0"
    + "".join(map(chr, [*range(0xFE00, 0xFE0E), *range(0xE0100, 0xE01F0)]))
)
# Text before a quoted value in a field error of Kubernetes.
_VALUE_MARK = re.compile(
    r"(?:Invalid|Unsupported|Duplicate) value: |Not found: |Too (?:many|long|few): "
    r"|parsing (?:time )?(?=[\"`])"
)
# A value begins with a quote, a bracket, a number or a constant; or it is a composite of Go, such
# as ``core.Container{...}``. Anything else is the explanation of an error without a value.
_VALUE_START = re.compile(
    r"[\"`{\[(&*+\-0-9]|(?:true|false|null|nil)\b|[A-Za-z_][\w.*\[\]]{0,200} ?[{(]"
)
_VALUE_PART = re.compile(r"[\"`{}\[\]()]|: |, ")
_STRING_ENDS = {'"': re.compile(r'\\.|"', re.DOTALL), "`": re.compile("`")}
# JSON types in errors of the API server about a wrong type.
_TYPE_NAMES = frozenset(
    f'"{name}"' for name in ("array", "boolean", "integer", "null", "number", "object", "string")
)
_NAME_END = ".name: "
# Text of errors about the key of a label or annotation.
_KEY_RULES = (": name part must", ": prefix part must")
_MAX_NAME_LENGTH = 255
# Old API servers quote the text around an invalid value of a body.
_CONTEXT_MARK = ", error found in #"
_HOST = re.compile(r"(?:[A-Za-z0-9._%-]{1,300}|\[[A-Za-z0-9:.%]{1,100}\])(?::[0-9]{0,5})?\Z")


def is_printable(text: str) -> bool:
    """Return whether every character of a text is visible and none controls a terminal."""
    if text.isascii():
        return text.isprintable()
    return all(map(_is_shown, set(text)))


def make_printable(text: str, keep: str = "") -> str:
    r"""Escape each character that a terminal obeys or hides, for example ESC as ``\x1b``.

    These are control characters, lone surrogates, unassigned and private characters, and those
    that are invisible or change the direction of text.

    Args:
        text: the text to print.
        keep: characters that are not escaped, for example a line end.
    """
    if is_printable(text):
        return text
    escaped = (c for c in set(text) if not _is_shown(c) and c not in keep)
    return text.translate({ord(c): c.encode("unicode_escape").decode() for c in escaped})


def cut_text(text: str, limit_bytes: int) -> str:
    """Cut a text to a number of bytes of UTF-8; a mark at its end shows the cut."""
    if len(text) * 4 <= limit_bytes:
        return text
    encoded = text[: limit_bytes + 1].encode("utf-8", "surrogatepass")
    if len(encoded) <= limit_bytes:
        return text
    mark = f"...(cut, {len(text)} characters)"
    return encoded[: max(0, limit_bytes - len(mark))].decode("utf-8", "ignore") + mark


def describe_server(address: str) -> str:
    """Describe a server in a message by scheme, host and port; ``/...`` replaces a path.

    Path, query and user may be secrets: the kubeconfig of a local cluster has its token in the
    path.
    """
    scheme, found, rest = address.partition("://")
    if not found:
        scheme, rest = "", address
    end = min((i for i in map(rest.find, "/?#") if i >= 0), default=len(rest))
    authority, path = rest[:end], rest[end:]
    host = authority.rpartition("@")[2]
    # With a later @, the authority may be the first part of a password.
    if "@" in path or not _HOST.match(host) or (found and not scheme.isalnum()):
        return HIDDEN
    return f"{scheme}{found}{host}" + ("/..." if path.strip("/") else "")


def hide_secrets(body: bytes, secrets: Iterable[str]) -> bytes:
    """Replace a token or a path in the body of an error: servers repeat the path of a request.

    Args:
        body: the body.
        secrets: texts to hide; short ones are ignored, because ordinary words contain them.
    """
    for secret in secrets:
        if len(secret) >= _MIN_SECRET_LENGTH:
            body = body.replace(secret.encode(), HIDDEN.encode())
    return body


def hide_values(message: str, field: str = "") -> str:
    """Replace quoted values in a message of an API server; field, reason and rule stay.

    The invalid field of a refused Pod may contain a secret, and the message goes into the status,
    Events and logs. The value of a field ``name`` and the key of a label or annotation stay: they
    are names.

    Args:
        message: of a Status object, or of one of its causes.
        field: the field of the cause, which is not in its message.
    """
    message = message.partition(_CONTEXT_MARK)[0]
    parts: List[str] = []
    position = 0
    found: Optional[Match[str]] = _VALUE_MARK.search(message)
    while found is not None:
        start = found.end()
        parts.append(message[position:start])
        position = _find_value_end(message, start)
        if position > start:
            value = message[start:position]
            place = message[max(0, found.start() - len(_NAME_END)) : found.start()] or f"{field}: "
            is_name = place.endswith(_NAME_END) or message.startswith(_KEY_RULES, position)
            is_shown = (is_name and len(value) <= _MAX_NAME_LENGTH) or value in _TYPE_NAMES
            parts.append(value if is_shown else HIDDEN)
        found = _VALUE_MARK.search(message, position)
    return "".join(parts) + message[position:] if parts else message


def _find_value_end(message: str, start: int) -> int:
    """Find the end of the value at ``start``; ``start`` if there is no value."""
    if not _VALUE_START.match(message, start):
        return start
    depth = 0
    position = start
    while True:
        part = _VALUE_PART.search(message, position)
        if part is None:
            return len(message)
        sign, position = part.group(), part.end()
        if sign in _STRING_ENDS:
            position = _find_string_end(message, sign, position)
        elif sign in "{[(":
            depth += 1
        elif sign in "}])":
            depth -= 1
            if depth < 0:
                return part.start()
        elif depth == 0:
            return part.start()


def _find_string_end(message: str, quote: str, start: int) -> int:
    for part in _STRING_ENDS[quote].finditer(message, start):
        if part.group() == quote:
            return part.end()
    return len(message)


def _is_shown(character: str) -> bool:
    if character.isprintable():
        return character not in _INVISIBLE
    return character in _SPACES


def quote_shell(text: str) -> str:
    """Quote for any POSIX shell: nothing within is expanded or ends the word."""
    return "'" + text.replace("'", "'\\''") + "'"

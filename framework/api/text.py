"""Text that came from elsewhere: made printable, cut, and freed of values that may be secrets.

Called by every program before it logs, prints or stores what a cluster, a container or a file said.
Pure; written for Python 3.7, because the agents' zipapp carries this file. Each function takes time
in proportion to the text.
"""

import re
from typing import Iterable, List, Match, Optional

HIDDEN = "[hidden]"
"""Stands for a value that was taken out of a message."""

_MIN_SECRET_LENGTH = 8
_SPACES = frozenset("\u00a0\u1680\u202f\u205f\u3000" + "".join(map(chr, range(0x2000, 0x200B))))
# Printable by their category, and yet invisible: fillers, joiners and variation selectors. Two
# selectors are left out, U+FE0E and U+FE0F: they choose between text and emoji.
_INVISIBLE = frozenset(
    "\u034f\u115f\u1160\u17b4\u17b5\u180b\u180c\u180d\u180f\u3164\uffa0"
    + "".join(map(chr, [*range(0xFE00, 0xFE0E), *range(0xE0100, 0xE01F0)]))
)
# What a field error of Kubernetes puts before the value that it quotes.
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
# JSON types, which the API server writes where a value of another type is wanted.
_TYPE_NAMES = frozenset(
    f'"{name}"' for name in ("array", "boolean", "integer", "null", "number", "object", "string")
)
_NAME_END = ".name: "
# What is said of the key of a label or annotation only.
_KEY_RULES = (": name part must", ": prefix part must")
_MAX_NAME_LENGTH = 255
# Old API servers quote what stands round a faulty value of a body.
_CONTEXT_MARK = ", error found in #"
_HOST = re.compile(r"(?:[A-Za-z0-9._%-]{1,300}|\[[A-Za-z0-9:.%]{1,100}\])(?::[0-9]{0,5})?\Z")


def is_printable(text: str) -> bool:
    """Return whether a terminal shows every character of a text, and obeys none."""
    if text.isascii():
        return text.isprintable()
    return all(map(_is_shown, set(text)))


def make_printable(text: str, keep: str = "") -> str:
    r"""Escape each character that a terminal obeys or hides, for example ESC as ``\x1b``.

    These are control characters, lone surrogates, unassigned and private characters, and those
    that are invisible or change the direction of text.

    Args:
        text: what is to be printed.
        keep: characters to leave as they are, for example a line end.
    """
    if is_printable(text):
        return text
    escaped = (c for c in set(text) if not _is_shown(c) and c not in keep)
    return text.translate({ord(c): c.encode("unicode_escape").decode() for c in escaped})


def cut_text(text: str, limit_bytes: int) -> str:
    """Cut a text to a number of bytes of UTF-8, with a mark at its end that says so."""
    if len(text) * 4 <= limit_bytes:
        return text
    encoded = text[: limit_bytes + 1].encode("utf-8", "surrogatepass")
    if len(encoded) <= limit_bytes:
        return text
    mark = f"...(cut, {len(text)} characters)"
    return encoded[: max(0, limit_bytes - len(mark))].decode("utf-8", "ignore") + mark


def describe_server(address: str) -> str:
    """Name a server for a message: scheme, host and port; ``/...`` stands for a path.

    Path, query and user are left out, because each may be a secret: a local cluster's kubeconfig
    has its token in the path.
    """
    scheme, found, rest = address.partition("://")
    if not found:
        scheme, rest = "", address
    end = min((i for i in map(rest.find, "/?#") if i >= 0), default=len(rest))
    authority, path = rest[:end], rest[end:]
    host = authority.rpartition("@")[2]
    # With an @ later on, the authority may be the first part of a user's password.
    if "@" in path or not _HOST.match(host) or (found and not scheme.isalnum()):
        return HIDDEN
    return f"{scheme}{found}{host}" + ("/..." if path.strip("/") else "")


def hide_secrets(body: bytes, secrets: Iterable[str]) -> bytes:
    """Take a token or a path out of the body of an error: servers repeat the path of a request.

    Args:
        body: what the server sent.
        secrets: texts to hide; short ones stay, because they would be found in ordinary words.
    """
    for secret in secrets:
        if len(secret) >= _MIN_SECRET_LENGTH:
            body = body.replace(secret.encode(), HIDDEN.encode())
    return body


def hide_values(message: str, field: str = "") -> str:
    """Take the quoted values out of an API server's message; field, reason and rule stay.

    A Pod that is refused may hold secrets in the very field that is wrong, and the message goes
    into the status, Events and logs. Names stay: the value of a field ``name`` and the key of a
    label or annotation are identities.

    Args:
        message: of a Status object, or of one of its causes.
        field: of the cause, whose message begins behind the field.
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
    """Find where a value ends that begins at ``start``; ``start`` if there is none."""
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

"""Parsers of the values of settings, one for each form. Pure.

A parser raises ``ValueError`` with the fault in words; ``option`` adds the setting and the form of
a good value.
"""

import re
import signal
from typing import Callable, Dict, NamedTuple, Optional, Tuple

from framework.agent.addresses import MAX_PORT, is_endpoint
from framework.api.naming import is_framework_name, is_role_name
from rendezvous.settings.kinds import RoleKind

MAX_SLOTS = 4096
_MAX_NODES = 1_000_000
_NUMBER = re.compile(r"(0|[1-9][0-9]{0,8})\Z")
_FORMAT = re.compile(r"[a-z][a-z0-9_]{0,62}\Z")
_PLUGIN = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*\Z", re.ASCII)
_CONF = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=[A-Za-z0-9._:/-]+\Z")
_USER = re.compile(r"[A-Za-z_][A-Za-z0-9._-]{0,63}\Z")
_SSH_SPECIAL = re.compile(r"[\"%$\\]")
_PORT = re.compile(r"([0-9]{1,5})(\+index)?\Z")
_SECONDS = re.compile(r"[0-9]{1,6}(\.[0-9]{1,3})?\Z")
_URL = re.compile(r"http://[A-Za-z0-9.:\[\]_-]{1,260}(/[!-~]*)?\Z")
_LISTEN = re.compile(r"(127\.0\.0\.1|\[::1\]|localhost):([0-9]{1,5})\Z")
_PROCESS = re.compile(r"[!-.0-~]{1,200}\Z")
# Control characters, the other line ends of Unicode, and halves of surrogate pairs (no UTF-8).
_UNPRINTABLE = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")


class RolePort(NamedTuple):
    """The port of a role's members; ``per_index`` adds the index, for members of one host."""

    base: int
    per_index: bool = False

    def of(self, index: int) -> int:
        """Compute a member's port. It may exceed 65535: the caller checks that."""
        return self.base + index if self.per_index else self.base


def is_printable(text: str) -> bool:
    """Return whether a text stays on its line: no control character, no line end of any kind."""
    return _UNPRINTABLE.search(text) is None


def parse_formats(text: str) -> Optional[Tuple[str, ...]]:
    """Parse ``auto`` (None) or a list of formats."""
    return None if text == "auto" else _parse_list(text, _FORMAT.match, "no name of a format")


def parse_plugins(text: str) -> Tuple[str, ...]:
    """Parse a list of ``module:function``."""
    return _parse_list(text, _PLUGIN.match, "not MODULE:FUNCTION") if text else ()


def parse_roles(text: str) -> Dict[str, RoleKind]:
    """Parse ``ROLE=KIND,...``."""
    kinds = {kind.value: kind for kind in RoleKind}
    parsed: Dict[str, RoleKind] = {}
    for role, value in _parse_pairs(text).items():
        if value not in kinds:
            raise ValueError(f"{value!r:.80} is not one of {', '.join(kinds)}")
        if not role:
            raise ValueError(f"{value} belongs to no role")
        parsed[role] = kinds[value]
    return parsed


def parse_ports(text: str) -> Dict[str, RolePort]:
    """Parse ``PORT`` and ``ROLE=PORT``, each with ``+index`` if wanted; "" is every other role."""
    return {role: parse_port(value) for role, value in _parse_pairs(text).items()}


def parse_port(text: str) -> RolePort:
    """Parse ``PORT`` or ``PORT+index``."""
    match = _PORT.match(text)
    if match is None or not 0 < int(match.group(1)) <= MAX_PORT:
        raise ValueError(f"{text!r:.80} is not a port (1 to {MAX_PORT})")
    return RolePort(int(match.group(1)), match.group(2) is not None)


def parse_plain_port(text: str) -> int:
    """Parse ``PORT``."""
    port = parse_port(text)
    if port.per_index:
        raise ValueError("there is one such port in the gang, so +index has no meaning: remove it")
    return port.base


def parse_slots(text: str) -> Dict[str, int]:
    """Parse ``N`` and ``ROLE=N``; "" is every other role that has slots at all."""
    return {role: _parse_number(value, 0, MAX_SLOTS) for role, value in _parse_pairs(text).items()}


def parse_nodes(text: str) -> Optional[Tuple[int, int]]:
    """Parse ``MIN:MAX`` or ``N``; "" (None) takes them from the roster."""
    if not text:
        return None
    low, found, high = text.partition(":")
    bounds = (
        _parse_number(low, 1, _MAX_NODES),
        _parse_number(high if found else low, 1, _MAX_NODES),
    )
    if bounds[0] > bounds[1]:
        raise ValueError("its minimum is above its maximum")
    return bounds


def parse_processes(text: str) -> str:
    """Parse ``auto``, ``gpu``, ``xpu``, ``cpu`` or a number; "" takes the slots."""
    if text in {"", "auto", "gpu", "xpu", "cpu"}:
        return text
    return str(_parse_number(text, 1, MAX_SLOTS))


def parse_conf(text: str) -> str:
    """Parse ``KEY=VALUE,...`` of a rendezvous backend."""
    for pair in _split(text) if text else []:
        if not _CONF.match(pair):
            raise ValueError(f"{pair!r:.80} is not KEY=VALUE")
        if pair.startswith("is_host="):
            raise ValueError("is_host differs from Pod to Pod, and the agent adds it: remove it")
    return text


def parse_directory(text: str) -> str:
    """Parse an absolute path."""
    if not _is_path(text):
        raise ValueError("it is not an absolute path")
    return text.rstrip("/") or "/"


def parse_seconds(text: str) -> float:
    """Parse a number of seconds."""
    if not _SECONDS.match(text):
        raise ValueError("it is not a number of seconds")
    return float(text)


def parse_signal(text: str) -> int:
    """Parse the name of a signal; "" (0) is none."""
    if not text:
        return 0
    name = text if text.startswith("SIG") else "SIG" + text
    number = getattr(signal, name, None) if name.isalnum() else None
    if not isinstance(number, signal.Signals):
        raise ValueError("it is not the name of a signal")  # noqa: TRY004  (callers catch it)
    return int(number)


def parse_listen(text: str) -> Optional[Tuple[str, int]]:
    """Parse ``PORT`` or ``HOST:PORT`` of the loopback; "" (None) is none."""
    if not text:
        return None
    match = _LISTEN.match(text if ":" in text else "127.0.0.1:" + text)
    if match is None or not 0 <= int(match.group(2)) <= MAX_PORT:
        raise ValueError("it is not a port of this host's loopback interface")
    return match.group(1).strip("[]"), int(match.group(2))


def parse_flag(text: str) -> bool:
    """Parse ``auto`` or ``off``."""
    if text not in {"auto", "off"}:
        raise ValueError("it is neither auto nor off")
    return text == "auto"


def parse_role_names(text: str) -> Tuple[str, ...]:
    """Parse ``ROLE,...``."""
    return _parse_list(text, is_role_name, "not the name of a role") if text else ()


def parse_scalers(text: str) -> bool:
    """Parse ``off`` or ``run``."""
    if text not in {"off", "run"}:
        raise ValueError("it is neither off nor run")
    return text == "run"


def build_choice(*choices: str) -> Callable[[str], str]:
    """Build the parser of a setting with few values."""

    def parse(text: str) -> str:
        if text not in choices:
            raise ValueError("it is not one of " + ", ".join(c or "(empty)" for c in choices))
        return text

    return parse


def build_text(is_good: Callable[[str], object], fault: str) -> Callable[[str], str]:
    """Build the parser of a text of one form; "" is none."""

    def parse(text: str) -> str:
        if text and not is_good(text):
            raise ValueError(fault)
        return text

    return parse


def build_number(low: int, high: int) -> Callable[[str], int]:
    """Build the parser of a whole number within bounds."""

    def parse(text: str) -> int:
        return _parse_number(text, low, high)

    return parse


def _parse_number(text: str, low: int, high: int) -> int:
    if not _NUMBER.match(text) or not low <= int(text) <= high:
        raise ValueError(f"{text!r:.80} is not a number from {low} to {high}")
    return int(text)


def _parse_list(text: str, match: Callable[[str], object], fault: str) -> Tuple[str, ...]:
    names = _split(text)
    for name in names:
        if not match(name):
            raise ValueError(f"{name!r:.80} is {fault}")
    return tuple(names)


def _split(text: str) -> "list[str]":
    return [part.strip() for part in text.split(",")]


def _parse_pairs(text: str) -> Dict[str, str]:
    """Parse ``ROLE=VALUE`` and ``VALUE`` (whose role is "")."""
    pairs: Dict[str, str] = {}
    for part in _split(text) if text else []:
        left, found, right = part.partition("=")
        role, value = (left.strip(), right.strip()) if found else ("", left)
        if found and not is_role_name(role):
            raise ValueError(f"{role!r:.80} is not the name of a task role")
        if role in pairs:
            raise ValueError(f"{role or 'the default'} is given twice")
        pairs[role] = value
    return pairs


def _is_path(text: str) -> bool:
    return text.startswith("/") and is_printable(text)


def _is_ssh_path(text: str) -> bool:
    """Return whether ssh, which expands some characters of a path, uses exactly this path."""
    return _is_path(text) and _SSH_SPECIAL.search(text) is None


parse_path = build_text(
    _is_ssh_path, 'it is not an absolute path without any of " % $ and backslash'
)
parse_role = build_text(is_role_name, "it is not the name of a task role")
parse_endpoint = build_text(is_endpoint, "it is not HOST:PORT (IPv6: [ADDRESS]:PORT)")
parse_user = build_text(_USER.match, "it is not a login name")
parse_process = build_text(_PROCESS.match, "it is not the name of a program")
parse_command = build_text(is_printable, "it is not one line")
parse_url = build_text(_URL.match, "it is not an http:// URL")
parse_container = build_text(is_framework_name, "it is not the name of a container")

"""IP addresses, hosts and ports as text, and which addresses a Pod may have. Pure.

Both agents check every address of a roster here before they write it.
"""

import re
import socket

IPV4 = "ipv4"
IPV6 = "ipv6"
MAX_PORT = 65535

_HOST_NAME = re.compile(
    r"(?=.{1,253}\Z)[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
    r"(\.[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?)*\Z"
)
_LAST_UNICAST = 223
_LINK_LOCAL = (169, 254)
_MAPPED = b"\0" * 10 + b"\xff\xff"


def find_family(text: str) -> str:
    """Find the family of an IP address in its usual form; "" if the text is not an address.

    All agents of a gang check all members at the same time, so this uses the fast ``inet_pton``.
    It refuses leading zeros, short forms, zones and spaces.
    """
    return (IPV6 if ":" in text else IPV4) if _pack(text) else ""


def is_pod_address(text: str) -> bool:
    """Return whether a text is an IPv4 or IPv6 address that a Pod may have.

    Unspecified, multicast, broadcast and link-local addresses are not; at link-local addresses,
    clouds serve credentials. Loopback addresses are: Pods of the local cluster have them.
    """
    packed = _pack(text)
    if len(packed) > 4:  # noqa: PLR2004  (bytes of IPv4)
        if packed[:12] != _MAPPED:
            is_link_local = packed[0] == 0xFE and packed[1] & 0xC0 == 0x80  # noqa: PLR2004 fe80::/10
            return any(packed) and packed[0] != 0xFF and not is_link_local  # noqa: PLR2004 ff00::/8
        packed = packed[12:]
    return bool(packed) and 0 < packed[0] <= _LAST_UNICAST and (packed[0], packed[1]) != _LINK_LOCAL


def is_host(text: str) -> bool:
    """Return whether a text is an IP address or a DNS name."""
    return bool(find_family(text)) or _HOST_NAME.match(text) is not None


def join_port(host: str, port: int) -> str:
    """Join host and port, IPv6 in brackets."""
    return f"{bracket(host)}:{port}"


def bracket(host: str) -> str:
    """Put an IPv6 address in brackets."""
    return f"[{host}]" if ":" in host else host


def is_endpoint(text: str) -> bool:
    """Return whether a text is ``HOST:PORT``, IPv6 in brackets."""
    host, _, port = text.rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        is_good = find_family(host[1:-1]) == IPV6
    else:
        is_good = ":" not in host and is_host(host)
    return is_good and re.match(r"[0-9]{1,5}\Z", port) is not None and 0 < int(port) <= MAX_PORT


def _pack(text: str) -> bytes:
    try:
        return socket.inet_pton(socket.AF_INET6 if ":" in text else socket.AF_INET, text)
    except (OSError, ValueError):
        return b""

"""Addresses as text: what is one, of which family, and how it is joined with a port. Pure.

Called by ``membership``, ``options`` and the renderers. Whoever may update a Framework can write
anything into a roster, and the files are read by shells: only what passes here is written.
"""

import ipaddress
import re

MAX_PORT = 65535

IPV4 = "ipv4"
IPV6 = "ipv6"

_IPV4_PART = r"(25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])"
_IPV4 = re.compile(_IPV4_PART + r"(\." + _IPV4_PART + r"){3}\Z")
# Without a zone ("%eth0"): ipaddress takes any text as one.
_IPV6_LETTERS = re.compile(r"[0-9a-fA-F:.]{2,45}\Z")
_HOST_NAME = re.compile(
    r"(?=.{1,253}\Z)[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
    r"(\.[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?)*\Z"
)


def find_family(text: str) -> str:
    """Find the family of an address; "" if the text is no IP address."""
    if _IPV4.match(text) is not None:
        return IPV4
    if ":" not in text or _IPV6_LETTERS.match(text) is None:
        return ""
    try:
        ipaddress.IPv6Address(text)
    except ValueError:
        return ""
    return IPV6


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

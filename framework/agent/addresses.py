"""Which IP addresses a Pod may have. Pure."""

import socket

_LAST_UNICAST = 223
_LINK_LOCAL = (169, 254)
_MAPPED = b"\0" * 10 + b"\xff\xff"


def is_pod_address(text: str) -> bool:
    """Return whether a text is an IPv4 or IPv6 address that a Pod may have.

    Unspecified, multicast, broadcast and link-local addresses are not; at link-local addresses,
    clouds serve credentials. Loopback addresses are: Pods of the local cluster have them.
    ``inet_pton`` refuses leading zeros, short forms, zones and spaces.
    """
    family = socket.AF_INET6 if ":" in text else socket.AF_INET
    try:
        packed = socket.inet_pton(family, text)
    except (OSError, ValueError):
        return False
    if family == socket.AF_INET6:
        if packed[:12] != _MAPPED:
            is_link_local = packed[0] == 0xFE and packed[1] & 0xC0 == 0x80  # noqa: PLR2004 fe80::/10
            return any(packed) and packed[0] != 0xFF and not is_link_local  # noqa: PLR2004 ff00::/8
        packed = packed[12:]
    return 0 < packed[0] <= _LAST_UNICAST and (packed[0], packed[1]) != _LINK_LOCAL

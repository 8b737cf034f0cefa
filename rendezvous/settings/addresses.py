"""Hosts and ports as text: what a host name is, and how it is joined with a port. Pure."""

import re

from framework.agent.addresses import IPV6, find_family

MAX_PORT = 65535

_HOST_NAME = re.compile(
    r"(?=.{1,253}\Z)[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
    r"(\.[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?)*\Z"
)


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

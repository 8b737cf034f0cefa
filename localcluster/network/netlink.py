"""The requests to the kernel's network configuration that a network of Pods needs (IPv4).

It speaks rtnetlink(7), as ``ip link|address|route|neighbour`` do: the ``ip`` program is missing on
many machines, and would lose the rights of this process in a user namespace. An OSError names the
operation.
"""

import os
import socket
import struct

_RTM_NEWLINK, _RTM_NEWADDR, _RTM_NEWROUTE, _RTM_NEWNEIGH = 16, 20, 24, 28
_REQUEST, _ACK, _EXCL, _CREATE = 0x1, 0x4, 0x200, 0x400
_NEW = _REQUEST | _ACK | _EXCL | _CREATE
_NLMSG_ERROR = 2
_HEADER = struct.Struct("=IHHII")
_LINK = struct.Struct("=BxHiII")
_ADDRESS = struct.Struct("=BBBBI")
_ROUTE = struct.Struct("=BBBBBBBBI")
_NEIGHBOUR = struct.Struct("=BxxxiHBB")
_IFF_UP = 1
_IFLA_ADDRESS, _IFLA_IFNAME, _IFLA_LINKINFO, _IFLA_AF_SPEC, _IFLA_NET_NS_FD = 1, 3, 18, 26, 28
_IFLA_INET_CONF, _FORWARDING = 1, 1
_IFLA_INFO_KIND, _IFLA_INFO_DATA = 1, 2
_VETH_INFO_PEER = 1
_IFA_ADDRESS, _IFA_LOCAL = 1, 2
_RTA_DST, _RTA_OIF, _RTA_GATEWAY = 1, 4, 5
_TABLE_MAIN, _PROTOCOL_BOOT = 254, 3
_SCOPE_UNIVERSE, _SCOPE_LINK, _SCOPE_HOST = 0, 253, 254
_ALL_BITS = 32
_TYPE_UNICAST, _TYPE_LOCAL = 1, 2
_NDA_DST, _NDA_LLADDR = 1, 2
_NUD_PERMANENT = 0x80


def _attribute(kind: int, content: bytes) -> bytes:
    length = 4 + len(content)
    return struct.pack("=HH", length, kind) + content + bytes(-length % 4)


def _text(kind: int, text: str) -> bytes:
    return _attribute(kind, text.encode() + b"\0")


def _number(kind: int, number: int) -> bytes:
    return _attribute(kind, struct.pack("=I", number))


class Netlink:
    """Configures the network namespace in which it was made."""

    def __init__(self) -> None:
        """Open it in the present namespace of this process."""
        self._socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE)
        self._socket.bind((0, 0))
        self._sequence = 0

    def close(self) -> None:
        """Close it."""
        self._socket.close()

    def _request(self, attempt: str, kind: int, flags: int, body: bytes) -> None:
        self._sequence += 1
        length = _HEADER.size + len(body)
        self._socket.send(_HEADER.pack(length, kind, flags, self._sequence, 0) + body)
        answer = self._socket.recv(65536)
        _, answer_kind, _, _, _ = _HEADER.unpack_from(answer)
        number = -struct.unpack_from("=i", answer, _HEADER.size)[0]
        if answer_kind != _NLMSG_ERROR or number != 0:
            raise OSError(number, f"{attempt}: {os.strerror(number)}")

    def add_pair(self, name: str, mac: bytes, peer: str, peer_mac: bytes, namespace: int) -> None:
        """Make a pair of linked devices, the second of them in another namespace."""
        there = _LINK.pack(0, 0, 0, 0, 0) + _text(_IFLA_IFNAME, peer)
        there += _attribute(_IFLA_ADDRESS, peer_mac) + _number(_IFLA_NET_NS_FD, namespace)
        details = _text(_IFLA_INFO_KIND, "veth")
        details += _attribute(_IFLA_INFO_DATA, _attribute(_VETH_INFO_PEER, there))
        body = _LINK.pack(0, 0, 0, 0, 0) + _text(_IFLA_IFNAME, name)
        body += _attribute(_IFLA_ADDRESS, mac) + _attribute(_IFLA_LINKINFO, details)
        self._request(f"make device {name}", _RTM_NEWLINK, _NEW, body)

    def set_up(self, index: int, *, forwards: bool = False) -> None:
        """Switch a device on; with ``forwards``, its packets may leave through other devices."""
        body = _LINK.pack(0, 0, index, _IFF_UP, _IFF_UP)
        if forwards:
            # Not through /proc/sys, which is read-only in many containers.
            setting = _attribute(_IFLA_INET_CONF, _number(_FORWARDING, 1))
            body += _attribute(_IFLA_AF_SPEC, _attribute(socket.AF_INET, setting))
        self._request("switch a device on", _RTM_NEWLINK, _REQUEST | _ACK, body)

    def add_address(self, index: int, address: str) -> None:
        """Give a device an address, without a route to other addresses."""
        raw = socket.inet_aton(address)
        body = _ADDRESS.pack(socket.AF_INET, _ALL_BITS, 0, _SCOPE_UNIVERSE, index)
        body += _attribute(_IFA_LOCAL, raw) + _attribute(_IFA_ADDRESS, raw)
        self._request(f"add address {address}", _RTM_NEWADDR, _NEW, body)

    def route_to(self, address: str, index: int) -> None:
        """Route an address through a device."""
        attributes = _attribute(_RTA_DST, socket.inet_aton(address)) + _number(_RTA_OIF, index)
        self._add_route(_ALL_BITS, _SCOPE_LINK, _TYPE_UNICAST, attributes)

    def route_rest_by(self, gateway: str) -> None:
        """Route all other addresses to a gateway."""
        attributes = _attribute(_RTA_GATEWAY, socket.inet_aton(gateway))
        self._add_route(0, _SCOPE_UNIVERSE, _TYPE_UNICAST, attributes)

    def take_rest(self, index: int) -> None:
        """Treat all addresses without another route as addresses of this namespace."""
        self._add_route(0, _SCOPE_HOST, _TYPE_LOCAL, _number(_RTA_OIF, index))

    def _add_route(self, bits: int, scope: int, kind: int, attributes: bytes) -> None:
        header = (socket.AF_INET, bits, 0, 0, _TABLE_MAIN, _PROTOCOL_BOOT, scope, kind, 0)
        body = _ROUTE.pack(*header) + attributes
        self._request("add a route", _RTM_NEWROUTE, _NEW, body)

    def add_neighbour(self, index: int, address: str, mac: bytes) -> None:
        """State the MAC of an address, so that ARP is not needed."""
        body = _NEIGHBOUR.pack(socket.AF_INET, index, _NUD_PERMANENT, 0, 0)
        body += _attribute(_NDA_DST, socket.inet_aton(address)) + _attribute(_NDA_LLADDR, mac)
        self._request(f"add neighbour {address}", _RTM_NEWNEIGH, _NEW, body)

"""The program that owns the network of all Pods: a router in a network namespace of its own.

``namespaces`` starts it and sends requests, which it answers one by one. The kernel removes the
network when this process and the Pods' processes have ended and the sockets that this process
handed out are closed. The host's own network is never changed.

A pair of devices connects the router to each Pod, and each knows the MAC of the other. There is no
bridge: it has at most a thousand ports, and each Pod would ask for the MAC of each other Pod.

Single-threaded and standard library only, because it makes namespaces and must start fast. The
kubelet gets sockets that are made here: a socket belongs to the namespace in which it was made.
"""

import os
import socket
import sys

from localcluster import messages, syscalls
from localcluster.network.netlink import Netlink

POD_DEVICE = "eth0"
_OWN_NAMESPACES = "/proc/self/ns/"


def main() -> None:
    """Set the network up by the first request, and serve the parent process until it ends."""
    parent, control = map(int, sys.argv[-2:])
    with socket.socket(fileno=control) as connection:
        request, _ = messages.receive(connection)
        if request is None:
            return
        number, _, (gateway, in_user_namespace) = request
        try:
            if in_user_namespace:
                syscalls.make_user_namespace(syscalls.CLONE_NEWNET)
            else:
                syscalls.unshare(syscalls.CLONE_NEWNET)
            # After the namespaces: a user namespace clears the setting.
            syscalls.end_with_parent(parent)
            hub = Hub(gateway)
        except OSError as error:
            _answer(connection, number, error, [])
            return
        _answer(connection, number, None, [_open_own("user")] if in_user_namespace else [])
        _serve(connection, hub)


def _open_own(name: str) -> int:
    return os.open(_OWN_NAMESPACES + name, os.O_RDONLY | os.O_CLOEXEC)


def _serve(connection: socket.socket, hub: "Hub") -> None:
    while True:
        request, received = messages.receive(connection)
        if request is None:
            return
        number, verb, arguments = request
        try:
            descriptors = getattr(hub, verb)(*arguments, *received)
        except OSError as error:
            _answer(connection, number, error, [])
        else:
            _answer(connection, number, None, descriptors)
        for descriptor in received:
            os.close(descriptor)


def _answer(
    connection: socket.socket, number: int, error: "OSError | None", descriptors: "list[int]"
) -> None:
    """Answer a request; the open files go along, and are closed here."""
    text = None if error is None else str(error.strerror or error)
    messages.send(connection, (number, None, text), descriptors)
    for descriptor in descriptors:
        os.close(descriptor)


class Hub:
    """The router. Public methods are requests; they return open descriptors.

    Open files of a request are its last arguments; they are closed when it is answered.
    """

    def __init__(self, gateway: str) -> None:
        """Take the gateway's address."""
        self._gateway = gateway
        self._namespace = _open_own("net")
        self._netlink = Netlink()
        loopback = _find("lo")
        self._netlink.set_up(loopback)
        self._netlink.add_address(loopback, gateway)
        # Connections of Pods to other addresses end here: refused, unless a socket listens.
        self._netlink.take_rest(loopback)

    def attach(self, address: str) -> "list[int]":
        """Make and connect the network namespace of a Pod; it ends with its last process."""
        name, mac = _name_device(address), _build_mac(address)
        syscalls.unshare(syscalls.CLONE_NEWNET)
        try:
            namespace = _open_own("net")
            try:
                self._set_up_pod(name, mac, address)
            except OSError:
                os.close(namespace)
                raise
        finally:
            syscalls.set_namespace(self._namespace, syscalls.CLONE_NEWNET)
        device = _find(name)
        self._netlink.set_up(device, forwards=True)
        self._netlink.route_to(address, device)
        self._netlink.add_neighbour(device, address, mac)
        return [namespace]

    def _set_up_pod(self, name: str, mac: bytes, address: str) -> None:
        """Set up the Pod's side, in its namespace."""
        netlink, gateway_mac = Netlink(), _build_mac(self._gateway)
        try:
            netlink.set_up(_find("lo"))
            netlink.add_pair(POD_DEVICE, mac, name, gateway_mac, self._namespace)
            device = _find(POD_DEVICE)
            netlink.add_address(device, address)
            netlink.set_up(device)
            netlink.route_to(self._gateway, device)
            netlink.route_rest_by(self._gateway)
            netlink.add_neighbour(device, self._gateway, gateway_mac)
        finally:
            netlink.close()

    def open_socket(self, kind: int, address: str, port: int) -> "list[int]":
        """Make a socket of this network, bound if a port is given."""
        made = socket.socket(socket.AF_INET, kind)
        if port:
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            made.bind((address, port))
        return [made.detach()]

    def open_socket_in(self, namespace: int) -> "list[int]":
        """Make a TCP socket of a Pod's network namespace."""
        syscalls.set_namespace(namespace, syscalls.CLONE_NEWNET)
        try:
            return [socket.socket(socket.AF_INET, socket.SOCK_STREAM).detach()]
        finally:
            syscalls.set_namespace(self._namespace, syscalls.CLONE_NEWNET)


def _find(device: str) -> int:
    return socket.if_nametoindex(device)


def _name_device(address: str) -> str:
    return "p" + socket.inet_aton(address).hex()


def _build_mac(address: str) -> bytes:
    """Return a locally administered MAC."""
    return b"\x02\xfb" + socket.inet_aton(address)

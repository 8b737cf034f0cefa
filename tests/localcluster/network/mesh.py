"""Run by ``test_hub``: every Pod of many connects to every other one; prints how many times.

Usage: ``python -m tests.localcluster.network.mesh PODS``.
"""

import os
import socket
import sys

from localcluster import syscalls
from localcluster.network.hub import Hub

PORT = 2222


def main(count: int) -> None:
    if os.geteuid() == 0:
        syscalls.unshare(syscalls.CLONE_NEWNET)
    else:
        syscalls.make_user_namespace(syscalls.CLONE_NEWNET)
    hub = Hub("10.244.0.1")
    addresses = [f"10.244.{i // 250}.{i % 250 + 2}" for i in range(count)]
    namespaces = [hub.attach(address)[0] for address in addresses]
    servers = []
    for namespace in namespaces:
        syscalls.set_namespace(namespace, syscalls.CLONE_NEWNET)
        servers.append(socket.create_server(("", PORT)))
    connected = 0
    for own, namespace in zip(addresses, namespaces, strict=True):
        syscalls.set_namespace(namespace, syscalls.CLONE_NEWNET)
        for address, server in zip(addresses, servers, strict=True):
            with socket.create_connection((address, PORT), 10):
                accepted, peer = server.accept()
                accepted.close()
                assert peer[0] == own
            connected += 1
    print(connected)


if __name__ == "__main__":
    main(int(sys.argv[1]))

"""A tiny DNS server over UDP, and how to run a program that asks it.

The system's resolver asks port 53 of what /etc/resolv.conf names, so both need a privilege: the
port, and a mount namespace in which that file is ours.
"""

import contextlib
import os
import shutil
import socket
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import dns.flags
import dns.message
import dns.rcode
import dns.rrset
import pytest

# Of this process: test runs beside each other have servers of their own.
ADDRESS = f"127.53.{os.getpid() >> 8 & 255}.{os.getpid() & 255}"
DOMAIN = "default.svc.cluster.local"
_IN_NAMESPACE = 'mount --bind "$0" "$(readlink -f /etc/resolv.conf)" && exec "$@"'


class DnsServer:
    """Answers by ``records`` (name without the domain to addresses); change them at any time."""

    def __init__(self, server: socket.socket) -> None:
        self.records: dict[str, list[str]] = {}
        self.questions: list[str] = []
        self._socket = server
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def _serve(self) -> None:
        while True:
            query, peer = self._socket.recvfrom(4096)
            if not query:
                return
            self._socket.sendto(self._answer(query), peer)

    def _answer(self, query: bytes) -> bytes:
        question = dns.message.from_wire(query)
        answer = dns.message.make_response(question)
        answer.flags |= dns.flags.RA
        asked = question.question[0]
        name = str(asked.name).rstrip(".")
        self.questions.append(name)
        addresses = self.records.get(name.removesuffix("." + DOMAIN))
        if addresses is None or not name.endswith(DOMAIN):
            answer.set_rcode(dns.rcode.NXDOMAIN)
            return answer.to_wire()
        kind = dns.rdatatype.to_text(asked.rdtype)
        found = [a for a in addresses if (kind == "AAAA") == (":" in a)]
        if found and kind in {"A", "AAAA"}:
            answer.answer.append(dns.rrset.from_text(asked.name, 5, "IN", kind, *found))
        return answer.to_wire()

    def stop(self) -> None:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as last:
            last.sendto(b"", (ADDRESS, 53))
        self._thread.join()


def build_mount_prefix(script: str, target: Path) -> tuple[str, ...]:
    """Build the command that runs another one after this script, in a mount namespace."""
    prefix = ("unshare", "-m", "sh", "-c", script, str(target))
    if shutil.which("unshare") is None or os.geteuid() != 0:
        pytest.skip("a mount namespace needs unshare and root")
    if subprocess.run([*prefix, "true"], capture_output=True, check=False).returncode != 0:
        pytest.skip("this machine allows no mount namespace")
    return prefix


@contextlib.contextmanager
def run_dns_server() -> Iterator[DnsServer]:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
        try:
            server.bind((ADDRESS, 53))
        except PermissionError as e:
            pytest.skip(f"a DNS server needs port 53 of {ADDRESS}: {e.strerror}; run as root")
        dns_server = DnsServer(server)
        try:
            yield dns_server
        finally:
            dns_server.stop()


def build_prefix(folder: Path) -> tuple[str, ...]:
    """Build the command that runs another one with this DNS server as its only one."""
    file = folder / "resolv.conf"
    file.write_text(
        f"nameserver {ADDRESS}\nsearch {DOMAIN} svc.cluster.local\noptions ndots:5 timeout:30\n"
    )
    return build_mount_prefix(_IN_NAMESPACE, file)

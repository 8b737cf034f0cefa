"""A port that a process of tests has found stays its own until its program takes it."""

import socket
import subprocess
import sys
from pathlib import Path

from tests.support.servers.childprocess import find_free_ports

ROOT = Path(__file__).parents[2]
RESERVE = """
import sys
from tests.support.servers.childprocess import _reserve
print(*[_reserve(int(port)) for port in sys.argv[1:]])
"""


def test_ports_that_were_found_are_free_here_and_no_other_process_gets_them() -> None:
    ports = find_free_ports(3)
    words = [sys.executable, "-c", RESERVE, *map(str, ports)]
    done = subprocess.run(words, capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout == "False False False\n"
    assert set(find_free_ports(3)).isdisjoint(ports)
    for port in ports:
        socket.create_server(("127.0.0.1", port)).close()

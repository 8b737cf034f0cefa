"""The processes of members that come to barriers, each with a volume as the writer makes it."""

import contextlib
import json
import queue
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from framework.agent.gang import SOURCE_CONFIGMAP
from framework.api.roster import Roster, fingerprint_uid
from rendezvous.core.selection import Generation
from rendezvous.renderers.registry import render_all
from rendezvous.site import peers
from rendezvous.volume.writer import Writer
from tests.rendezvous.gangs import (
    build_options,
    build_role,
    build_roster,
    get_uid,
    see,
)
from tests.support.servers.childprocess import find_free_ports
from tests.support.waiting import HANG_SECONDS


def write(volume: Path, roster: Roster, index: int = 0) -> None:
    rendering = render_all(see(roster, index=index), build_options())
    generation = Generation(roster, SOURCE_CONFIGMAP, roster.generation)
    Writer(str(volume)).write(generation, rendering.files, rendering.fixed_files)


MEMBER = """
import sys, peers
for line in sys.stdin:
    try:
        gang = peers.barrier(line.strip(), timeout=240)
        print("passed", line.strip(), gang.generation, flush=True)
    except TimeoutError as e:
        print("late", flush=True)
"""


class Member:
    """A member's process, which comes to the barriers that the test names."""

    def __init__(
        self,
        root: Path,
        index: int,
        port: int,
        *,
        setup: str = "",
        python: str = sys.executable,
        **variables: str,
    ) -> None:
        self.index = index
        self.port = port
        self.volume = root / f"volume{index}"
        self.volume.mkdir()
        self.env = env = {
            "PYTHONPATH": str(root / "site"),
            "BARRIER_WORKING_DIR": str(self.volume),
            "FB_BARRIER_PORT": str(port),
            **variables,
        }
        self.errors = root / f"errors{index}"
        with self.errors.open("w") as errors:
            self.process = subprocess.Popen(
                [python, "-c", setup + MEMBER],
                env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True,
            )  # fmt: skip
        self.passed: queue.Queue[str] = queue.Queue()
        self._thread = threading.Thread(target=self._collect)
        self._thread.start()

    def _collect(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.passed.put(line.strip())

    def show(self, roster: Roster) -> None:
        write(self.volume, roster, self.index)

    def come(self, name: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(name + "\n")
        self.process.stdin.flush()

    def stop(self) -> None:
        self.process.kill()
        self.process.wait()
        self._thread.join()
        for pipe in (self.process.stdin, self.process.stdout):
            assert pipe is not None
            with contextlib.suppress(OSError):
                pipe.close()


def build_local_gang(indexes: list[int], generation: int) -> Roster:
    """A gang on the loopback, an address for each."""
    role = build_role("worker", indexes)
    members = tuple(m._replace(addresses=(f"127.0.9.{m.index + 1}",)) for m in role.members)
    return build_roster(role._replace(members=members), generation=generation)


@contextlib.contextmanager
def open_members(root: Path, count: int, **options: str) -> Iterator[list[Member]]:
    (port,) = find_free_ports(1)
    (root / "site").mkdir()
    shutil.copytree(Path(peers.__file__).parent, root / "site" / "peers")
    with contextlib.ExitStack() as stack:
        found = []
        for index in range(count):
            found.append(Member(root, index, port, **options))
            stack.callback(found[-1].stop)
        yield found


def show(members: list[Member], roster: Roster) -> None:
    for member in members:
        member.show(roster)


def come(members: list[Member], name: str) -> None:
    for member in members:
        member.come(name)


def assert_passed(members: list[Member], text: str) -> None:
    for member in members:
        assert member.passed.get(timeout=HANG_SECONDS) == f"passed {text}"


def assert_waits(member: Member, seconds: float = 0.3) -> None:
    with pytest.raises(queue.Empty):
        member.passed.get(timeout=seconds)


def build_arrival(gang: Roster, index: int, token: str) -> dict[str, object]:
    return {
        "name": "start",
        "token": token,
        "attempt": gang.instance_uid,
        "role": "worker",
        "index": index,
        "pod": fingerprint_uid(get_uid("worker", index)),
    }


def build_arrival_line(gang: Roster, index: int, token: str) -> bytes:
    return json.dumps(build_arrival(gang, index, token)).encode() + b"\n"


def connect(member: Member, source: str = "") -> socket.socket:
    """Connect to the process of rank 0, as soon as it serves, from an own address if given."""
    deadline = time.monotonic() + HANG_SECONDS
    while True:
        try:
            address = f"127.0.9.{member.index + 1}", member.port
            return socket.create_connection(address, HANG_SECONDS, (source, 0) if source else None)
        except ConnectionRefusedError:
            assert time.monotonic() < deadline
            time.sleep(0.02)

"""A gang with a sidecar on one member's volume, and a way to its API that can be cut."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

from framework.api.roster import Roster
from rendezvous.volume.writer import NOTIFIED_FILE
from tests.rendezvous.agents import (
    AgentProcess,
    Publisher,
    read_changes,
)
from tests.rendezvous.gangs import build_gang
from tests.support.controlplane import Access
from tests.support.waiting import wait_until

NATIVE = ("watch", "--sidecar-end", "native")


class Gang:
    """A gang, one member's volume, and what it was told."""

    def __init__(self, api: Access, publisher: Publisher, volume: Path) -> None:
        self.publisher = publisher
        self.volume = volume
        self.told = volume.with_name("told")
        self.env = publisher.build_env(api.url, api.token, volume, "worker", 0)
        self.env["FB_DEBOUNCE_SEC"] = "0"
        self.env["FB_NOTIFY_COMMAND"] = f"cat >>{self.told}"

    def publish(self, count: int, generation: int) -> Roster:
        return self.publisher.publish(build_gang(count)._replace(generation=generation))

    def read_current(self) -> int:
        try:
            return int((self.volume / "current").readlink().name.removeprefix("gen-"))
        except FileNotFoundError:
            return 0

    def wait_for_generation(self, number: int) -> None:
        wait_until(lambda: self.read_current() == number)

    def wait_until_told(self, count: int) -> None:
        wait_until(lambda: len(read_changes(self.told)) == count)
        last = read_changes(self.told)[-1]["generation"]
        # An agent killed before it has noted this tells the same once more.
        note = self.volume / NOTIFIED_FILE
        wait_until(lambda: note.exists() and int(note.read_text().split()[0]) == last)

    def count_hosts(self) -> int:
        return len((self.volume / "current" / "hosts.horovod").read_text().splitlines())


def wait_for_text(agent: AgentProcess, start: str) -> str:
    agent.wait_for(start)
    return agent.text.partition(start)[2].split()[0]


class Relay:
    """A way to the API server that can be cut."""

    def __init__(self, target: str) -> None:
        url = urlsplit(target)
        assert url.hostname is not None
        assert url.port is not None
        self._target = (url.hostname, url.port)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}{url.path}"
        self._pairs: list[socket.socket] = []
        self.is_cut = False
        self.refused = 0
        self._thread = threading.Thread(target=self._accept)
        self._thread.start()

    def cut(self) -> None:
        self.is_cut = True
        pairs, self._pairs = self._pairs, []
        for connection in pairs:
            _shut(connection)

    def stop(self) -> None:
        self.cut()
        _shut(self._listener)
        self._thread.join()
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            if self.is_cut:
                self.refused += 1
                near.close()
                continue
            far = socket.create_connection(self._target)
            self._pairs += [near, far]
            for source, sink in ((near, far), (far, near)):
                threading.Thread(target=_copy, args=(source, sink), daemon=True).start()


def _shut(connection: socket.socket) -> None:
    try:
        connection.shutdown(socket.SHUT_RDWR)
    except OSError:
        return


def _copy(source: socket.socket, sink: socket.socket) -> None:
    with source:
        try:
            while received := source.recv(65536):
                sink.sendall(received)
        except OSError:
            pass
        _shut(sink)


@contextmanager
def relay(target: str) -> Iterator[Relay]:
    opened = Relay(target)
    try:
        yield opened
    finally:
        opened.stop()

"""``watch`` and ``render`` as processes: a gang rescaled while everybody looks."""

import json
import signal
import socket
import subprocess
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from framework.api.roster import Roster
from rendezvous.writer import NOTIFIED_FILE
from tests.rendezvous.agents import (
    AgentProcess,
    Publisher,
    read_changes,
    run_agent,
    wait_until,
)
from tests.rendezvous.gangs import build_gang
from tests.support.controlplane import Access

pytestmark = [pytest.mark.local, pytest.mark.timeout(120)]

OpenGang = Callable[[], Publisher]
NATIVE = ("watch", "--sidecar-end", "native")
DISCOVERIES = 1000


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
        wait_until(f"generation {number}", lambda: self.read_current() == number)

    def wait_until_told(self, count: int) -> None:
        wait_until(f"{count} changes", lambda: len(read_changes(self.told)) == count)
        last = read_changes(self.told)[-1]["generation"]
        # An agent killed before it has noted this tells the same once more.
        note = self.volume / NOTIFIED_FILE
        wait_until("note", lambda: note.exists() and int(note.read_text()) == last)

    def count_hosts(self) -> int:
        return len((self.volume / "current" / "hosts.horovod").read_text().splitlines())


@pytest.fixture
def gang(api: Access, open_gang: OpenGang, tmp_path: Path) -> Gang:
    return Gang(api, open_gang(), tmp_path / "volume")


class Discoverer(threading.Thread):
    """Calls discover_hosts.sh again and again, as Horovod's driver does, only without a pause."""

    def __init__(self, script: Path) -> None:
        super().__init__()
        self._script = script
        self.seen: list[int] = []
        self.faults: list[str] = []

    def run(self) -> None:
        for _ in range(DISCOVERIES):
            ran = subprocess.run(
                ["/bin/sh", str(self._script)], capture_output=True, text=True, check=False
            )
            lines = ran.stdout.splitlines()
            expected = [f"10.0.0.{i + 2}:1" for i in range(len(lines))]
            if ran.returncode or ran.stderr or lines != expected or not ran.stdout.endswith("\n"):
                self.faults.append(repr(ran))
            self.seen.append(len(lines))


def test_live_rescale_shows_each_generation_once_and_whole(gang: Gang) -> None:
    sizes = [4, 6, 3, 5, 4, 6, 3]
    gang.publish(sizes[0], 1)
    with run_agent(gang.env, *NATIVE) as agent:
        gang.wait_until_told(1)
        discoverer = Discoverer(gang.volume / "discover_hosts.sh")
        discoverer.start()
        number = 1
        while discoverer.is_alive():
            number += 1
            gang.publish(sizes[(number - 1) % len(sizes)], number)
            gang.wait_until_told(number)
            discoverer.join(0.05)
        agent.signal(signal.SIGTERM)
        assert agent.wait() == 0, agent.text
    assert discoverer.faults == []
    assert len(discoverer.seen) == DISCOVERIES
    assert set(discoverer.seen) == set(sizes)
    changes = read_changes(gang.told)
    assert [c["generation"] for c in changes] == list(range(1, number + 1))
    assert [c["previousGeneration"] for c in changes] == list(range(number))
    members: set[int] = set()
    for change in changes:
        members |= {peer["index"] for peer in change["added"]}
        members -= {peer["index"] for peer in change["removed"]}
        assert members == set(range(sizes[(change["generation"] - 1) % len(sizes)]))


def test_change_is_told_at_once_and_the_next_after_the_debounce(gang: Gang) -> None:
    gang.env["FB_DEBOUNCE_SEC"] = "1"
    gang.publish(2, 1)
    with run_agent(gang.env, *NATIVE):
        gang.wait_until_told(1)
        time.sleep(1.1)  # the debounce of the first generation
        started = time.monotonic()
        gang.publish(3, 2)
        gang.wait_until_told(2)
        first = time.monotonic() - started
        for number in range(3, 8):
            gang.publish(number, number)
        gang.wait_until_told(3)
        second = time.monotonic() - started
    print(f"told after {first * 1000:.0f} ms, the next after {second:.2f} s")
    assert first < 0.5
    assert 1.0 <= second < 2.5
    # What came within the debounce was told as one change, the newest.
    assert read_changes(gang.told)[-1]["generation"] == 7


def test_roster_that_goes_back_is_ignored(gang: Gang) -> None:
    gang.publish(2, 5)
    with run_agent(gang.env, *NATIVE):
        gang.wait_for_generation(5)
        gang.publish(4, 3)
        gang.publish(3, 6)
        gang.wait_for_generation(6)
        gang.wait_until_told(2)
    assert [c["generation"] for c in read_changes(gang.told)] == [5, 6]
    assert gang.count_hosts() == 3


def test_incomplete_roster_keeps_the_last_good_one(gang: Gang) -> None:
    roster = gang.publish(3, 1)
    with run_agent(gang.env, *NATIVE) as agent:
        gang.wait_for_generation(1)
        gang.publisher.publish(
            roster._replace(
                generation=2,
                complete=False,
                roles=(roster.roles[0]._replace(members=roster.roles[0].members[:1]),),
            )
        )
        agent.wait_for("1/3 Tasks are there, 2 are missing, the last good one is kept")
        assert gang.count_hosts() == 3


@pytest.mark.parametrize("what", ["another attempt", "another Pod in its place"])
def test_roster_of_others_is_not_shown(gang: Gang, what: str) -> None:
    if what == "another attempt":
        gang.env["FC_FRAMEWORK_ATTEMPT_INSTANCE_UID"] = "1_other"
        expected = "is seen, not 1_other"
    else:
        gang.env["FC_POD_UID"] = "another"
        expected = "worker/0 is not in it with this Pod yet"
    gang.publish(2, 1)
    with run_agent(gang.env, *NATIVE) as agent:
        agent.wait_for(expected)
    assert gang.read_current() == 0


def test_killed_sidecar_goes_on_where_it_was(gang: Gang) -> None:
    gang.publish(2, 1)
    with run_agent(gang.env, *NATIVE):
        gang.wait_until_told(1)
    # Here it was killed by SIGKILL. The process was told of 1; 2 is published meanwhile.
    gang.publish(3, 2)
    with run_agent(gang.env, *NATIVE):
        gang.wait_until_told(2)
    with run_agent(gang.env, *NATIVE):
        gang.publish(4, 3)
        gang.wait_until_told(3)
    changes = read_changes(gang.told)
    assert [(c["previousGeneration"], c["generation"]) for c in changes] == [(0, 1), (1, 2), (2, 3)]
    assert [p["index"] for p in changes[1]["added"]] == [2]


def test_process_started_after_render_is_told_of_later_changes_only(gang: Gang) -> None:
    gang.publish(2, 1)
    with run_agent(gang.env, "render") as init:
        assert init.wait() == 0, init.text
    gang.publish(3, 2)
    with run_agent(gang.env, *NATIVE):
        gang.wait_until_told(1)
    (change,) = read_changes(gang.told)
    assert (change["previousGeneration"], change["generation"]) == (1, 2)


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


def test_api_away_keeps_the_last_good_and_shows_the_newest_after(gang: Gang, api: Access) -> None:
    gang.publish(2, 1)
    with relay(api.url) as way:
        gang.env["KUBE_APISERVER_ADDRESS"] = way.url
        with run_agent(gang.env, *NATIVE) as agent:
            gang.wait_until_told(1)
            way.cut()
            gang.publish(3, 2)
            gang.publish(4, 3)
            wait_until("tries", lambda: way.refused >= 3)
            assert (gang.read_current(), gang.count_hosts()) == (1, 2)
            assert agent.process.poll() is None
            way.is_cut = False
            gang.wait_until_told(2)
    assert [c["generation"] for c in read_changes(gang.told)] == [1, 3]


def test_volume_that_is_full_keeps_the_last_good(gang: Gang) -> None:
    gang.publish(2, 1)
    with run_agent(gang.env, *NATIVE) as agent:
        gang.wait_until_told(1)
        # What an administrator's mistake does to one that runs as root, too.
        moved = gang.volume.with_name("moved")
        gang.volume.rename(moved)
        gang.publish(3, 2)
        agent.wait_for("the volume cannot be written")
        assert agent.process.poll() is None
        moved.rename(gang.volume)
        gang.wait_until_told(2)
    assert gang.count_hosts() == 3


def wait_for_text(agent: AgentProcess, start: str) -> str:
    agent.wait_for(start)
    return agent.text.partition(start)[2].split()[0]


def test_long_poll_answers_when_something_changes(gang: Gang) -> None:
    gang.publish(2, 1)
    with run_agent(gang.env, *NATIVE, "--listen", "0") as agent:
        port = wait_for_text(agent, "long-polls: http://127.0.0.1:").split("/")[0]
        gang.wait_until_told(1)
        url = f"http://127.0.0.1:{port}/changes"
        with urllib.request.urlopen(f"{url}?after=0") as answer:
            seen = json.load(answer)
        assert [c["generation"] for c in seen["changes"]] == [1]
        with urllib.request.urlopen(f"{url}?after=1&timeout=0.1") as answer:
            assert json.load(answer)["changes"] == []
        threading.Timer(0.2, lambda: gang.publish(3, 2)).start()
        with urllib.request.urlopen(f"{url}?after={seen['number']}&timeout=10") as answer:
            later = json.load(answer)
    assert [c["generation"] for c in later["changes"]] == [2]
    assert later["isComplete"]


def test_render_writes_once_and_ends(gang: Gang) -> None:
    gang.publish(3, 1)
    with run_agent(gang.env, "render") as agent:
        assert agent.wait() == 0, agent.text
    assert gang.read_current() == 1
    modes = {p.name: p.stat().st_mode & 0o777 for p in (gang.volume / "current").iterdir()}
    assert set(modes.values()) == {0o444}
    assert {"env.sh", "peers.json", "hosts.openmpi", "tf_config.json"} <= modes.keys()
    assert (gang.volume / "discover_hosts.sh").stat().st_mode & 0o777 == 0o555


def test_render_of_bad_settings_names_all_and_ends_with_210(gang: Gang) -> None:
    gang.env |= {"FB_PORTS": "99999", "FB_DEBOUNCE_SEC": "soon", "FB_TF_MODE": "both"}
    with run_agent(gang.env, "render") as agent:
        assert agent.wait() == 210
    for name in ("FB_PORTS", "FB_DEBOUNCE_SEC", "FB_TF_MODE"):
        assert name in agent.text


def test_render_of_a_format_that_would_be_misread_ends_with_210(gang: Gang) -> None:
    gang.publisher.publish(build_gang(2, "ipv6"))
    with run_agent(gang.env, "render", "--formats", "hydra") as agent:
        assert agent.wait() == 210
    assert "format hydra" in agent.text
    assert gang.read_current() == 0


def test_watch_that_would_never_end_refuses_to_start(gang: Gang) -> None:
    gang.env["FC_POD_NAME"] = ""
    gang.publish(2, 1)
    with run_agent(gang.env, "watch") as agent:
        assert agent.wait() == 210
    assert "FB_SIDECAR_END=native" in agent.text


def test_unknown_words_end_with_2(gang: Gang) -> None:
    for words in ([], ["wach"], ["render", "--no-such"], ["render", "--ports"], ["run", "true"]):
        with run_agent(gang.env, *words) as agent:
            assert agent.wait() == 2, words
            assert "usage:" in agent.text

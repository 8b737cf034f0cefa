"""``watch`` when it or those it serves are killed, hang or are gone: 0, and no wrong list."""

import json
import os
import signal
import subprocess
import threading
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.rendezvous.agents import (
    Publisher,
    list_children,
    read_changes,
    run_agent,
)
from tests.rendezvous.sidecars import NATIVE, Gang, wait_for_text
from tests.support.servers.controlplane import Access
from tests.support.waiting import HANG_SECONDS, wait_until

pytestmark = pytest.mark.local

OpenGang = Callable[[], Publisher]


@pytest.fixture
def gang(api: Access, open_gang: OpenGang, tmp_path: Path) -> Gang:
    return Gang(api, open_gang(), tmp_path / "volume")


@pytest.mark.parametrize("how", ["exit 0", "exit 3", "kill -9 $$"])
def test_sidecar_of_shared_processes_ends_with_0_however_they_end(
    gang: Gang, tmp_path: Path, how: str
) -> None:
    script = tmp_path / f"train-{os.getpid()}-{how.replace(' ', '')}"
    script.write_text(f"while [ ! -e {tmp_path}/end ]; do sleep 0.05; done; {how}\n")
    gang.publish(1, 1)
    flags = ("--sidecar-end", "shared", "--notify-process", script.name)
    with (
        subprocess.Popen(["sh", str(script)]) as served,
        run_agent(gang.env, "watch", *flags) as agent,
    ):
        gang.wait_for_generation(1)
        assert agent.process.poll() is None
        (tmp_path / "end").touch()
        served.wait(HANG_SECONDS)
        assert agent.wait() == 0, agent.text
        assert "the containers it served are done" in agent.text


def test_sidecar_that_serves_nobody_gives_up_with_0(gang: Gang) -> None:
    """The main container has ended, or was killed, before this one looked."""
    gang.publish(1, 1)
    for end in ("shared", "wrapper"):
        flags = ("--sidecar-end", end, "--timeout-sec", "0.5", "--notify-process", "nobody-at-all")
        with run_agent(gang.env, "watch", *flags) as agent:
            assert agent.wait() == 0, agent.text
            assert "nobody to serve was seen" in agent.text


def test_sidecar_whose_notification_hangs_ends_at_once_with_0(gang: Gang) -> None:
    gang.publish(2, 1)
    gang.env["FB_NOTIFY_COMMAND"] = "echo stuck; exec sleep 1000"
    with run_agent(gang.env, *NATIVE) as agent:
        agent.wait_for("stuck")
        (child,) = list_children(agent.process.pid)
        try:
            agent.signal(signal.SIGTERM)
            assert agent.process.wait(timeout=HANG_SECONDS) == 0
        finally:
            os.kill(child, signal.SIGKILL)


def test_notification_that_hangs_is_killed_and_the_others_are_told(gang: Gang) -> None:
    gang.publish(2, 1)
    gang.env["FB_NOTIFY_COMMAND"] = "exec sleep 1000"
    flags = ("--notify-command-timeout-sec", "0.3", "--listen", "0")
    with run_agent(gang.env, *NATIVE, *flags) as agent:
        port = wait_for_text(agent, "long-polls: http://127.0.0.1:").split("/")[0]
        for number in (1, 2, 3):
            gang.publish(1 + number, number)
            gang.wait_for_generation(number)
            wait_until(lambda: agent.text.count("killed after 0.3 s") == number)  # noqa: B023 called at once
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/changes?after=0") as answer:
            seen = json.load(answer)
    assert [change["generation"] for change in seen["changes"]] == [1, 2, 3]


KILLS = 25


class Reader(threading.Thread):
    """Reads the generation in force again and again, and whether it is whole and no older one."""

    def __init__(self, volume: Path) -> None:
        super().__init__()
        self._current = volume / "current"
        self._ended = threading.Event()
        self.seen: list[int] = []
        self.faults: list[str] = []

    def run(self) -> None:
        while not self._ended.wait(0.001):
            folder = self._current.resolve(strict=True)
            try:
                number = json.loads((folder / "peers.json").read_text())["generation"]
                hosts = (folder / "hosts.horovod").read_text().splitlines()
            except FileNotFoundError:
                continue  # two generations later: it is read anew
            if len(hosts) != count_members(number) or number < max(self.seen, default=0):
                self.faults.append(f"{self.seen[-1:]}, then {number}: {hosts}")
            if self.seen[-1:] != [number]:
                self.seen.append(number)

    def stop(self) -> None:
        self._ended.set()
        self.join()


def count_members(generation: int) -> int:
    return 2 + generation % 3


@pytest.mark.slow
def test_sidecar_killed_again_and_again_shows_only_whole_and_newer_generations(gang: Gang) -> None:
    gang.publish(count_members(1), 1)
    with run_agent(gang.env, *NATIVE):
        gang.wait_for_generation(1)
    reader = Reader(gang.volume)
    reader.start()
    try:
        for number in range(2, KILLS + 2):
            before = gang.read_current()
            gang.publish(count_members(number), number)
            with run_agent(gang.env, *NATIVE) as agent:
                # From while it starts to after it has told of the generation.
                if number % 5:
                    wait_until(lambda: gang.read_current() > before)  # noqa: B023 called at once
                    time.sleep((number % 5 - 1) * 0.01)
                agent.process.kill()
        gang.publish(count_members(KILLS + 2), KILLS + 2)
        with run_agent(gang.env, *NATIVE):
            gang.wait_for_generation(KILLS + 2)
            wait_until(lambda: reader.seen[-1] == KILLS + 2)
    finally:
        reader.stop()
    assert reader.faults == []
    assert len(reader.seen) > KILLS / 2
    told = [change["generation"] for change in read_changes(gang.told)]
    assert told == sorted(told)

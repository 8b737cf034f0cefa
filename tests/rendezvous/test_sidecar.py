"""``watch`` and ``render`` as processes: a gang rescaled while everybody looks."""

import json
import signal
import subprocess
import threading
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path

import pytest

from framework.agent.clock import AgentClock
from framework.agent.discovery import load_access
from framework.agent.report import LineReporter
from rendezvous.agent import Agent, Setup
from rendezvous.core.notification import Notify
from rendezvous.core.target import parse_target
from rendezvous.observer import AttemptObserver
from rendezvous.settings.options import parse_options
from rendezvous.volume.writer import Writer
from tests.rendezvous.agents import (
    Publisher,
    read_changes,
    run_agent,
)
from tests.rendezvous.gangs import build_gang
from tests.rendezvous.sidecars import NATIVE, Gang, wait_for_text
from tests.support.fakes.proxy import run_proxy
from tests.support.servers.controlplane import Access
from tests.support.waiting import HANG_SECONDS, wait_until

pytestmark = pytest.mark.local

OpenGang = Callable[[], Publisher]
DISCOVERIES = 1000


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


class SkippingClock(AgentClock):
    """The real clock, only that nobody waits for a pause to pass."""

    def __init__(self) -> None:
        self._skipped = 0.0

    def monotonic(self) -> float:
        return super().monotonic() + self._skipped

    def sleep(self, seconds: float) -> None:
        self._skipped += seconds


def test_api_away_for_a_minute_keeps_the_last_good(gang: Gang, api: Access) -> None:
    gang.publish(2, 1)
    with run_proxy(api.url) as way:
        gang.env["KUBE_APISERVER_ADDRESS"] = way.address
        clock, target = SkippingClock(), parse_target(gang.env)
        options = parse_options({}, {"directory": str(gang.volume), "debounce_seconds": "0"})
        setup = Setup(options, target, {}, LineReporter("rendezvous", is_json=False), clock)
        observer = AttemptObserver(load_access(gang.env), clock, target)
        told: list[Notify] = []
        writer = Writer(str(gang.volume))
        writer.prepare()
        agent = Agent(setup, observer, writer, None, [lambda n, _: told.append(n)])

        def turn_until_told(count: int) -> None:
            def is_told() -> bool:
                agent.turn(0.01)
                return len(told) == count

            wait_until(is_told)

        turn_until_told(1)
        way.cut()
        gang.publish(3, 2)
        gang.publish(4, 3)
        start = clock.monotonic()
        while clock.monotonic() - start < 60:
            agent.turn(0.5)
            assert (gang.read_current(), gang.count_hosts()) == (1, 2)
        assert way.refused >= 10
        assert len(told) == 1
        way.is_cut = False
        turn_until_told(2)
        observer.close()
    assert [n.diff.generation for n in told] == [1, 3]


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


def test_long_poll_answers_when_something_changes(gang: Gang) -> None:
    gang.publish(2, 1)
    with run_agent(gang.env, *NATIVE, "--listen", "0") as agent:
        port = wait_for_text(agent, "long-polls: http://127.0.0.1:").split("/")[0]
        gang.wait_until_told(1)
        url = f"http://127.0.0.1:{port}/changes"
        with urllib.request.urlopen(f"{url}?after=0") as answer:
            seen = json.load(answer)
        assert [c["generation"] for c in seen["changes"]] == [1]
        with urllib.request.urlopen(f"{url}?after={seen['number']}&timeout=0.1") as answer:
            assert json.load(answer)["changes"] == []
        threading.Timer(0.2, lambda: gang.publish(3, 2)).start()
        with urllib.request.urlopen(
            f"{url}?after={seen['number']}&timeout={HANG_SECONDS}"
        ) as answer:
            later = json.load(answer)
    assert [c["generation"] for c in later["changes"]] == [2]
    assert later["isComplete"]


def test_long_poll_of_an_agent_with_the_gang_key_asks_for_it(gang: Gang, tmp_path: Path) -> None:
    key = tmp_path / "gang-key"
    gang.env["FB_GANG_KEY_FILE"] = str(key)
    with run_agent(gang.env, *NATIVE, "--listen", "0") as agent:
        assert agent.wait() == 210
        assert "the gang key cannot be read" in agent.text
    key.write_text(f"{gang.publisher.instance_uid}:{'ab' * 32}")
    gang.publish(2, 1)
    with run_agent(gang.env, *NATIVE, "--listen", "0") as agent:
        port = wait_for_text(agent, "long-polls: http://127.0.0.1:").split("/")[0]
        with pytest.raises(urllib.error.HTTPError, match="401"):
            urllib.request.urlopen(
                f"http://127.0.0.1:{port}/changes?timeout=0", timeout=HANG_SECONDS
            )
        assert "not authenticated" not in agent.text
    del gang.env["FB_GANG_KEY_FILE"]
    with run_agent(gang.env, *NATIVE, "--listen", "0") as agent:
        agent.wait_for("not authenticated, because no gang key is mounted")


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


def test_unknown_words_end_with_210(gang: Gang) -> None:
    for words in ([], ["wach"], ["render", "--no-such"], ["render", "--ports"], ["run", "true"]):
        with run_agent(gang.env, *words) as agent:
            assert agent.wait() == 210, words
            assert "usage:" in agent.text

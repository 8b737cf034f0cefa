"""``watch`` and ``render`` as processes: what they show, and with which code they end."""

import itertools
import json
import os
import signal
import subprocess
import threading
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from framework.agent.discovery import load_access
from framework.agent.report import LineReporter
from framework.api import constants
from rendezvous.agent import Agent, Setup
from rendezvous.core.notifying.notification import Notify
from rendezvous.core.target import parse_target
from rendezvous.observer import AttemptObserver
from rendezvous.settings.options import parse_options
from rendezvous.volume.writer import Writer
from tests.rendezvous.agents import (
    NATIVE,
    AgentProcess,
    Gang,
    list_children,
    read_changes,
    run_agent,
)
from tests.rendezvous.gangs import build_gang
from tests.support.fakes.agentclock import SkippingClock
from tests.support.fakes.proxy import run_proxy
from tests.support.servers.controlplane import Access
from tests.support.waiting import HANG_SECONDS, wait_until

pytestmark = pytest.mark.local


def test_sidecar_that_starts_after_a_kill_continues_with_the_next_change(gang: Gang) -> None:
    gang.publish(2, 1)
    with run_agent(gang.env, *NATIVE):
        gang.wait_until_notified(1)
    # Here it was killed by SIGKILL. The process was notified of 1; 2 is published meanwhile.
    gang.publish(3, 2)
    with run_agent(gang.env, *NATIVE):
        gang.wait_until_notified(2)
    with run_agent(gang.env, *NATIVE):
        gang.publish(4, 3)
        gang.wait_until_notified(3)
    changes = read_changes(gang.notified)
    assert [(c["previousGeneration"], c["generation"]) for c in changes] == [(0, 1), (1, 2), (2, 3)]
    assert [p["index"] for p in changes[1]["added"]] == [2]


def test_live_rescale_shows_whole_generations_in_order(gang: Gang) -> None:
    """Horovod calls the script at any moment: it prints the old hosts or the new ones."""
    sizes = [4, 6, 3, 5, 1, 6]
    gang.publish(sizes[0], 1)
    with run_agent(gang.env, *NATIVE):
        gang.wait_until_notified(1)
        for number, (before, after) in enumerate(itertools.pairwise(sizes), 2):
            gang.publish(after, number)
            hosts: list[str] = []
            while len(hosts) != after:
                script = ["/bin/sh", str(gang.volume / "discover_hosts.sh")]
                ran = subprocess.run(script, capture_output=True, text=True, check=True)
                hosts = ran.stdout.splitlines()
                assert hosts == [f"10.0.0.{i + 2}:1" for i in range(len(hosts))]
                assert len(hosts) in {before, after}
            gang.wait_until_notified(number)
    changes = read_changes(gang.notified)
    numbers = [(c["previousGeneration"], c["generation"]) for c in changes]
    assert numbers == [(i, i + 1) for i in range(len(sizes))]
    counts = [len(c["added"]) - len(c["removed"]) for c in changes]
    assert list(itertools.accumulate(counts)) == sizes


@pytest.mark.parametrize(
    ("variable", "expected"),
    [
        (constants.FRAMEWORK_ATTEMPT_INSTANCE_UID, "is seen, not another"),
        (constants.POD_UID, "worker/0 is not in it with this Pod yet"),
    ],
)
def test_roster_of_another_attempt_or_pod_is_not_shown(
    gang: Gang, variable: str, expected: str
) -> None:
    gang.env[variable] = "another"
    gang.publish(2, 1)
    with run_agent(gang.env, *NATIVE) as agent:
        agent.wait_for(expected)
    assert gang.read_current() == 0


def test_process_started_after_render_is_notified_of_later_changes_only(gang: Gang) -> None:
    gang.publish(2, 1)
    with run_agent(gang.env, "render") as init:
        assert init.wait() == 0, init.text
    gang.publish(3, 2)
    with run_agent(gang.env, *NATIVE):
        gang.wait_until_notified(1)
    (change,) = read_changes(gang.notified)
    assert (change["previousGeneration"], change["generation"]) == (1, 2)


def test_api_away_for_a_minute_keeps_the_last_good(gang: Gang, api: Access) -> None:
    gang.publish(2, 1)
    with run_proxy(api.url) as way:
        gang.env["KUBE_APISERVER_ADDRESS"] = way.address
        clock, target = SkippingClock(), parse_target(gang.env)
        options = parse_options({}, {"directory": str(gang.volume), "debounce_seconds": "0"})
        setup = Setup(options, target, {}, LineReporter("rendezvous", is_json=False), clock)
        observer = AttemptObserver(load_access(gang.env), clock, target)
        notified: list[Notify] = []
        writer = Writer(str(gang.volume))
        writer.prepare()
        agent = Agent(setup, observer, writer, None, [lambda n, _: notified.append(n)])

        def turn_until_notified(count: int) -> None:
            def is_notified() -> bool:
                agent.turn(0.01)
                return len(notified) == count

            wait_until(is_notified)

        turn_until_notified(1)
        way.cut()
        gang.publish(3, 2)
        gang.publish(4, 3)
        start = clock.monotonic()

        def is_a_minute_over() -> bool:
            agent.turn(0.5)
            assert (gang.read_current(), gang.count_hosts()) == (1, 2)
            # Of a busy machine's time a part passes without a try.
            return clock.monotonic() - start >= 60 and way.refused >= 10

        wait_until(is_a_minute_over)
        assert len(notified) == 1
        way.is_cut = False
        turn_until_notified(2)
        observer.close()
    assert [n.diff.generation for n in notified] == [1, 3]


def test_volume_that_is_full_keeps_the_last_good(gang: Gang) -> None:
    gang.publish(2, 1)
    with run_agent(gang.env, *NATIVE) as agent:
        gang.wait_until_notified(1)
        # What an administrator's mistake does to one that runs as root, too.
        moved = gang.volume.with_name("moved")
        gang.volume.rename(moved)
        gang.publish(3, 2)
        agent.wait_for("the volume cannot be written")
        assert agent.process.poll() is None
        moved.rename(gang.volume)
        gang.wait_until_notified(2)
    assert gang.count_hosts() == 3


def poll(agent: AgentProcess, query: str) -> Any:
    """Ask the agent for changes."""
    agent.wait_for("long-polls: http://127.0.0.1:")
    port = agent.text.partition("long-polls: http://127.0.0.1:")[2].partition("/")[0]
    url = f"http://127.0.0.1:{port}/changes?{query}"
    with urllib.request.urlopen(url, timeout=2 * HANG_SECONDS) as answer:
        return json.load(answer)


def test_long_poll_answers_when_something_changes(gang: Gang) -> None:
    gang.publish(2, 1)
    with run_agent(gang.env, *NATIVE, "--listen", "0") as agent:
        gang.wait_until_notified(1)
        seen = poll(agent, "after=0")
        assert [c["generation"] for c in seen["changes"]] == [1]
        assert poll(agent, f"after={seen['number']}&timeout=0.1")["changes"] == []
        threading.Timer(0.2, lambda: gang.publish(3, 2)).start()
        later = poll(agent, f"after={seen['number']}&timeout={HANG_SECONDS}")
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
        with pytest.raises(urllib.error.HTTPError, match="401"):
            poll(agent, "timeout=0")
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


def test_sidecar_without_a_container_to_serve_ends_with_0(gang: Gang) -> None:
    """The main container has ended, or was killed, before this one looked."""
    gang.publish(1, 1)
    for end in ("shared", "wrapper"):
        flags = ("--sidecar-end", end, "--timeout-sec", "0.5", "--notify-process", "nobody-at-all")
        with run_agent(gang.env, "watch", *flags) as agent:
            assert agent.wait() == 0, agent.text
            assert "no process to serve was seen" in agent.text


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


def test_notification_that_hangs_is_killed_and_the_others_follow(gang: Gang) -> None:
    gang.publish(2, 1)
    gang.env["FB_NOTIFY_COMMAND"] = "exec sleep 1000"
    flags = ("--notify-command-timeout-sec", "0.3", "--listen", "0")
    with run_agent(gang.env, *NATIVE, *flags) as agent:
        for number in (1, 2, 3):
            gang.publish(1 + number, number)
            gang.wait_for_generation(number)
            wait_until(lambda: agent.text.count("killed after 0.3 s") == number)  # noqa: B023 called at once
        # The long-poll learns of a change after the command, which was killed just now.
        wait_until(lambda: poll(agent, "after=0")["number"] >= 300)
        seen = poll(agent, "after=0")
    assert [change["generation"] for change in seen["changes"]] == [1, 2, 3]

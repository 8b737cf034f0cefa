"""``run`` restarts its command in place: agents as processes, a roster published by hand.

The test plays the controller: it reads the reports of the Pods, and publishes the next epoch.
"""

import contextlib
import os
import re
import signal
import sys
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from types import MappingProxyType

import pytest

from framework.api import constants
from framework.api.roster import FailedMember, Member, RosterRecovery, fingerprint_uid
from rendezvous.core.recovery import REFUSED
from rendezvous.process.sharedmemory import SharedMemory, find_shared_memory
from rendezvous.volume.install import SITE_DIRECTORY
from tests.rendezvous.agents import (
    AgentProcess,
    Publisher,
    list_children,
    run_agent,
)
from tests.rendezvous.gangs import build_role, build_roster
from tests.rendezvous.remotes import write_secrets
from tests.support.servers.childprocess import build_own_address, find_free_ports
from tests.support.servers.controlplane import Access
from tests.support.servers.frameworkcrd import ROOT
from tests.support.slow import keep_first
from tests.support.waiting import wait_until

ENDED, STARTED = constants.PROCESS_ENDED_ANNOTATION, constants.EPOCH_STARTED_ANNOTATION
COMMAND = "echo runs in $FB_EPOCH; while :; do sleep 0.05; done"
MEETING = """
import os, time, peers
epoch = os.environ["FB_EPOCH"]
print("runs in", epoch, flush=True)
peers.barrier("start")
print("met in", epoch, flush=True)
peers.barrier("never") if peers.roster().rank else time.sleep(1000)
"""
local = pytest.mark.local


class RestartedGang:
    """Workers on loopback addresses."""

    def __init__(self, api: Access, publisher: Publisher, root: Path, count: int) -> None:
        self.publisher = publisher
        self.uids = [publisher.create_pod("worker", index) for index in range(count)]
        (port,) = find_free_ports(1)
        self.envs = []
        self.key = write_secrets(root / "secret", publisher.instance_uid)
        for index, uid in enumerate(self.uids):
            volume = root / f"worker-{index}"
            env = publisher.build_env(api.url, api.token, volume, "worker", index, uid)
            env |= {"FB_GANG_KEY_FILE": str(self.key), "FB_BARRIER_PORT": str(port)}
            self.envs.append({**env, "FB_DEBOUNCE_SEC": "0", "FB_STOP_GRACE_SEC": "1"})
        self.agents: list[AgentProcess] = []

    def publish(
        self,
        generation: int,
        epoch: int,
        refused: tuple[int, ...] = (),
        roles: tuple[str, ...] = ("worker",),
        since: int = 1,
    ) -> None:
        members = self._build_members()
        role = build_role("worker", len(members))._replace(members=members)
        prints = tuple(fingerprint_uid(self.uids[index]) for index in refused)
        recovery = RosterRecovery(epoch, since, roles, prints)
        roster = build_roster(role, generation=generation)._replace(recovery=recovery)
        self.publisher.publish(roster)

    def publish_plain(self, generation: int) -> None:
        """Publish a gang that does not restart in place."""
        members = self._build_members()
        role = build_role("worker", len(members))._replace(members=members)
        self.publisher.publish(build_roster(role, generation=generation))

    def publish_failure(
        self, generation: int, index: int, epoch: int = 0, refused: tuple[int, ...] = ()
    ) -> None:
        """Publish that the Pod of a worker failed, and has no successor yet."""
        members = self._build_members()
        rest = tuple(member for member in members if member.index != index)
        role = build_role("worker", len(members))._replace(members=rest)
        failed = FailedMember("worker", index, members[index].fingerprint, 0, generation, 137)
        prints = tuple(fingerprint_uid(self.uids[index]) for index in refused)
        recovery = RosterRecovery(epoch, generation, ("worker",), prints)
        roster = build_roster(role, generation=generation)
        self.publisher.publish(roster._replace(complete=False, failed=(failed,), recovery=recovery))

    def publish_without(
        self, generation: int, index: int, epoch: int = 0, since: int | None = None
    ) -> None:
        """Publish that the gang is complete without a worker."""
        members = tuple(m for m in self._build_members() if m.index != index)
        role = build_role("worker", len(members))._replace(members=members)
        recovery = RosterRecovery(epoch, since or generation, ("worker",))
        roster = build_roster(role, generation=generation)
        self.publisher.publish(roster._replace(recovery=recovery))

    def _build_members(self) -> tuple[Member, ...]:
        return tuple(
            Member(index, (build_own_address(index),), fingerprint_uid(uid), 0)
            for index, uid in enumerate(self.uids)
        )

    def read(self, index: int, annotation: str) -> str:
        return self.publisher.read_annotation("worker", index, annotation)

    def wait_for_epoch(self, epoch: int) -> None:
        for agent in self.agents:
            agent.wait_for(f"runs in {epoch}\n")
        wait_until(lambda: self.read(0, STARTED) == f"1 {epoch}")

    def kill(self, index: int) -> None:
        """Kill the process of an agent, after the caller has waited for a line of its output."""
        (pid,) = list_children(self.agents[index].process.pid)
        os.kill(pid, signal.SIGKILL)


@pytest.fixture
def open_restarted(
    api: Access, open_gang: Callable[[], Publisher], tmp_path: Path
) -> Callable[..., contextlib.AbstractContextManager[RestartedGang]]:
    @contextlib.contextmanager
    def open_it(
        count: int = 3,
        command: str = COMMAND,
        *,
        debounces: Mapping[int, str] = MappingProxyType({}),
        **changes: str,
    ) -> Iterator[RestartedGang]:
        gang = RestartedGang(api, open_gang(), tmp_path, count)
        for index, seconds in debounces.items():
            gang.envs[index]["FB_DEBOUNCE_SEC"] = seconds
        gang.publish(1, 0)
        with contextlib.ExitStack() as stack:
            for env in gang.envs:
                program = "sh", "-c", command
                agent = stack.enter_context(run_agent({**env, **changes}, "run", "--", *program))
                gang.agents.append(agent)
            yield gang

    return open_it


Open = Callable[..., contextlib.AbstractContextManager[RestartedGang]]


@local
def test_killed_process_leads_to_one_restart_of_all(open_restarted: Open) -> None:
    with open_restarted() as gang:
        gang.wait_for_epoch(0)
        pids = [agent.process.pid for agent in gang.agents]
        gang.kill(1)
        wait_until(lambda: gang.read(1, ENDED) == "0 137")
        assert "runs in 1" not in gang.agents[1].text, "it waits for the controller"
        gang.publish(2, 1)
        gang.wait_for_epoch(1)
        assert [agent.process.pid for agent in gang.agents] == pids
        assert [gang.read(index, ENDED) for index in (0, 2)] == ["", ""], "ended by their agents"
        for agent in gang.agents:
            agent.signal(signal.SIGTERM)
        assert [agent.wait() for agent in gang.agents] == [143] * 3


@local
def test_nothing_starts_before_all_have_come(open_restarted: Open, tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    slow = f"trap 'sleep 0.5; touch {gone}; exit 0' TERM; ls {gone} && echo all are gone; {COMMAND}"
    with open_restarted(2, slow, FB_STOP_GRACE_SEC="60") as gang:
        gang.wait_for_epoch(0)
        gang.kill(0)
        wait_until(lambda: gang.read(0, ENDED) == "0 137")
        gang.publish(2, 1)
        gang.agents[0].wait_for("runs in 1\n")
        assert "all are gone" in gang.agents[0].text, "worker 1 had not ended yet"


@local
def test_refused_agent_ends_with_the_code_of_its_process(open_restarted: Open) -> None:
    with open_restarted(
        2, "echo runs in $FB_EPOCH; [ $FC_TASK_INDEX = 0 ] && exec sleep 100; exit 9"
    ) as gang:
        wait_until(lambda: gang.read(1, ENDED) == "0 9")
        gang.publish(2, 1, refused=(1,))
        assert gang.agents[1].wait() == 9
        gang.publish_failure(3, 1, epoch=1)
        gang.publish_without(4, 1, epoch=1)
        gang.agents[0].wait_for("runs in 1\n")


@local
def test_command_ends_at_once_when_the_pod_of_a_peer_fails(open_restarted: Open) -> None:
    with open_restarted(2) as gang:
        gang.wait_for_epoch(0)
        gang.agents[1].stop()
        gang.publish_failure(2, 1)
        gang.agents[0].wait_for("the command ended with 143")
        gang.publish_without(3, 1)
        wait_until(lambda: gang.agents[0].text.count("runs in 0\n") == 2)
        assert gang.read(0, ENDED) == "", "its own process did not fail"


@local
def test_success_and_a_later_failure_restart_the_others(open_restarted: Open) -> None:
    command = "echo runs in $FB_EPOCH of $FB_SIZE; [ $FC_TASK_INDEX = 0 ] || exec sleep 1000"
    with open_restarted(3, command) as gang:
        assert gang.agents[0].wait() == 0
        for index in (1, 2):
            gang.agents[index].wait_for("runs in 0 of 3\n")
        gang.kill(1)
        wait_until(lambda: gang.read(1, ENDED) == "0 137")
        gang.publish_without(2, 0, epoch=1, since=1)
        for index in (1, 2):
            gang.agents[index].wait_for("runs in 1 of 2\n")


@local
@pytest.mark.parametrize("is_success_alone", keep_first([True, False]))
def test_all_start_with_the_size_without_a_member_that_succeeded(
    open_restarted: Open, *, is_success_alone: bool
) -> None:
    """Its success is published while agents wait before they show the next generation."""
    command = (
        "echo runs in $FB_EPOCH of $FB_SIZE; [ $FC_TASK_INDEX$FB_EPOCH = 21 ] || exec sleep 1000"
    )
    with open_restarted(3, command, FB_DEBOUNCE_SEC="5") as gang:
        for agent in gang.agents:
            agent.wait_for("runs in 0 of 3\n")
        gang.kill(1)
        wait_until(lambda: gang.read(1, ENDED) == "0 137")
        gang.publish(2, 1)
        assert gang.agents[2].wait() == 0
        wait_until(lambda: gang.read(0, STARTED) == "1 1")
        gang.agents[1].wait_for("runs in 1 of 3\n")
        gang.kill(1)
        wait_until(lambda: gang.read(1, ENDED) == "1 137")
        if is_success_alone:
            gang.publish_without(3, 2, epoch=1, since=1)
        gang.publish_without(4, 2, epoch=2, since=1)
        for index in (0, 1):
            gang.agents[index].wait_for("runs in 2 of")
            assert "runs in 2 of 2\n" in gang.agents[index].text


def is_started_again(agent: AgentProcess) -> bool:
    return agent.text.count("runs in 0 of") == 2


@local
def test_all_start_with_the_members_that_all_show(open_restarted: Open) -> None:
    """No agent may report, so the success of worker 2 begins no new start barrier."""
    command = "echo runs in $FB_EPOCH of $FB_SIZE; exec sleep 1000"
    with open_restarted(3, command, debounces={1: "2"}) as gang:
        for agent in gang.agents:
            agent.wait_for("runs in 0 of 3\n")
        gang.agents[2].stop()
        gang.publish_failure(2, 2)
        for index in (0, 1):
            gang.agents[index].wait_for("the command ended with 143")
        gang.publish(3, 0, since=3)
        for index in (0, 1):
            gang.agents[index].wait_for("generation 3 is current")
        gang.publish_without(4, 2, since=3)
        for agent in gang.agents[:2]:
            wait_until(partial(is_started_again, agent))
            assert "runs in 0 of 2\n" in agent.text


@local
def test_epoch_and_refusal_are_taken_from_an_incomplete_generation(open_restarted: Open) -> None:
    """The Pod of worker 2 failed; processes of the others failed because of it."""
    with open_restarted(3) as gang:
        gang.wait_for_epoch(0)
        for index in (0, 1):
            gang.kill(index)
        wait_until(lambda: gang.read(0, ENDED) == gang.read(1, ENDED) == "0 137")
        gang.agents[2].stop()
        gang.publish_failure(2, 2, epoch=1, refused=(1,))
        assert gang.agents[1].wait() == 137
        assert REFUSED in gang.agents[1].text
        assert "runs in 1" not in gang.agents[0].text


@local
def test_barriers_of_processes_are_served_by_the_agent_of_rank_zero(
    open_restarted: Open, tmp_path: Path
) -> None:
    """Both use $FB_BARRIER_PORT: the agent's hub serves the processes of each epoch, too."""
    for index in range(2):
        site = tmp_path / f"worker-{index}" / SITE_DIRECTORY
        site.parent.mkdir(parents=True)
        site.symlink_to(ROOT / "rendezvous" / "site")
    with open_restarted(2, f"exec {sys.executable} -c '{MEETING}'") as gang:
        gang.wait_for_epoch(0)
        for agent in gang.agents:
            agent.wait_for("met in 0\n")
        gang.kill(0)
        wait_until(lambda: gang.read(0, ENDED) == "0 137")
        gang.publish(2, 1)
        for agent in gang.agents:
            agent.wait_for("met in 1\n")
        assert "not authenticated" not in "".join(agent.text for agent in gang.agents)


@local
def test_process_that_succeeds_ends_its_agent(open_restarted: Open) -> None:
    with open_restarted(1, "echo runs in $FB_EPOCH") as gang:
        assert gang.agents[0].wait() == 0
        assert gang.read(0, ENDED) == ""


@local
@pytest.mark.parametrize(
    ("env", "roles", "message"),
    [
        ({"FB_GANG_KEY_FILE": ""}, ("worker",), "no gang key is mounted; mount the Secret"),
        ({"FB_ACKNOWLEDGE": "off"}, ("worker",), "FB_ACKNOWLEDGE=auto"),
        ({"FB_REACH": "2222"}, ("worker",), "leave FB_REACH out"),
        ({"FB_STOP_GRACE_SEC": "600"}, ("worker",), "write at most 240"),
        ({}, ("worker", "ps"), "give it to exactly the roles that compute"),
    ],
)
def test_missing_precondition_is_an_error_that_names_the_remedy(
    api: Access,
    open_gang: Callable[[], Publisher],
    tmp_path: Path,
    env: dict[str, str],
    roles: tuple[str, ...],
    message: str,
) -> None:
    gang = RestartedGang(api, open_gang(), tmp_path, 1)
    gang.publish(1, 0, roles=roles)
    with run_agent({**gang.envs[0], **env}, "run", "--", "true") as agent:
        assert agent.wait() == 210, agent.text
        assert re.search(re.escape(message), agent.text)


def test_shared_memory_that_a_process_left_is_removed(tmp_path: Path) -> None:
    (tmp_path / "of-another-container").touch()
    memory = SharedMemory(str(tmp_path))
    memory.clean()
    memory.remember()
    (tmp_path / "torch_1").touch()
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "file").touch()
    memory.clean()
    assert [path.name for path in tmp_path.iterdir()] == ["of-another-container"]
    nowhere = SharedMemory(str(tmp_path / "nowhere"))
    nowhere.remember()
    nowhere.clean()


def test_shared_memory_of_another_user_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory = SharedMemory(str(tmp_path))
    memory.remember()
    (tmp_path / "segment").touch()
    with monkeypatch.context() as patch:
        patch.setattr(os, "geteuid", lambda: os.getuid() + 1)
        memory.clean()
    assert (tmp_path / "segment").exists()
    memory.clean()
    assert not (tmp_path / "segment").exists()


@pytest.mark.parametrize(
    ("pid", "namespace", "is_found"),
    [
        (1, "ipc:[4026532000]", True),
        (1, "ipc:[4026531839]", False),
        (1, None, False),
        (7, "ipc:[4026532000]", False),
    ],
)
def test_shared_memory_is_cleaned_only_where_it_is_that_of_the_pod(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    pid: int,
    namespace: str | None,
    *,
    is_found: bool,
) -> None:
    monkeypatch.setattr(os, "getpid", lambda: pid)
    link = tmp_path / "ipc"
    if namespace is not None:
        link.symlink_to(namespace)
    assert (find_shared_memory(str(link)) is not None) is is_found

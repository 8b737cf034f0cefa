"""``run`` finds a rank that hangs: agents as processes, training code in Python, no training stack.

The ranks of ``TRAINING`` meet in each step by files, as ranks meet in a collective operation.
"""

import contextlib
import json
import random
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

import pytest

from rendezvous.volume.install import SITE_DIRECTORY
from tests.rendezvous.agents import Publisher, list_children, run_agent
from tests.rendezvous.test_restart_in_place import ENDED, RestartedGang
from tests.support.servers.controlplane import Access
from tests.support.servers.frameworkcrd import ROOT
from tests.support.slow import keep_first
from tests.support.waiting import wait_until

COUNT = 3
HUNG_STEP = 4
SETTINGS = {"FB_PROGRESS_TIMEOUT_SEC": "3", "FB_FIRST_PROGRESS_TIMEOUT_SEC": "100"}
STACKS = {"sleep": "in work\n", "lock": "in work\n", "stopped": "none, it is stopped"}
TRAINING = """
import os, sys, threading, time, peers

folder, how, hung_rank, hung_step, count = sys.argv[1], sys.argv[2], *map(int, sys.argv[3:])
epoch = os.environ.get("FB_EPOCH", "0")
rank = int(os.environ["FC_TASK_INDEX"])
lock = threading.Lock()

def all_reduce(step):
    open(f"{folder}/{epoch}-{rank}-{step}", "w").close()
    while not all(os.path.exists(f"{folder}/{epoch}-{other}-{step}") for other in range(count)):
        time.sleep(0.01)

def work(step):
    if rank == hung_rank and step == hung_step and epoch == "0":
        print("hangs", flush=True)
        if how == "sleep":
            time.sleep(1000)
        if how == "lock":
            lock.acquire()
            lock.acquire()
        if how == "pause":
            with peers.pause("checkpoint", limit_seconds=1000):
                time.sleep(7)
        if how == "stopped":
            os.kill(os.getpid(), 19)

print("runs in", epoch, flush=True)
for step in range(100000 if epoch != "0" else 10):
    work(step)
    all_reduce(step)
    peers.progress(step)
    time.sleep(0.02)
print("trained", flush=True)
"""
pytestmark = pytest.mark.local


@pytest.fixture
def open_training(
    api: Access, open_gang: Callable[[], Publisher], tmp_path: Path
) -> Callable[..., contextlib.AbstractContextManager[RestartedGang]]:
    script = tmp_path / "train.py"
    script.write_text(TRAINING)

    @contextlib.contextmanager
    def open_it(
        how: str,
        *,
        in_place: bool = False,
        rank: int = 1,
        step: int = HUNG_STEP,
        count: int = COUNT,
        command: Sequence[str] = (),
        settings: Mapping[str, str] = MappingProxyType({}),
    ) -> Iterator[RestartedGang]:
        for index in range(count):
            site = tmp_path / f"worker-{index}" / SITE_DIRECTORY
            site.parent.mkdir(parents=True)
            site.symlink_to(ROOT / "rendezvous" / "site")
        gang = RestartedGang(api, open_gang(), tmp_path, count)
        gang.publish(1, 0) if in_place else gang.publish_plain(1)
        numbers = [str(number) for number in (rank, step, count)]
        python = [sys.executable, str(script), str(tmp_path), how, *numbers]
        with contextlib.ExitStack() as stack:
            for env in gang.envs:
                env_of_agent = {**env, **SETTINGS, **settings}
                agent = run_agent(env_of_agent, "run", "--", *(command or python))
                gang.agents.append(stack.enter_context(agent))
            yield gang

    return open_it


Open = Callable[..., contextlib.AbstractContextManager[RestartedGang]]


@pytest.mark.parametrize("how", keep_first(["sleep", "lock", "stopped"]))
def test_hung_rank_is_named_and_its_pod_ends_with_202(
    open_training: Open, how: str, tmp_path: Path
) -> None:
    message = tmp_path / "termination"
    message.touch()
    settings = {"BARRIER_TERMINATION_LOG": str(message)}
    with open_training(how, in_place=False, settings=settings) as gang:
        assert gang.agents[1].wait() == 202
        verdict = (
            f"after step {HUNG_STEP - 1}: worker/1 is behind; 2 wait for it: worker/0, worker/2"
        )
        for agent in gang.agents:
            agent.wait_for(verdict)
        end = json.loads(message.read_text())
        assert (end["exitCode"], end["reason"]) == (202, "Hung")
        assert end["message"].endswith(verdict)
        assert [agent.process.poll() for agent in gang.agents] == [None, 202, None]
        gang.agents[0].wait_for("in all_reduce")
        if how == "stopped":
            gang.agents[1].wait_for("it is stopped")
        else:
            gang.agents[1].wait_for("in work")


def test_hung_process_is_restarted_in_place(open_training: Open) -> None:
    with open_training("stopped", in_place=True) as gang:
        (pid,) = _wait_for_children(gang, 1)
        wait_until(lambda: gang.read(1, ENDED) == "0 202")
        gang.agents[0].wait_for("worker/1 is behind; 2 wait for it: worker/0, worker/2")
        assert not Path(f"/proc/{pid}").exists()
        assert [gang.read(index, ENDED) for index in (0, 2)] == ["", ""]
        gang.publish(2, 1)
        gang.wait_for_epoch(1)


def test_declared_pause_is_no_hang(open_training: Open) -> None:
    with open_training("pause", in_place=False) as gang:
        assert [agent.wait() for agent in gang.agents] == [0, 0, 0]
        assert "stands still" not in "".join(agent.text for agent in gang.agents)


@pytest.mark.parametrize("in_place", keep_first([False, True]))
def test_program_after_the_training_is_no_hang(open_training: Open, in_place: bool) -> None:  # noqa: FBT001  a parameter
    train = "import peers, time; [(peers.progress(s), time.sleep(0.1)) for s in range(20)]"
    command = ["sh", "-c", f"{sys.executable} -c '{train}'; sleep 6"]
    settings = {"FB_FIRST_PROGRESS_TIMEOUT_SEC": "4", "FB_PROGRESS_TIMEOUT_SEC": "4"}
    with open_training("", in_place=in_place, command=command, settings=settings) as gang:
        assert [agent.wait() for agent in gang.agents] == [0, 0, 0]
        assert "stands still" not in "".join(agent.text for agent in gang.agents)


PRINTING = """
for step in 1 2 3; do echo "Step   $step/9 loss 0.5" >&2; sleep 0.1; done
[ $FC_TASK_INDEX = 1 ] || echo "Step 4/9" >&2
sleep 1000
"""


def test_code_that_only_prints_its_steps_is_watched(open_training: Open) -> None:
    settings = {"FB_PROGRESS_PATTERN": "Step {step}/{total}"}
    with open_training("", command=["sh", "-c", PRINTING], settings=settings) as gang:
        assert gang.agents[1].wait() == 202
        gang.agents[0].wait_for("after step 3: worker/1 is behind; 2 wait for it")
        gang.agents[1].wait_for("Step   3/9 loss 0.5\n")


# Rank 0 has succeeded. Its successor waits for a rank that hangs.
WAITING = """
import os, peers, time
for step in range(5):
    peers.progress(step)
    time.sleep(0.05)
rank = int(os.environ["FC_TASK_INDEX"])
if rank == 2:
    time.sleep(1000)
if rank == 1:
    print("waits", flush=True)
    peers.barrier("end")
"""


@pytest.mark.slow
def test_hang_is_found_after_rank_0_has_moved_to_a_process_that_waits(open_training: Open) -> None:
    command = [sys.executable, "-c", WAITING]
    # Reports each 1.5 s: the process would serve before the agent looks.
    # The members change, so the limit for the first step counts.
    settings = {"FB_PROGRESS_TIMEOUT_SEC": "18", "FB_FIRST_PROGRESS_TIMEOUT_SEC": "18"}
    with open_training("", in_place=True, command=command, settings=settings) as gang:
        assert gang.agents[0].wait() == 0
        gang.agents[1].wait_for("waits")
        gang.publish_without(2, 0, since=1)
        gang.agents[1].wait_for("after step 4: worker/1, worker/2 do not differ")


@pytest.mark.parametrize("seed", keep_first(range(20), 0, slow_count=4))
def test_each_of_eight_ranks_is_named(open_training: Open, seed: int) -> None:
    choice = random.Random(seed)
    how, rank = choice.choice(["sleep", "lock", "stopped"]), choice.randrange(8)
    step = choice.randint(1, 8)
    # Rank 0 ends two reports after the verdict, and the others learn of it only until then.
    settings = {"FB_PROGRESS_TIMEOUT_SEC": "12"} if rank == 0 else {}
    with open_training(how, rank=rank, step=step, count=8, settings=settings) as gang:
        assert gang.agents[rank].wait() == 202
        for agent in gang.agents:
            agent.wait_for(f"after step {step - 1}: worker/{rank} is behind; 7 wait for it")
        assert [each.process.poll() for each in gang.agents].count(None) == 7
        for index, agent in enumerate(gang.agents):
            agent.wait_for(STACKS[how] if index == rank else "in all_reduce\n")


@pytest.mark.parametrize("seed", keep_first(range(20), 0, slow_count=4))
def test_declared_pause_of_each_of_eight_ranks_is_no_hang(open_training: Open, seed: int) -> None:
    choice = random.Random(seed)
    rank, step = choice.randrange(8), choice.randint(1, 8)
    with open_training("pause", rank=rank, step=step, count=8) as gang:
        assert [agent.wait() for agent in gang.agents] == [0] * 8
        assert "stands still" not in "".join(agent.text for agent in gang.agents)


def _wait_for_children(gang: RestartedGang, index: int) -> list[int]:
    gang.agents[index].wait_for("hangs")
    return list_children(gang.agents[index].process.pid)

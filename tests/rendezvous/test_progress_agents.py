"""``run`` reports how far the training is: agents as processes, training code in Python.

The ranks meet in each step, as ranks do in a collective operation. Rank 0 ends when the test lets
it, after the others: their last reports have come then.
"""

import contextlib
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from framework.api.constants import TRAINING_PROGRESS_ANNOTATION
from framework.api.trainingprogress import TrainingProgress, parse_training_progress
from rendezvous.volume.install import SITE_DIRECTORY
from tests.rendezvous.agents import Publisher, run_agent
from tests.rendezvous.test_restart_in_place import RestartedGang
from tests.support.servers.controlplane import Access
from tests.support.servers.frameworkcrd import ROOT
from tests.support.slow import keep_first

COUNT, STEPS = 3, 40
TRAINING = """
import os, sys, time, peers

folder, count, steps, busy = sys.argv[1], *map(int, sys.argv[2:4]), sys.argv[4:]
rank = int(os.environ["FC_TASK_INDEX"])

def wait_for(name):
    while not os.path.exists(f"{folder}/{name}"):
        time.sleep(0.01)

for step in range(1, steps + 1):
    open(f"{folder}/{rank}-{step}", "w").close()
    for other in range(count):
        wait_for(f"{other}-{step}")
    time.sleep(0.05)
    peers.progress(step, steps, **({"busy_seconds": float(busy[rank])} if busy else {}))
if rank == 0:
    wait_for("go")
"""
PRINTING = """
for step in 1 2 3; do echo "Step $step/3"; done
[ $FC_TASK_INDEX != 0 ] || while [ ! -e go ]; do sleep 0.1; done
"""
ALONE = {"FB_PROGRESS_STATUS": "on"}
# Agents report each second.
WATCHED = {"FB_PROGRESS_TIMEOUT_SEC": "12", "FB_FIRST_PROGRESS_TIMEOUT_SEC": "1000"}
pytestmark = pytest.mark.local


@pytest.fixture
def train(
    api: Access, open_gang: Callable[[], Publisher], tmp_path: Path
) -> Iterator[Callable[..., TrainingProgress | None]]:
    """Run a gang to its end; return what the Pod of rank 0 says then."""
    with contextlib.ExitStack() as stack:

        def run(
            settings: Mapping[str, str], *busy: str, command: tuple[str, ...] = ()
        ) -> TrainingProgress | None:
            for index in range(COUNT):
                site = tmp_path / f"worker-{index}" / SITE_DIRECTORY
                site.parent.mkdir(parents=True)
                site.symlink_to(ROOT / "rendezvous" / "site")
            gang = RestartedGang(api, open_gang(), tmp_path, COUNT)
            gang.publish_plain(1)
            numbers = (str(COUNT), str(STEPS))
            python = (sys.executable, "-c", TRAINING, str(tmp_path), *numbers, *busy)
            for env in gang.envs:
                agent = run_agent({**env, **settings}, "run", "--", *(command or python))
                gang.agents.append(stack.enter_context(agent))
            assert [agent.wait() for agent in gang.agents[1:]] == [0] * (COUNT - 1)
            (tmp_path / "go").touch()
            assert gang.agents[0].wait() == 0
            others = [gang.read(i, TRAINING_PROGRESS_ANNOTATION) for i in range(1, COUNT)]
            assert others == [""] * (COUNT - 1), "one agent writes for the gang"
            return parse_training_progress(gang.read(0, TRAINING_PROGRESS_ANNOTATION))

        yield run


Train = Callable[..., TrainingProgress | None]


def test_last_step_is_reported_without_a_limit_for_hangs(train: Train) -> None:
    found = train(ALONE)
    assert found is not None
    assert (found.generation, found.step, found.total) == (1, STEPS, STEPS)


def test_printed_steps_are_reported(train: Train, tmp_path: Path) -> None:
    script = f"cd {tmp_path}; {PRINTING}"
    settings = {**ALONE, "FB_PROGRESS_PATTERN": "Step {step}/{total}"}
    found = train(settings, command=("sh", "-c", script))
    assert found is not None
    assert (found.step, found.total) == (3, 3)


@pytest.mark.parametrize("settings", keep_first([{**WATCHED, "FB_PROGRESS_STATUS": "off"}, {}]))
def test_nothing_is_reported_unless_it_is_wanted(train: Train, settings: Mapping[str, str]) -> None:
    assert train(settings) is None


def test_ranks_that_train_in_step_have_no_straggler(train: Train) -> None:
    found = train(WATCHED)
    assert found is not None
    assert (found.step, found.straggler_count, found.stragglers) == (STEPS, 0, ())


def test_rank_with_a_longer_part_of_its_own_is_a_straggler(train: Train) -> None:
    found = train(WATCHED, "1", "2", "1")
    assert found is not None
    assert (found.slowest, found.stragglers) == ("worker/1", ("worker/1",))

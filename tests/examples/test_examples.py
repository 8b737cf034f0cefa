"""Examples that end are run through the real command line, and end as their text says."""

import re
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from tests.examples.commandline import EXAMPLES, Outcome, call, read_outcome
from tests.support.slow import keep_first
from tests.support.waiting import HANG_SECONDS

pytestmark = pytest.mark.local


def end(state: str, *groups: str, attempt: int = 0) -> Outcome:
    """Build an outcome.

    Args:
        state: of the Framework.
        groups: Tasks with equal ends, as "NAME NAME: STATE ATTEMPT CODE", by default
            "Succeeded 0 0".
        attempt: of the Framework.
    """
    tasks: dict[str, tuple[str, int, int]] = {}
    for group in groups:
        names, _, ending = group.partition(": ")
        task_state, task_attempt, code = (ending or "Succeeded 0 0").split()
        tasks |= dict.fromkeys(names.split(), (task_state, int(task_attempt), int(code)))
    return Outcome(int(state == "Failed"), state, attempt, tasks)


WORKERS = "worker/0 worker/1 worker/2"
OUTCOMES = {
    "gang.yaml": end("Succeeded", "ps/0", WORKERS, "worker/3"),
    "frameworkbarrier.yaml": end("Succeeded", "server/0 server/1", WORKERS),
    "rendezvous.yaml": end("Succeeded", WORKERS),
    "gang-key.yaml": end("Succeeded", "worker/0 worker/1"),
    "recovery.yaml": end("Succeeded", WORKERS),
    "hangs.yaml": end("Succeeded", WORKERS),
    "leaving.yaml": end("Succeeded", WORKERS),
    "batch.yaml": end("Succeeded", "part/0 part/1 part/2"),
    "tensorflow-ps.yaml": end("Succeeded", "ps/0 ps/1: Stopped 0 -220", WORKERS),
    "retry-task.yaml": end("Succeeded", "worker/0: Succeeded 2 0", "worker/1"),
    "retry-transient.yaml": end("Succeeded", "worker/0: Succeeded 1 0"),
    "retry-framework.yaml": end("Succeeded", "worker/0 worker/1", attempt=1),
    "fail-permanent.yaml": end("Failed", "worker/0: Failed 0 210", "worker/1: Stopped 0 -220"),
    "chief-dominates.yaml": end("Succeeded", "chief/0", f"{WORKERS}: Stopped 0 -220"),
    "tolerate-failures.yaml": end(
        "Succeeded", "worker/0 worker/1 worker/3", "worker/2: Failed 0 1"
    ),
}
# They become Frameworks of the same names.
KINDS = {
    "tfjob.yaml": end("Succeeded", "master/0", "ps/0 worker/0 worker/1: Stopped 0 -220"),
    "trainingjob.yaml": end("Succeeded", "launcher/0", "worker/0 worker/1: Stopped 0 -220"),
}
# Run by tests/docs/test_local_commands.py.
SCALED = ("trainingjob-elastic.yaml", "scaleout.yaml", "scalein.yaml")
# These end when their user stops them, or wait for a scheduler that a local cluster lacks.
LASTING = ("coscheduling", "hived", "kueue", "rescale", "service", "service-stateful")


def test_examples_are_all_tested_and_explained() -> None:
    files = sorted(path.name for path in EXAMPLES.glob("*.yaml"))
    assert files == sorted([*OUTCOMES, *KINDS, *SCALED, *(f"{name}.yaml" for name in LASTING)])
    readme = (EXAMPLES / "README.md").read_text()
    assert [name for name in files if f"[{name}]({name})" not in readme] == []


@pytest.mark.parametrize("name", keep_first(OUTCOMES | KINDS))
def test_example_ends_as_it_says(name: str, kubeconfig: str) -> None:
    run = call("run", f"examples/{name}", "--timeout", f"{HANG_SECONDS}s", KUBECONFIG=kubeconfig)
    assert read_outcome(run) == (OUTCOMES | KINDS)[name], run.stdout + run.stderr


def run_alone(name: str, directory: Path, isolation: str) -> CompletedProcess[str]:
    """Run an example on a cluster of its own; it must end as it says."""
    run = call(
        "run", "--local", f"examples/{name}", "--timeout", f"{HANG_SECONDS}s",
        "--isolation", isolation, "--directory", str(directory),
    )  # fmt: skip
    assert read_outcome(run) == OUTCOMES[name], run.stdout + run.stderr
    return run


def read_log(framework: str, task: str, directory: Path) -> str:
    """Read the log of a Task's training container in that cluster."""
    return call("logs", framework, task, "-c", "train", "--directory", str(directory)).stdout


ISOLATIONS = pytest.mark.parametrize("isolation", ["auto", "paths"])


@pytest.mark.slow
@ISOLATIONS
def test_gang_on_a_cluster_of_its_own_converges(isolation: str, tmp_path: Path) -> None:
    run = run_alone("gang.yaml", tmp_path, isolation)
    assert f"framework logs gang --directory {tmp_path}" in run.stdout
    log = read_log("gang", "ps/0", tmp_path)
    assert "epoch 39: loss 0.00" in log
    assert "off by at most 0.0" in log


@pytest.mark.slow
@ISOLATIONS
def test_rendezvous_example_prints_the_world_of_each_worker(isolation: str, tmp_path: Path) -> None:
    run_alone("rendezvous.yaml", tmp_path, isolation)
    for rank in range(3):
        log = read_log("rendezvous", f"worker/{rank}", tmp_path)
        assert f"rank {rank} of 3, store at " in log, log
        peers = re.search(r"^peers (.*)$", log, re.MULTILINE)
        assert peers is not None, log
        hosts = peers[1].split()
        assert all(f"{host} slots=1\n" in log and f"{host}:1\n" in log for host in hosts)
        assert len(set(hosts)) == 3


@pytest.mark.slow
@ISOLATIONS
def test_gang_with_a_key_authenticates_with_it(isolation: str, tmp_path: Path) -> None:
    run = run_alone("gang-key.yaml", tmp_path, isolation)
    for rank in range(2):
        log = read_log("gang-key", f"worker/{rank}", tmp_path)
        assert f"rank {rank} met its peers with the key\n" in log, log
        assert "not authenticated" not in log
    # The key is in no log of the controller.
    assert not re.search(r"\b[0-9a-f]{64}\b", run.stdout + run.stderr)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["recovery", "hangs"])
@ISOLATIONS
def test_rank_that_is_killed_or_hangs_and_its_peers_train_on_from_the_checkpoint(
    name: str, isolation: str, tmp_path: Path
) -> None:
    run_alone(f"{name}.yaml", tmp_path, isolation)
    for rank in range(3):
        log = read_log(name, f"worker/{rank}", tmp_path)
        lines = [line for line in log.splitlines() if line.startswith("epoch ")]
        assert lines == [
            f"epoch 0: rank {rank} begins at step 0",
            f"epoch 1: rank {rank} begins at step 5",
            f"epoch 1: rank {rank} has trained all steps",
        ], log
    if name == "hangs":
        log = read_log(name, "worker/0", tmp_path)
        assert "worker/1 is behind; 2 wait for it: worker/0, worker/2\n" in log, log


@pytest.mark.slow
def test_failed_example_shows_the_last_log_lines_of_the_failed_container(tmp_path: Path) -> None:
    run = run_alone("fail-permanent.yaml", tmp_path, "auto")
    cause = "fail-permanent worker/0: ContainerPermanentFailed: main exited with 210"
    _, _, shown = run.stdout.partition(cause)
    assert "last lines of container main:\n    the data set does not exist\n" in shown

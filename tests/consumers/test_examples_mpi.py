"""The MPI examples train: a launcher starts processes in other Pods by ssh."""

import re
import subprocess
from pathlib import Path

import pytest
import yaml

from tests.consumers.examples import STACKS, Example, run_example, start_example
from tests.consumers.stacks import require_program

STEP = re.compile(r"^step \d+: loss (\S+)$", re.MULTILINE)


def check_training(example: Example, hosts: list[str]) -> None:
    """Every host ran one process, and all hold the same, right weights."""
    log = example.read_log("launcher/0")
    ran = re.findall(rf"^rank (\d) of {len(hosts)} on (\S+)$", log, re.MULTILINE)
    started = [(str(rank), f"{example.name}-{host}") for rank, host in enumerate(hosts)]
    assert sorted(ran) == started, example.explain("other ranks")
    losses = STEP.findall(log)
    assert losses, example.explain("no steps")
    assert losses[0] > "5"
    assert losses[-1] == "0.00000"
    end = re.search(r"^off by 0\.0\d+, the same everywhere: True$", log, re.MULTILINE)
    assert end is not None, example.explain("no end")
    tasks = re.findall(r"^(\S+/\d) +(\w+) +0 ", example.output, re.MULTILINE)
    workers = [task for task, state in tasks if state == "Stopped"]
    others = [host.replace("-", "/") for host in hosts if host.startswith("worker")]
    assert workers == others, example.output
    assert ("launcher/0", "Succeeded") in tasks, example.output


def add_secret(text: str) -> str:
    made = subprocess.run(
        ["sh", str(STACKS / "ssh-secret.sh"), "mpi-ssh"], capture_output=True, text=True, check=True
    )
    return f"{made.stdout}---\n{text}"


@pytest.fixture(autouse=True)
def sshd() -> None:
    require_program("sshd", "ssh-keygen")
    if not Path("/usr/sbin/sshd").exists():
        require_program("sshd", "sshd")


@pytest.mark.parametrize("stack", ["mpi4py", "openmpi5"])
def test_open_mpi_trains_on_the_workers_only(stack: str, tmp_path: Path) -> None:
    if stack == "mpi4py":
        mpirun = require_program("openmpi", "mpirun.openmpi")
        (tmp_path / "bin").mkdir()
        (tmp_path / "bin" / "mpirun").symlink_to(mpirun)
    example = run_example("mpi-openmpi.yaml", stack, tmp_path, add_secret, (tmp_path / "bin",))
    check_training(example, ["worker-0", "worker-1", "worker-2"])


def test_mpich_trains_on_the_launcher_too(tmp_path: Path) -> None:
    example = run_example("mpi-mpich.yaml", "mpich5", tmp_path, add_secret)
    check_training(example, ["launcher-0", "worker-0", "worker-1"])


def rescale(text: str) -> str:
    """Let it train without end, and the launcher follow its gang as docs/rendezvous.md says."""
    assert "range(STEPS):" in text
    text = text.replace("range(STEPS):", "itertools.count():\n            time.sleep(0.02)")
    text = text.replace("import socket\n", "import itertools, socket, time\n")
    documents = list(yaml.safe_load_all(add_secret(text)))
    launcher = documents[-1]["spec"]["taskRoles"][0]["task"]["pod"]["spec"]["containers"][0]
    documents[-1]["spec"]["taskRoles"][1]["drain"] = {"timeoutSec": 60}
    settings = {"FB_ON_CHANGE": "restart", "FB_REACH": "worker=2222"}
    launcher["env"] = launcher["env"] + [{"name": n, "value": v} for n, v in settings.items()]
    return yaml.safe_dump_all(documents)


def test_launcher_is_started_again_with_the_hosts_of_a_rescaled_gang(tmp_path: Path) -> None:
    with start_example("mpi-openmpi.yaml", "openmpi5", tmp_path, rescale) as example:
        for count in (3, 4, 2):
            if count != 3:
                example.scale("worker", count)
            for rank in range(count):
                host = f"{example.name}-worker-{rank}"
                example.wait_for_log("launcher/0", rf"^rank {rank} of {count} on {host}$")

"""What ``framework init`` writes trains with its stack."""

from pathlib import Path

import pytest

from cli.start.gangfile import GangOptions
from cli.start.init import InitOptions, write_gang
from tests.consumers.examples import start_files
from tests.consumers.stacks import require_program

# The environment of tests/consumers that has the stack, and a line of the log of one Task.
GANGS = {
    "torch": ("torch", "worker/1", "the same everywhere: True"),
    "tf": ("tensorflow", "worker/1", "off by 0.0"),
    "horovod": ("horovod-gloo", "launcher/0", "done in world"),
    "mpi": ("openmpi5", "launcher/0", "the same everywhere: True"),
    "jax": ("jax", "worker/1", "off by 0.0"),
    "deepspeed": ("torch", "worker/1", "the same everywhere: True"),
}


@pytest.mark.parametrize("stack", GANGS)
def test_new_gang_trains_with_its_stack(stack: str, tmp_path: Path) -> None:
    environment, task, line = GANGS[stack]
    if stack in {"horovod", "mpi"} and not Path("/usr/sbin/sshd").exists():
        require_program("sshd", "sshd")
    gang = GangOptions(name=f"my-{stack}", workers=2)
    write_gang(InitOptions(gang=gang, stack=stack, output=str(tmp_path)))
    files = sorted(tmp_path.glob("*.yaml"))
    with start_files(files, environment, tmp_path) as example:
        code = example.finish()
        assert code == 0, example.explain(f"exit code {code}")
    assert line in example.read_log(task), example.explain("another end")

"""What a newcomer pastes from README.md works, and its sample of an output is real."""

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from framework.api.codec import decode_framework
from framework.api.validation import validate_framework
from framework.strictyaml import load_documents
from tests.docs.commands import ROOT, read_blocks, read_page
from tests.docs.pasted import read_pasted, write_stub
from tests.docs.sample import find_difference
from tests.support.servers.frameworkserver import build_env
from tests.support.waiting import HANG_SECONDS

README = read_page("README.md")
PROGRAMS = Path(sys.executable).parent


def run_pasted(folder: Path, script: str) -> "subprocess.CompletedProcess[str]":
    """Run a block as a user does who has a torchrun on the PATH."""
    write_stub(folder / "bin" / "torchrun")
    path = os.pathsep.join([str(folder / "bin"), str(PROGRAMS), os.environ["PATH"]])
    return subprocess.run(
        ["bash", "-eu", "-c", script],
        cwd=folder,
        env=build_env() | {"PATH": path, "HOME": str(folder), "TMPDIR": str(folder)},
        capture_output=True,
        text=True,
        check=False,
        timeout=HANG_SECONDS,
    )


def test_readme_begins_with_the_two_commands() -> None:
    commands = re.findall(r"^make (\w+)", README, re.MULTILINE)
    assert commands[:2] == ["demo", "test"]


def test_make_demo_is_the_command_whose_output_is_tested() -> None:
    recipe = re.search(r"^demo:.*\n\t(.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert recipe is not None
    # tests/e2e/test_demo.py
    assert recipe[1] == "@$(TIMED) $(BIN)/framework run --local --logs examples/gang.yaml"


@pytest.mark.slow
@pytest.mark.local
def test_pasted_framework_runs_torchrun_in_each_pod(tmp_path: Path) -> None:
    ran = run_pasted(tmp_path, read_pasted())
    assert ran.returncode == 0, ran.stdout + ran.stderr
    for rank in range(2):
        assert f"[worker/{rank}] torchrun train.py: node {rank} of 2, 1 processes" in ran.stdout, (
            ran.stdout
        )


@pytest.mark.local
@pytest.mark.slow
def test_pasted_framework_with_gpus_runs_a_process_for_each(tmp_path: Path) -> None:
    script = re.sub(r"^            # ", "            ", read_pasted(), flags=re.MULTILINE)
    script = script.replace("run --local", "run --local --gpus 4")
    ran = run_pasted(tmp_path, script)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "[worker/1] torchrun train.py: node 1 of 2, gpu processes" in ran.stdout, ran.stdout


def test_pasted_framework_is_valid() -> None:
    text = read_pasted().partition("ddp.yaml <<END\n")[2].partition("\nEND\n")[0]
    (document,) = load_documents(text, "ddp.yaml")
    assert validate_framework(decode_framework(document.value)) == ()


def read_program() -> str:
    return read_pasted().partition("<<'END'\n")[2].partition("\nEND\n")[0]


def test_pasted_program_is_python() -> None:
    compile(read_program(), "train.py", "exec")


def test_pasted_program_leaves_out_the_end_of_the_interpreter() -> None:
    """PyTorch's threads abort it now and then: a job that had trained ended as Failed."""
    *_, before, last = ast.parse(read_program()).body
    assert ast.unparse(before) == "dist.destroy_process_group()"
    assert ast.unparse(last) == "os._exit(0)"


def test_sample_with_another_line_differs() -> None:
    sample = "[ps/0] epoch 39: loss 0.00266\n...\nend after 3.3 s\n"
    output = ["[ps/0] epoch 1: loss 4.1", "[worker/0] x", "end after 12 s"]
    assert find_difference(sample, output) == ""
    assert find_difference(sample, [*output, "more"]) == "more"
    assert find_difference(sample, output[1:]) == "[ps/0] epoch 39: loss 0.00266"


def test_first_block_of_readme_sets_nothing_up_but_the_clone() -> None:
    lines = [line.split()[0:2] for line in read_blocks("README.md")[0][1].splitlines()]
    assert lines == [
        ["git", "clone"],
        ["cd", "frameworkbarrier"],
        ["make", "demo"],
        ["make", "test"],
    ]

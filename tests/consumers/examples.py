"""How the tests run an example: ``framework run --local`` with a stack's Python first on the PATH.

A scaled example is followed by its logs while it runs.
"""

import asyncio
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from framework.clock import SystemClock
from framework.kube.client import KubeClient, PatchContent
from framework.kube.config import load_kube_config
from framework.kube.resources import FRAMEWORKS, PODS
from tests.consumers.stacks import require_python
from tests.support.waiting import wait_until

CHECKOUT = Path(__file__).parents[2]
STACKS = CHECKOUT / "examples" / "stacks"
# Limits for a hang, also on a slow machine: the slowest example needs about a minute. The limit of
# a line ends first, then that of the run, then that of the test: the first has the best message.
LINE_SECONDS = 300.0
RUN_SECONDS = 480
_END_SECONDS = 120.0
_LOOK_SECONDS = 0.2
JOB_KINDS = ("Framework", "TrainingJob", "TfJob")
# What the kubelet writes before each line of a container.
_PREFIX = re.compile(r"^\S+ std(out|err) [FP] ", re.MULTILINE)


@dataclass
class Example:
    """An example while it runs, and after."""

    name: str
    directory: Path
    program: "subprocess.Popen[bytes]"
    report: Path

    @property
    def output(self) -> str:
        """What ``framework run`` has written so far."""
        return self.report.read_text(errors="replace")

    def read_log(self, task: str, container: str = "train") -> str:
        """Read what the newest Pod of a Task (``worker/0``) has written so far; "" before."""
        pod = f"{self.name}-{task.replace('/', '-')}"
        found = sorted(
            (self.directory / "logs").glob(f"*_{pod}_*/{container}.log"),
            key=lambda path: path.stat().st_mtime,
        )
        return _read_log(found[-1]) if found else ""

    def wait_for_log(self, task: str, pattern: str) -> "re.Match[str]":
        """Wait until a Task has written a line that matches."""
        deadline = time.monotonic() + LINE_SECONDS
        while True:
            match = re.search(pattern, self.read_log(task), re.MULTILINE)
            if match is not None:
                return match
            assert self.program.poll() is None, self.explain(f"it ended before {pattern!r}")
            assert time.monotonic() < deadline, self.explain(f"no {pattern!r} of {task}")
            time.sleep(_LOOK_SECONDS)

    def scale(self, role: str, count: int) -> None:
        """Change ``taskNumber``, as ``kubectl patch`` does."""
        asyncio.run(self._patch(role, count))

    async def _patch(self, role: str, count: int) -> None:
        config = load_kube_config(None, str(self.directory / "kubeconfig"), {})
        async with KubeClient(config, user_agent="tests", clock=SystemClock()) as client:
            framework = await client.get(FRAMEWORKS, "default", self.name)
            roles = [task_role["name"] for task_role in framework["spec"]["taskRoles"]]
            path = f"/spec/taskRoles/{roles.index(role)}/taskNumber"
            patch = [{"op": "replace", "path": path, "value": count}]
            await client.patch(FRAMEWORKS, "default", self.name, patch, content=PatchContent.JSON)

    def delete_pod(self, task: str) -> None:
        """Delete a Task's Pod at once, as if its node were lost."""
        asyncio.run(self._delete_pod(f"{self.name}-{task.replace('/', '-')}"))

    async def _delete_pod(self, pod: str) -> None:
        config = load_kube_config(None, str(self.directory / "kubeconfig"), {})
        async with KubeClient(config, user_agent="tests", clock=SystemClock()) as client:
            await client.delete(PODS, "default", pod, grace_seconds=0)

    def finish(self) -> int:
        """Wait for its end and return the exit code of ``framework run``, which has a timeout."""
        try:
            return self.program.wait(RUN_SECONDS + _END_SECONDS)
        except subprocess.TimeoutExpired:
            pytest.fail(self.explain("it did not end by its timeout"))

    def explain(self, what: str) -> str:
        """Return the message of a failure, with the last lines of every log."""
        parts = [what, self.output[-3000:]]
        parts += [
            f"--- {path.parent.name}/{path.name}\n{_read_log(path)[-2500:]}"
            for path in sorted((self.directory / "logs").glob("*/*.log"))
        ]
        return "\n".join(parts)


@contextmanager
def start_example(
    file: str,
    stack: str,
    directory: Path,
    change: Callable[[str], str] = lambda text: text,
    path: tuple[Path, ...] = (),
) -> Iterator[Example]:
    """Start an example of examples/stacks; ``change`` edits its text, ``path`` is for the PATH."""
    copy = directory / file
    copy.write_text(change((STACKS / file).read_text()))
    with start_files([copy], stack, directory, path) as example:
        yield example


@contextmanager
def start_files(
    files: Sequence[Path], stack: str, directory: Path, path: tuple[Path, ...] = ()
) -> Iterator[Example]:
    """Start the one job in ``files``; ``path`` is for the PATH."""
    require_python(stack)
    documents = [d for file in files for d in yaml.safe_load_all(file.read_text())]
    (name,) = [d["metadata"]["name"] for d in documents if d["kind"] in JOB_KINDS]
    words = ("run", "--local", "--timeout", f"{RUN_SECONDS}s", *map(str, files))
    with _start(name, words, stack, directory, path) as example:
        yield example


@contextmanager
def start_cluster(name: str, stack: str, directory: Path) -> Iterator[Example]:
    """Start a local cluster that runs the other kinds, for the test to create the job ``name``."""
    with _start(name, ("local", "up"), stack, directory) as example:
        wait_until(lambda: "Ctrl-C stops it" in example.output, lambda: example.output)
        yield example


@contextmanager
def _start(
    name: str, words: Sequence[str], stack: str, directory: Path, path: tuple[Path, ...] = ()
) -> Iterator[Example]:
    """Start the command line with a local cluster; it is ended after the block."""
    python = require_python(stack)
    work, report = directory / "cluster", directory / "output"
    # A file, because no thread reads a pipe while the example runs.
    with report.open("wb") as output:
        program = subprocess.Popen(
            [sys.executable, "-m", "cli.main", *words, "--directory", str(work)],
            stdout=output,
            stderr=subprocess.STDOUT,
            cwd=CHECKOUT,
            env={**os.environ, "PATH": os.pathsep.join([*map(str, path), build_path(python)])},
        )
    example = Example(name, work, program, report)
    try:
        yield example
    finally:
        if program.poll() is None:
            program.terminate()
        try:
            program.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            program.kill()
            pytest.fail(example.explain("it did not end after SIGTERM"))


def wait_for_rescale(text: str, seconds: str, step: str, size: str, first: str) -> str:
    """Let an example that is scaled from 2 to 3 and back take its time until it was.

    On a slow machine it would else end before a new member has joined. Its steps become slow after
    a third of them before the first rescale, and after two thirds before the second one.

    Args:
        text: the example.
        seconds: the pause of a step in it; the others are expressions in its program.
        step: number of the step.
        size: size of the world.
        first: first step of this world.
    """
    pause = f"time.sleep({seconds})"
    assert pause in text
    is_fast = f"{step} < 100 * ({size} - 1) or ({size} == 2 and {first} > 0)"
    return text.replace(pause, f"time.sleep({seconds} if {is_fast} else 2.0)")


def _read_log(path: Path) -> str:
    return _PREFIX.sub("", path.read_text(errors="replace"))


def build_path(python: Path) -> str:
    """Build the PATH on which ``python3`` and the stack's programs are the stack's."""
    return os.pathsep.join([str(python.parent), os.environ["PATH"]])


def run_example(
    file: str,
    stack: str,
    directory: Path,
    change: Callable[[str], str] = lambda text: text,
    path: tuple[Path, ...] = (),
) -> Example:
    """Run an example to its end, which must be success."""
    with start_example(file, stack, directory, change, path) as example:
        code = example.finish()
        assert code == 0, example.explain(f"exit code {code}")
        return example

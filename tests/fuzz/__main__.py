"""Fuzzes the targets: ``python -m tests.fuzz [--seconds N | --fixed] [TARGET...]``.

Each target gets its own process, with an equal part of the time or with its own number of inputs.
Inputs that failed are judged again here, without instrumentation; an input that fails again is kept
in the corpus, where ``make test`` replays it, and the exit code is 1.
"""

import argparse
import hashlib
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path

from tests.fuzz import forms
from tests.fuzz.budget import judge
from tests.fuzz.kept import CORPUS
from tests.fuzz.targets import TARGETS
from tests.fuzz.worker import MEMORY_BYTES, Progress, read_progress

ROOT = Path(__file__).parents[2]
_LEAST_SECONDS = 2.0
# Bounds a hang: a slow machine takes several times as long as a quiet one.
_MAX_FURTHER_SECONDS = 1200.0


@dataclass(frozen=True, slots=True)
class Run:
    """The result of one target's process."""

    target: str
    progress: Progress
    candidates: list[bytes]
    failure: str
    """Why the process failed; empty if it did not."""


def main() -> int:
    """Fuzz, judge the inputs that failed again, and print what was found."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--seconds", type=float, default=600.0, help="of all targets together")
    parser.add_argument(
        "--fixed", action="store_true", help="try the same inputs in each run; no limit of time"
    )
    parser.add_argument("--seed", type=int)
    parser.add_argument("--jobs", type=int, default=min(4, os.cpu_count() or 1))
    parser.add_argument("targets", nargs="*", help=f"of {', '.join(TARGETS)}; all by default")
    options = parser.parse_args()
    names = options.targets or list(TARGETS)
    unknown = sorted(set(names) - set(TARGETS))
    if unknown:
        parser.error(f"no target {', '.join(unknown)}")
    if options.seed is None:
        options.seed = 1 if options.fixed else int(time.time())  # noqa: TID251 a new one
    options.seconds = max(_LEAST_SECONDS, options.seconds * options.jobs / len(names))
    extent = "fixed inputs" if options.fixed else f"{options.seconds:.0f} s each"
    is_guided = not options.fixed and find_spec("atheris")
    engine = "atheris" if is_guided else "the seeded mutator"
    print(f"{len(names)} targets, {extent}, seed {options.seed}, by {engine}")
    with tempfile.TemporaryDirectory(prefix="frameworkbarrier-fuzz-") as directory:
        faults = list(_fuzz_all(names, options, Path(directory)))
    forms.remove_files()
    for fault in faults:
        print(f"FINDING {fault}")
    print(f"fuzz: {len(faults)} findings")
    return 1 if faults else 0


def _fuzz_all(names: list[str], options: argparse.Namespace, directory: Path) -> Iterator[str]:
    resource.setrlimit(
        resource.RLIMIT_AS, (MEMORY_BYTES, resource.getrlimit(resource.RLIMIT_AS)[1])
    )
    with ThreadPoolExecutor(options.jobs) as pool:
        for run in pool.map(partial(_fuzz, options=options, directory=directory), names):
            faults = list(_judge_again(run))
            tried = f"{run.progress.executions:>8} inputs {run.progress.digest[:12]}"
            print(f"{run.target:<28} {tried}, {len(faults)} findings", flush=True)
            yield from faults


def _fuzz(name: str, *, options: argparse.Namespace, directory: Path) -> Run:
    out = directory / name
    out.mkdir()
    extent = (
        ["--inputs", str(TARGETS[name].fixed_inputs)]
        if options.fixed
        else ["--seconds", f"{options.seconds:.0f}"]
    )
    worker = [sys.executable, "-m", "tests.fuzz.worker", name, str(out)]
    failure = ""
    try:
        done = subprocess.run(
            [*worker, "--seed", str(options.seed), *extent],
            cwd=ROOT,
            check=False,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            timeout=options.seconds + _MAX_FURTHER_SECONDS,
        )
    except subprocess.TimeoutExpired:
        failure = "killed: it did not end"
    else:
        if done.returncode != 0:
            tail = done.stderr.decode("utf-8", "replace")[-2000:]
            failure = f"exit code {done.returncode}: {tail}"
    candidates = [path.read_bytes() for path in sorted(out.glob("candidate-*"))]
    progress = read_progress(out)
    return Run(name, progress, [*candidates, *([progress.last] if failure else [])], failure)


def _judge_again(run: Run) -> Iterator[str]:
    """Keep the inputs that fail without instrumentation too, and yield what is wrong with each."""
    found = 0
    for data in run.candidates:
        fault = judge(TARGETS[run.target], data)
        if fault:
            found += 1
            yield f"{run.target}: {fault}; kept as {_keep(run.target, data)}"
    if run.failure and not found:
        yield f"{run.target}: its process ended with {run.failure}"


def _keep(target: str, data: bytes) -> str:
    folder = CORPUS / target
    folder.mkdir(exist_ok=True)
    path = folder / f"found-{hashlib.sha256(data).hexdigest()[:12]}"
    path.write_bytes(data)
    return str(path.relative_to(ROOT))


if __name__ == "__main__":
    sys.exit(main())

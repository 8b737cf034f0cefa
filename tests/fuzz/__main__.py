"""Fuzzes all targets for a while: ``python -m tests.fuzz [--seconds N] [TARGET...]``.

Called by ``make fuzz``. Each target gets a process of its own and an equal part of the time. What
a process found is judged again here, without instrumentation; an input that fails then is kept in
the corpus, where ``make test`` replays it, and the exit code is 1.
"""

import argparse
import hashlib
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from tests.fuzz import forms
from tests.fuzz.budget import judge
from tests.fuzz.kept import CORPUS
from tests.fuzz.targets import TARGETS
from tests.fuzz.worker import MEMORY_BYTES, read_running

ROOT = Path(__file__).parents[2]
_LEAST_SECONDS = 2.0
# Imports, and the input that is under way when the time is over.
_PATIENCE_SECONDS = 180.0


@dataclass(frozen=True, slots=True)
class Run:
    """What became of one target's process."""

    target: str
    executions: int
    candidates: list[bytes]
    death: str
    """Why it ended before its time; empty if it did not."""


def main() -> int:
    """Fuzz, judge and tell."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--seconds", type=float, default=600.0, help="of all targets together")
    parser.add_argument("--seed", type=int, default=int(time.time()))  # noqa: TID251 a new one
    parser.add_argument("--jobs", type=int, default=min(4, os.cpu_count() or 1))
    parser.add_argument("targets", nargs="*", help=f"of {', '.join(TARGETS)}; all by default")
    options = parser.parse_args()
    names = options.targets or list(TARGETS)
    unknown = sorted(set(names) - set(TARGETS))
    if unknown:
        parser.error(f"no target {', '.join(unknown)}")
    engine = "atheris" if find_spec("atheris") else "the seeded mutator (atheris is not installed)"
    seconds = max(_LEAST_SECONDS, options.seconds * options.jobs / len(names))
    print(f"{len(names)} targets, {seconds:.0f} s each, seed {options.seed}, by {engine}")
    with tempfile.TemporaryDirectory(prefix="frameworkbarrier-fuzz-") as directory:
        faults = list(_fuzz_all(names, seconds, options, Path(directory)))
    forms.remove_files()
    for fault in faults:
        print(f"FINDING {fault}")
    print(f"fuzz: {len(faults)} findings")
    return 1 if faults else 0


def _fuzz_all(
    names: Sequence[str], seconds: float, options: argparse.Namespace, directory: Path
) -> Iterator[str]:
    resource.setrlimit(
        resource.RLIMIT_AS, (MEMORY_BYTES, resource.getrlimit(resource.RLIMIT_AS)[1])
    )
    with ThreadPoolExecutor(options.jobs) as pool:
        runs = pool.map(lambda name: _fuzz(name, seconds, options.seed, directory / name), names)
        for run in runs:
            faults = list(_judge_again(run))
            print(
                f"{run.target:<28} {run.executions:>8} inputs, {len(faults)} findings", flush=True
            )
            yield from faults


def _fuzz(name: str, seconds: float, seed: int, out: Path) -> Run:
    out.mkdir()
    command = [
        sys.executable,
        "-m",
        "tests.fuzz.worker",
        name,
        f"{seconds:.0f}",
        str(out),
        str(seed),
    ]
    death = ""
    try:
        done = subprocess.run(
            command,
            cwd=ROOT,
            check=False,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            timeout=seconds + _PATIENCE_SECONDS,
        )
    except subprocess.TimeoutExpired:
        death = "killed: it did not end"
    else:
        if done.returncode != 0:
            tail = done.stderr.decode("utf-8", "replace")[-2000:]
            death = f"exit code {done.returncode}: {tail}"
    candidates = [path.read_bytes() for path in sorted(out.glob("candidate-*"))]
    if death:
        candidates.append(read_running(out))
    counted = out / "executions"
    executions = int(counted.read_text()) if counted.exists() else 0
    return Run(name, executions, candidates, death)


def _judge_again(run: Run) -> Iterator[str]:
    """Keep and tell the inputs that fail without instrumentation too."""
    found = 0
    for data in run.candidates:
        fault = judge(TARGETS[run.target], data)
        if fault:
            found += 1
            yield f"{run.target}: {fault}; kept as {_keep(run.target, data)}"
    if run.death and not found:
        yield f"{run.target}: its process ended with {run.death}"


def _keep(target: str, data: bytes) -> str:
    folder = CORPUS / target
    folder.mkdir(exist_ok=True)
    path = folder / f"found-{hashlib.sha256(data).hexdigest()[:12]}"
    path.write_bytes(data)
    return str(path.relative_to(ROOT))


if __name__ == "__main__":
    sys.exit(main())

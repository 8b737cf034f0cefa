"""Fuzzes one target: ``python -m tests.fuzz.worker TARGET OUT (--seconds|--inputs) N``.

Started by ``tests.fuzz``, one process for each target.

- With ``--seconds``, atheris guides the search by coverage, if it is installed; else a seeded
  mutator does, which prefers costly inputs.
- With ``--inputs``, the seeded mutator runs, and no decision depends on time or coverage: each run
  on each machine tries the same inputs.

Inputs that fail are written to OUT; the parent judges them again without instrumentation. The file
OUT/progress has the last input, so the parent knows what a killed worker was busy with.
"""

import argparse
import contextlib
import hashlib
import importlib
import mmap
import random
import resource
import sys
import time
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from tests.fuzz.budget import Target, judge
from tests.fuzz.kept import list_inputs
from tests.fuzz.mutation import grow, mutate, pump

MEMORY_BYTES = 3 * 1024**3
_INSTRUMENTED = ("framework", "controller", "barrier", "rendezvous", "localcluster", "cli")
# Instrumented code is slower; the parent judges by the budget itself.
_SLACK_OF_INSTRUMENTED = 4.0
_MEMORY_EVERY = 16
_MAX_FINDINGS = 20
_MAX_POOL = 500
_HEADER_BYTES = 48


def main() -> None:
    """Fuzz for a time, or with a number of inputs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("target")
    parser.add_argument("out", type=Path)
    parser.add_argument("--seed", type=int, default=1)
    limit = parser.add_mutually_exclusive_group(required=True)
    limit.add_argument("--seconds", type=float)
    limit.add_argument("--inputs", type=int)
    options = parser.parse_args()
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    sys.setrecursionlimit(1000)
    if options.seconds is None or find_spec("atheris") is None:
        _fuzz_seeded(Session(_load(options.target), options.out), options)
        return
    atheris = importlib.import_module("atheris")
    with atheris.instrument_imports(include=list(_INSTRUMENTED)):
        target = _load(options.target)
    _fuzz_guided(atheris, Session(target, options.out, slack=_SLACK_OF_INSTRUMENTED), options)


def _load(name: str) -> Target:
    from tests.fuzz.targets import TARGETS  # noqa: PLC0415 imports what atheris instruments

    return TARGETS[name]


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a worker got."""

    executions: int
    digest: str
    """SHA-256 of all inputs tried, in their order."""
    last: bytes
    """The last input; the worker may not have finished it."""


class Session:
    """One run: judges inputs and keeps those that fail."""

    def __init__(self, target: Target, out: Path, *, slack: float = 1.0) -> None:
        """Write progress and failing inputs below ``out``."""
        self.target = target
        self.executions = 0
        self._out = out
        self._slack = slack
        self._seen: set[str] = set()
        self._digest = hashlib.sha256()
        self._progress = _open_shared(out / "progress", target.max_bytes + _HEADER_BYTES)

    def run(self, data: bytes) -> None:
        """Judge one input."""
        data = data[: self.target.max_bytes]
        self.executions += 1
        self._record(data)
        with_memory = self.executions % _MEMORY_EVERY == 0
        fault = judge(self.target, data, slack=self._slack, with_memory=with_memory)
        kind = fault if fault.startswith("raised") else fault.partition(" for ")[0][-6:]
        if fault and kind not in self._seen and len(self._seen) < _MAX_FINDINGS:
            self._seen.add(kind)
            name = hashlib.sha256(data).hexdigest()[:16]
            (self._out / f"candidate-{name}").write_bytes(data)

    def _record(self, data: bytes) -> None:
        size = len(data).to_bytes(8, "little")
        self._digest.update(size + data)
        header = size + self.executions.to_bytes(8, "little") + self._digest.digest()
        self._progress[: len(header) + len(data)] = header + data


def _open_shared(path: Path, size: int) -> mmap.mmap:
    with path.open("w+b") as file:
        file.truncate(size)
        return mmap.mmap(file.fileno(), size)


def read_progress(out: Path) -> Progress:
    """Return how far a worker got that may have been killed."""
    path = out / "progress"
    raw = path.read_bytes() if path.exists() else bytes(_HEADER_BYTES)
    size, executions = (int.from_bytes(raw[at : at + 8], "little") for at in (0, 8))
    last = raw[_HEADER_BYTES : _HEADER_BYTES + size]
    return Progress(executions, raw[16:_HEADER_BYTES].hex(), last)


def _fuzz_guided(atheris: Any, session: Session, options: argparse.Namespace) -> None:
    corpus = options.out / "corpus"
    corpus.mkdir()
    for number, data in enumerate(list_inputs(session.target)):
        (corpus / f"seed-{number}").write_bytes(data)

    def change(data: bytes, max_size: int, seed: int) -> bytes:
        rng = random.Random(seed)
        kind = rng.random()
        if kind < 0.02:
            return pump(bytes(data), rng)[:max_size]
        if kind < 0.04:
            return grow(bytes(data), rng, max_size // 4)[:max_size]
        return bytes(atheris.Mutate(data, max_size))

    arguments = [
        "fuzz",
        str(corpus),
        f"-max_total_time={int(options.seconds)}",
        f"-seed={options.seed + 1}",
        f"-max_len={session.target.max_bytes}",
        "-len_control=20",
        "-rss_limit_mb=0",
        "-timeout=60",
        "-verbosity=0",
        "-print_final_stats=0",
    ]
    atheris.Setup(arguments, session.run, custom_mutator=change)
    atheris.Fuzz()


def _fuzz_seeded(session: Session, options: argparse.Namespace) -> None:
    """Mutate inputs of a pool, and add one in a hundred results to the pool.

    A search by time also adds each result that is more costly than all results before it.
    """
    target = session.target
    rng = random.Random(f"{target.name} {options.seed}")
    pool = list_inputs(target)
    deadline = None if options.seconds is None else time.monotonic() + options.seconds
    for data in pool:
        session.run(data)
    highest = 0.0
    while session.executions < options.inputs if deadline is None else time.monotonic() < deadline:
        data = mutate(rng.choice(pool), pool, rng, target.max_bytes)
        started = time.thread_time()
        session.run(data)
        cost = (time.thread_time() - started) / (len(data) + 256)
        is_costly = deadline is not None and cost > highest
        if is_costly or rng.random() < 0.01:
            highest = max(highest, cost)
            pool.append(data)
            if len(pool) > _MAX_POOL:
                del pool[rng.randrange(len(pool))]


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        main()

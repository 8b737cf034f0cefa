"""Fuzzes one target in a process of its own: ``python -m tests.fuzz.worker TARGET SECONDS OUT``.

Started by ``tests.fuzz``. Coverage-guided by atheris where it is installed, else by a seeded
mutator that keeps the inputs which cost most for their size or fail in a new way. Every input that
looks wrong is written to OUT; the parent judges it again without instrumentation. The last input
is in OUT/running, so the parent knows what a killed worker was busy with.
"""

import contextlib
import hashlib
import importlib
import mmap
import random
import resource
import sys
import time
from pathlib import Path
from typing import Any

atheris: Any = None
with contextlib.suppress(ImportError):
    atheris = importlib.import_module("atheris")

MEMORY_BYTES = 3 * 1024**3
_INSTRUMENTED = ("framework", "controller", "barrier", "rendezvous", "localcluster", "cli")
# Instrumented code is slower; the parent judges by the budget itself.
_SLACK = 1.0 if atheris is None else 4.0
_MEMORY_EVERY = 16
_MAX_FINDINGS = 20
_MAX_POOL = 500


def main(arguments: list[str]) -> None:
    """Fuzz until the time is over."""
    name, seconds, out, seed = arguments[0], float(arguments[1]), Path(arguments[2]), arguments[3]
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    sys.setrecursionlimit(1000)
    if atheris is None:
        target = _load(name)
        _fuzz_seeded(Session(target, out), seconds, random.Random(f"{name} {seed}"))
        return
    with atheris.instrument_imports(include=list(_INSTRUMENTED)):
        target = _load(name)
    _fuzz_guided(Session(target, out), seconds, seed, out)


def _load(name: str) -> Any:
    from tests.fuzz.targets import TARGETS  # noqa: PLC0415 atheris must come before

    return TARGETS[name]


class Session:
    """One run: judges inputs and keeps those that look wrong."""

    def __init__(self, target: Any, out: Path) -> None:
        """Write findings below ``out``."""
        from tests.fuzz.budget import judge  # noqa: PLC0415 atheris must come before

        self.target = target
        self.executions = 0
        self._judge = judge
        self._out = out
        self._seen: set[str] = set()
        self._running = _open_shared(out / "running", target.max_bytes + 8)

    def run(self, data: bytes) -> str:
        """Judge one input; return what looks wrong with it."""
        data = data[: self.target.max_bytes]
        self.executions += 1
        self._running[:8] = len(data).to_bytes(8, "little")
        self._running[8 : 8 + len(data)] = data
        with_memory = self.executions % _MEMORY_EVERY == 0
        fault = str(self._judge(self.target, data, slack=_SLACK, with_memory=with_memory))
        kind = fault if fault.startswith("raised") else fault.partition(" for ")[0][-6:]
        if fault and kind not in self._seen and len(self._seen) < _MAX_FINDINGS:
            self._seen.add(kind)
            name = hashlib.sha256(data).hexdigest()[:16]
            (self._out / f"candidate-{name}").write_bytes(data)
        return fault

    def tell(self) -> None:
        """Say how many inputs were tried."""
        (self._out / "executions").write_text(str(self.executions))


def _open_shared(path: Path, size: int) -> mmap.mmap:
    with path.open("w+b") as file:
        file.truncate(size)
        return mmap.mmap(file.fileno(), size)


def read_running(out: Path) -> bytes:
    """Return the input that a worker was busy with when it died."""
    raw = (out / "running").read_bytes() if (out / "running").exists() else b""
    size = int.from_bytes(raw[:8], "little")
    return raw[8 : 8 + size]


def _fuzz_guided(session: Session, seconds: float, seed: str, out: Path) -> None:
    from tests.fuzz.mutation import grow, pump  # noqa: PLC0415 atheris must come before

    corpus = out / "corpus"
    corpus.mkdir(exist_ok=True)
    for number, data in enumerate(_list_inputs(session.target)):
        (corpus / f"seed-{number}").write_bytes(data)
    deadline = time.monotonic() + seconds

    def run(data: bytes) -> None:
        session.run(data)
        if session.executions % 64 == 0 or time.monotonic() > deadline:
            session.tell()

    def mutate(data: bytes, max_size: int, number: int) -> bytes:
        rng = random.Random(number)
        kind = rng.random()
        if kind < 0.02:
            return pump(bytes(data), rng)[:max_size]
        if kind < 0.04:
            return grow(bytes(data), rng, max_size // 4)[:max_size]
        return bytes(atheris.Mutate(data, max_size))

    options = [
        "fuzz",
        str(corpus),
        f"-max_total_time={int(seconds)}",
        f"-seed={int(seed) + 1}",
        f"-max_len={session.target.max_bytes}",
        "-len_control=20",
        "-rss_limit_mb=0",
        "-timeout=60",
        "-verbosity=0",
        "-print_final_stats=0",
    ]
    atheris.Setup(options, run, custom_mutator=mutate)
    atheris.Fuzz()


def _fuzz_seeded(session: Session, seconds: float, rng: random.Random) -> None:
    from tests.fuzz.mutation import mutate  # noqa: PLC0415 atheris must come before

    pool = _list_inputs(session.target)
    deadline = time.monotonic() + seconds
    for data in pool:
        session.run(data)
    dearest = 0.0
    while time.monotonic() < deadline:
        data = mutate(rng.choice(pool), pool, rng, session.target.max_bytes)
        started = time.thread_time()
        session.run(data)
        cost = (time.thread_time() - started) / (len(data) + 256)
        if cost > dearest or rng.random() < 0.01:
            dearest = max(dearest, cost)
            pool.append(data)
            if len(pool) > _MAX_POOL:
                del pool[rng.randrange(len(pool))]
    session.tell()


def _list_inputs(target: Any) -> list[bytes]:
    from tests.fuzz.kept import list_corpus  # noqa: PLC0415 atheris must come before

    return [*target.seeds, *(path.read_bytes() for path in list_corpus(target.name))]


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        main(sys.argv[1:])

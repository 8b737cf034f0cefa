"""Long-lived Pods on a local cluster: start, half of them down, up again, stop.

Run by people::

    python -m benchmarks.many_pods --rounds 20 --pods 100

Each round starts a cluster of its own with ``framework run --local``. Its Pods sleep.
"""

import argparse
import os
import re
import resource
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from benchmarks.measuring import describe_machine

NAME = "many-pods"
ROLE = "worker"
_PAUSE_SECONDS = 0.05
_RUNNING = re.compile(rf"({ROLE}/\d+) +Running".encode())

_FRAMEWORK = """
apiVersion: frameworkcontroller.microsoft.com/v1
kind: Framework
metadata: {{name: {name}}}
spec:
  executionType: Start
  retryPolicy: {{fancyRetryPolicy: false, maxRetryCount: 0}}
  taskRoles:
  - name: {role}
    taskNumber: {pods}
    frameworkAttemptCompletionPolicy: {{minFailedTaskCount: 1, minSucceededTaskCount: -1}}
    task:
      retryPolicy: {{fancyRetryPolicy: false, maxRetryCount: 0}}
      pod: {{spec: {{restartPolicy: Never,
                   containers: [{{name: main, image: any, command: [sleep, "{sleep}"]}}]}}}}
"""


class Round(NamedTuple):
    """Seconds of one round."""

    start: float
    """Until all Pods are Running, with the start of the cluster."""
    down: float
    """Until the processes of half of the Pods are gone."""
    up: float
    """Until all processes run again."""
    stop: float
    """From SIGTERM until the program of the cluster has ended."""
    cpu: float
    """CPU seconds of everything that the round started."""


class Bench:
    """One round after another."""

    def __init__(self, program: Path, pods: int, limit_seconds: float) -> None:
        """Run ``program`` with ``pods`` Pods; ``limit_seconds`` is the limit of a step."""
        self._program = str(program)
        self._pods = pods
        self._limit_seconds = limit_seconds
        # No other program sleeps for exactly this time.
        self._sleep = f"{100_000 + os.getpid()}.5"

    def run_round(self, directory: Path) -> Round:
        """Run a round in an empty directory.

        Raises:
            TimeoutError: a step took too long.
            subprocess.SubprocessError: a command failed, or did not end.
        """
        file, output, state = directory / "f.yaml", directory / "output", directory / "state"
        pods = {"pods": self._pods, "sleep": self._sleep}
        file.write_text(_FRAMEWORK.format(name=NAME, role=ROLE, **pods), encoding="utf-8")
        cpu, marks = _read_cpu_seconds(), [time.monotonic()]
        command = ["run", "--local", "--all", "--directory", str(state), str(file)]
        with output.open("wb") as stdout:
            cluster = subprocess.Popen(
                [self._program, *command], stdout=stdout, stderr=subprocess.STDOUT
            )
        try:
            self._wait(lambda: len(set(_RUNNING.findall(output.read_bytes()))) == self._pods)
            marks.append(time.monotonic())
            for count in (self._pods // 2, self._pods):
                self._scale(state / "kubeconfig", count)
                self._wait(lambda count=count: self._count_processes() == count)  # type: ignore[misc]  # a default is not inferred
                marks.append(time.monotonic())
            cluster.send_signal(signal.SIGTERM)
            cluster.wait(self._limit_seconds)
            marks.append(time.monotonic())
        finally:
            cluster.kill()
            cluster.wait(self._limit_seconds)
        self._wait(lambda: self._count_processes() == 0)
        start, down, up, stop = (after - before for before, after in pairwise(marks))
        return Round(start, down, up, stop, _read_cpu_seconds() - cpu)

    def _scale(self, kubeconfig: Path, count: int) -> None:
        subprocess.run(
            [self._program, "scale", NAME, f"{ROLE}={count}"],
            env={**os.environ, "KUBECONFIG": str(kubeconfig)},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=self._limit_seconds,
            check=True,
        )

    def _wait(self, is_reached: Callable[[], bool]) -> None:
        deadline = time.monotonic() + self._limit_seconds
        while not is_reached():
            if time.monotonic() > deadline:
                raise TimeoutError(f"a step took more than {self._limit_seconds:g} s")
            time.sleep(_PAUSE_SECONDS)

    def _count_processes(self) -> int:
        wanted = f"sleep\0{self._sleep}\0".encode()
        return sum(_read_command(path) == wanted for path in Path("/proc").glob("[0-9]*/cmdline"))


def _read_command(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


def _read_cpu_seconds() -> float:
    """Read the CPU seconds of all children that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _print_row(name: str, row: tuple[float, ...]) -> None:
    print(f"{name:>6} " + " ".join(f"{seconds:6.2f}" for seconds in row), flush=True)


def main() -> None:
    """Run all rounds and print their seconds."""
    beside = Path(sys.executable).with_name("framework")
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=20, help="how many (20)")
    parser.add_argument("--pods", type=int, default=100, help="Pods of the Framework (100)")
    parser.add_argument("--program", type=Path, default=beside, help="the command framework")
    parser.add_argument("--limit-seconds", type=float, default=120.0, help="of a step (120)")
    options = parser.parse_args()
    bench = Bench(options.program, options.pods, options.limit_seconds)
    print(f"python -m benchmarks.many_pods {' '.join(sys.argv[1:])}")
    print(describe_machine())
    print(f"{'round':>6} " + " ".join(f"{name:>6}" for name in Round._fields))
    rounds = []
    for number in range(1, options.rounds + 1):
        with tempfile.TemporaryDirectory(prefix="many-pods-") as directory:
            rounds.append(bench.run_round(Path(directory)))
        _print_row(str(number), rounds[-1])
    columns = list(zip(*rounds, strict=True))
    _print_row("median", tuple(map(statistics.median, columns)))
    _print_row("max", tuple(map(max, columns)))


if __name__ == "__main__":
    main()

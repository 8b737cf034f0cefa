"""Time of the completion of names and of the help, for which a user at a shell waits.

Run by people::

    python -m benchmarks.completion --frameworks 20

Each program is the installed ``framework``, started as bash starts it for a Tab key, on a real API
server. The programs take turns with a Python that does nothing: on a busy machine, only the ratio
to it is meaningful. Linux only.
"""

import argparse
import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.measuring import describe_machine
from cli.catalog import COMPLETE_VARIABLE
from framework.kube.resources import FRAMEWORKS
from tests.support.builders import build_role_wire, build_submission
from tests.support.servers.binaries import find_binaries
from tests.support.servers.controlplane import Access, ControlPlane

_PROGRAM = str(Path(sys.executable).with_name("framework"))
_TASKS = 8
_WARM_UPS = 2
_IDLE = "python -c pass"


@dataclass(frozen=True)
class Case:
    """A program to be measured."""

    name: str
    command: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict)
    answer: str = ""
    """Text that its output must contain."""


def build_completion(line: str, answer: str) -> Case:
    """Build the call that bash makes for the Tab key after a line."""
    env = {
        "COMP_LINE": line,
        "COMP_POINT": str(len(line)),
        COMPLETE_VARIABLE: "bash_complete",
    }
    return Case(f"{line}<Tab>", (_PROGRAM,), env, answer)


CASES = (
    Case(_IDLE, (sys.executable, "-c", "pass")),
    Case("framework --help", (_PROGRAM, "--help"), answer="Run:"),
    build_completion("framework lo", "plain,logs"),
    build_completion("framework get ", "plain,gang-0"),
    build_completion("framework scale gang-0 ", "plain,worker="),
    build_completion("framework exec gang-0 ", "plain,worker/0"),
)


@dataclass(frozen=True)
class Sample:
    """One run of a program."""

    wall_seconds: float
    cpu_seconds: float
    """User and system."""


def measure(case: Case, env: Mapping[str, str]) -> Sample:
    """Run a program to its end."""
    before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    done = subprocess.run(
        case.command,
        env={**env, **case.env},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    wall = time.monotonic() - started
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode != 0 or case.answer not in done.stdout:
        raise RuntimeError(f"{case.name}: exit code {done.returncode}\n{done.stdout}")
    return Sample(wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)


def create_frameworks(access: Access, count: int) -> None:
    """Create Frameworks in the namespace default; no controller runs."""
    http = access.open_http()
    for number in range(count):
        body = build_submission(f"gang-{number}", build_role_wire("worker", _TASKS))
        status, answer = http.request("POST", FRAMEWORKS.path("default"), body)
        if status != 201:  # noqa: PLR2004 Created
            raise RuntimeError(f"{status}: {answer}")


def report(samples: Mapping[str, list[Sample]]) -> None:
    """Print the median of each program, and its ratio to a Python that does nothing."""
    idle = statistics.median(sample.cpu_seconds for sample in samples[_IDLE])
    print(f"{'':34} {'wall':>8} {'least':>8} {'CPU':>8} {'least':>8}  CPU ratio")
    for name, runs in samples.items():
        walls = [run.wall_seconds * 1000 for run in runs]
        cpus = [run.cpu_seconds * 1000 for run in runs]
        wall, cpu = statistics.median(walls), statistics.median(cpus)
        print(
            f"{name:34} {wall:5.0f} ms {min(walls):5.0f} ms {cpu:5.0f} ms {min(cpus):5.0f} ms"
            f"  {cpu / 1000 / idle:5.1f}"
        )


def run(options: argparse.Namespace) -> None:
    """Measure all programs in turns."""
    plane = ControlPlane(find_binaries(os.environ, build=True))
    try:
        access = plane.start()
        create_frameworks(access, options.frameworks)
        # Without compiled files, each run would compile all modules.
        kept = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
        env = {**kept, "KUBECONFIG": access.kubeconfig}
        samples: dict[str, list[Sample]] = {case.name: [] for case in CASES}
        for turn in range(_WARM_UPS + options.repeat):
            for case in CASES:
                sample = measure(case, env)
                if turn >= _WARM_UPS:
                    samples[case.name].append(sample)
    finally:
        plane.stop()
    report(samples)


def main() -> None:
    """Run as a program."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--frameworks", type=int, default=20, metavar="N")
    parser.add_argument("--repeat", type=int, default=10, metavar="N")
    options = parser.parse_args()
    print(f"$ python -m benchmarks.completion {' '.join(sys.argv[1:])}")
    print(describe_machine(), flush=True)
    run(options)


if __name__ == "__main__":
    main()

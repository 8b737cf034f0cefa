"""Runs the differential suites against our controller, on the local or on a real API server.

usage: python -m tests.kube.difftest DIFFTEST_DIR [--server local|kube]
       [--as-shipped-role cluster|namespaced] [--settle SECONDS] [NAME ...]

DIFFTEST_DIR holds ``run.py``, which plays scenarios, and ``fuzz.py``, which replays recorded random
events; both compare where a Framework ends with where the Go original ended. With names only those
scenarios are played. This program starts what it needs: an API server on which nothing runs
the Pods, the CRD, and ``framework-controller``. Exit code 0: all agree.

A replay waits a second or so after each event (--settle). On a busy machine the controller may need
longer, so the replays that failed are made again, once, on a new server with longer waits: one that
really departs from the original fails again.
With --as-shipped-role the controller has only the rights that deploy/ gives it, and it is a failure
if it was refused anything; what it was granted and did not use is printed.
"""

import argparse
import contextlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import yaml

from tests.support.machine.prerequisites import MissingPrerequisiteError, report_missing
from tests.support.servers.binaries import BuildError
from tests.support.servers.childprocess import ChildError, ChildProcess
from tests.support.servers.controlplane import Access, open_control_plane
from tests.support.servers.deployed import ROLES, Deployed, apply_role
from tests.support.servers.frameworkcrd import ROOT, install_crd
from tests.support.servers.frameworkserver import open_local_server, start_controller

# Only bounds a hang.
SUITE_SECONDS = 1200
# Of a replay that is made again.
_PATIENT_SETTLE_SECONDS = 5.0
# More failures than these have another cause than a busy machine.
_MOST_REPEATED = 40
_FAILED_SEED = re.compile(r"FAIL (\d+) ")
# The original never pauses before a retry, and replays wait for the next Pod a second or so.
_SHIPPED_CONFIG = ROOT / "controller" / "config" / "default-config.yaml"
CONFIG = {
    **yaml.safe_load(_SHIPPED_CONFIG.read_text(encoding="utf-8")),
    "retryBackoffMaxSec": 0,
}
# The namespace of the suites.
NAMESPACE = "default"


@contextlib.contextmanager
def open_server(kind: str, folder: Path) -> Iterator[Access]:
    """Open an API server with the CRD on which nothing runs the Pods."""
    if kind == "local":
        with open_local_server(folder) as access:
            yield access
        return
    with open_control_plane(os.environ, build=True) as access:
        install_crd(access.open_http())
        yield access


def run_suites(
    folder: Path,
    names: list[str],
    access: Access,
    controller: ChildProcess,
    settle_seconds: float | None,
) -> tuple[int, list[str]]:
    """Play the suites.

    Returns:
        0 if each Framework ended as under the original, and the seeds of the replays that did not.
    """
    to_server = [access.url, f"--token={access.token}"]
    code, failed = 0, []
    if (folder / "run.py").is_file():
        code, _ = play(controller, [str(folder / "run.py"), *to_server, *names])
    if not names and (folder / "fuzz.py").is_file():
        replay = [str(folder / "fuzz.py"), "replay", *to_server, "--dir", str(folder / "fuzz")]
        if settle_seconds is not None:
            replay += ["--settle", str(settle_seconds)]
        replay_code, lines = play(controller, replay)
        failed = [seed for line in lines for seed in _FAILED_SEED.findall(line)]
        code = max(code, 0 if failed else replay_code)
    return code, failed


def play(controller: ChildProcess, command: list[str]) -> tuple[int, list[str]]:
    """Run a suite and print its output; return its exit code and the lines."""
    program = [sys.executable, *command]
    lines = []
    with subprocess.Popen(program, stdout=subprocess.PIPE, text=True) as suite:
        timer = threading.Timer(SUITE_SECONDS, suite.kill)
        timer.start()
        for line in suite.stdout or ():
            print(line, end="", flush=True)
            lines.append(line)
        timer.cancel()
    controller.raise_if_ended()
    return suite.returncode, lines


def select_replays(folder: Path, seeds: list[str], target: Path) -> Path:
    """Make a folder of suites with the replays of these seeds only."""
    (target / "fuzz").mkdir(parents=True)
    shutil.copy(folder / "fuzz.py", target)
    for seed in seeds:
        shutil.copy(folder / "fuzz" / f"{seed}.json", target / "fuzz")
    return target


@contextlib.contextmanager
def start_as_shipped(access: Access, role: str, folder: Path) -> Iterator[ChildProcess]:
    """Run the controller with its shipped rights only; afterwards fail if it was refused any.

    Raises:
        ChildError: it was.
    """
    objects = apply_role(access, role, NAMESPACE, folder)
    deployed = Deployed(access, objects, folder, CONFIG)
    child = deployed.launch()
    try:
        yield child
    finally:
        child.terminate()
    used, refused = deployed.audit.read_used(), deployed.audit.read_refused()
    print(f"as shipped ({role}): {len(used)} rights used, {len(refused)} refused")
    for right in sorted(deployed.granted - used):
        print(f"  granted, not asked for here: {right.verb} {right.resource} {right.group}")
    if refused:
        raise ChildError(f"the shipped role lacks {sorted(refused)}")


def open_controller(
    access: Access, role: str | None, folder: Path
) -> contextlib.AbstractContextManager[ChildProcess]:
    """Run the controller, as administrator or with the rights of a shipped role."""
    if role is None:
        config = folder / "config.yaml"
        config.write_text(yaml.safe_dump(CONFIG))
        return start_controller(access, folder, "--config", str(config))
    return start_as_shipped(access, role, folder)


def run_on_new_server(
    arguments: argparse.Namespace, suites: Path, folder: Path
) -> tuple[int, list[str]]:
    """Start a server and a controller, and play the suites; returns what ``run_suites`` does."""
    folder.mkdir()
    with (
        open_server(arguments.server, folder) as access,
        open_controller(access, arguments.role, folder) as controller,
    ):
        outcome = run_suites(suites, arguments.names, access, controller, arguments.settle)
        if outcome != (0, []):
            print(f"end of the controller's log:\n{controller.tail()}", file=sys.stderr)
        return outcome


def main() -> int:
    """Run the suites, and failed replays again; return the exit code."""
    parser = argparse.ArgumentParser(prog="difftest")
    parser.add_argument("folder", type=Path, metavar="DIFFTEST_DIR")
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--server", choices=["local", "kube"], default="local")
    parser.add_argument("--as-shipped-role", choices=ROLES, dest="role")
    parser.add_argument("--settle", type=float, metavar="SECONDS")
    arguments = parser.parse_intermixed_args()
    if arguments.role is not None and arguments.server != "kube":
        parser.error("--as-shipped-role needs --server kube: only a real server has roles")
    if not (arguments.folder / "run.py").is_file():
        parser.error(f"{arguments.folder}: there is no run.py; name the folder of the suites")
    started = time.monotonic()
    try:
        with tempfile.TemporaryDirectory(prefix="frameworkbarrier-difftest-") as name:
            folder = Path(name)
            code, failed = run_on_new_server(arguments, arguments.folder, folder / "first")
            if failed and code == 0 and len(failed) <= _MOST_REPEATED:
                print(f"again, with longer waits: {', '.join(failed)}")
                arguments.settle = _PATIENT_SETTLE_SECONDS
                again = select_replays(arguments.folder, failed, folder / "suites")
                code, failed = run_on_new_server(arguments, again, folder / "second")
            code = max(code, int(bool(failed)))
    except MissingPrerequisiteError as e:
        return report_missing(e)
    except (BuildError, ChildError, subprocess.TimeoutExpired) as e:
        print(f"difftest: {e}", file=sys.stderr)
        return 1
    outcome = "passed" if code == 0 else "failed"
    print(f"difftest on {arguments.server}: {outcome} in {time.monotonic() - started:.0f} s")
    return code


if __name__ == "__main__":
    sys.exit(main())

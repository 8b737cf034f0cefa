"""Runs the differential suites against our controller, on the local or on a real API server.

usage: python -m tests.kube.difftest DIFFTEST_DIR [--server local|kube]
       [--as-shipped-role cluster|namespaced] [--settle SECONDS] [NAME ...]

DIFFTEST_DIR holds ``run.py``, which plays scenarios, and ``fuzz.py``, which replays recorded random
events; both compare where a Framework ends with where the Go original ended. With names only those
scenarios are played. This program starts what it needs: an API server on which nothing runs
the Pods, the CRD, and ``framework-controller``. Exit code 0: all agree.

A busy machine needs more than the second or so that replays wait after each event: --settle.
With --as-shipped-role the controller has only the rights that deploy/ gives it, and it is a failure
if it was refused anything; what it was granted and did not use is printed.
"""

import argparse
import contextlib
import os
import subprocess
import sys
import tempfile
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

SUITE_SECONDS = 600
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
) -> int:
    """Play the suites; return 0 if each Framework ended as under the original."""
    to_server = [access.url, f"--token={access.token}"]
    commands = [[str(folder / "run.py"), *to_server, *names]]
    if not names and (folder / "fuzz.py").is_file():
        replay = [str(folder / "fuzz.py"), "replay", *to_server, "--dir", str(folder / "fuzz")]
        if settle_seconds is not None:
            replay += ["--settle", str(settle_seconds)]
        commands.append(replay)
    codes = []
    for command in commands:
        program = [sys.executable, *command]
        codes.append(subprocess.run(program, check=False, timeout=SUITE_SECONDS).returncode)
        controller.raise_if_ended()
    return max(codes)


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


def main() -> int:
    """Start everything, run, stop everything."""
    parser = argparse.ArgumentParser(prog="difftest")
    parser.add_argument("folder", type=Path, metavar="DIFFTEST_DIR")
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--server", choices=["local", "kube"], default="local")
    parser.add_argument("--as-shipped-role", choices=ROLES, dest="role")
    parser.add_argument("--settle", type=float, metavar="SECONDS")
    arguments = parser.parse_intermixed_args()
    if arguments.role is not None and arguments.server != "kube":
        parser.error("--as-shipped-role needs --server kube: only a real server has roles")
    started = time.monotonic()
    try:
        with tempfile.TemporaryDirectory(prefix="frameworkbarrier-difftest-") as name:
            folder = Path(name)
            with (
                open_server(arguments.server, folder) as access,
                open_controller(access, arguments.role, folder) as controller,
            ):
                code = run_suites(
                    arguments.folder, arguments.names, access, controller, arguments.settle
                )
                if code != 0:
                    print(f"end of the controller's log:\n{controller.tail()}", file=sys.stderr)
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

"""Installs the Debian packages that a suite of tests needs, and reports missing ones.

Usage::

    python -m tests.support.machine.prerequisites

It installs the programs that the tests of ``make test`` run. Packages are installed only by
root, where apt-get exists. With CI=true, a suite whose prerequisites are missing fails; elsewhere
it is skipped with one line that says what to install. The same holds for a single test that calls
``pytest.skip`` (tests/conftest.py).
"""

import functools
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence

from tests.skips import CI_ENV, is_ci

# Program -> Debian package, for the tests of `make test` that run these programs.
TEST_PROGRAMS = {
    "bash": "bash",
    "busybox": "busybox",
    "dash": "dash",
    "fish": "fish",
    "openssl": "openssl",
    "runuser": "util-linux",
    "unshare": "util-linux",
    "zsh": "zsh",
}


class MissingPrerequisiteError(Exception):
    """The machine lacks a prerequisite; the message is one line with the remedy."""


def report_missing(error: MissingPrerequisiteError) -> int:
    """Print in one line why a suite does not run; return its exit code: 0, or in CI 1."""
    if is_ci(os.environ):
        print(f"FAILED: {error}; with {CI_ENV}=true no suite is skipped", flush=True)
        return 1
    print(f"SKIPPED: {error}", flush=True)
    return 0


def install_programs(programs: Mapping[str, str], more_packages: Sequence[str] = ()) -> None:
    """Install the packages (program -> package) of the programs that are not on the PATH.

    Raises:
        MissingPrerequisiteError: some are missing and cannot be installed here.
    """
    packages = {programs[name] for name in programs if not shutil.which(name)}
    install_packages(sorted(packages | set(more_packages)))
    absent = [name for name in programs if not shutil.which(name)]
    if absent:
        names = " ".join(sorted({programs[name] for name in absent}))
        raise MissingPrerequisiteError(
            f"{', '.join(absent)} not found on the PATH, from the packages {names}"
        )


def install_packages(packages: Sequence[str]) -> None:
    """Install Debian packages, or do nothing if dpkg has all of them.

    Raises:
        MissingPrerequisiteError: some are missing and cannot be installed here.
    """
    missing = [name for name in packages if not _is_installed(name)]
    if not missing:
        return
    remedy = f"install the packages {' '.join(missing)}"
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        raise MissingPrerequisiteError(remedy)
    _update_package_lists()
    print(f"apt-get install {' '.join(missing)}", flush=True)
    # --no-remove: a package is not installed if it conflicts with an installed one.
    options = ["--yes", "--no-install-recommends", "--no-remove", "-o", "DPkg::Lock::Timeout=300"]
    done = _apt_get("install", *options, *missing)
    if done.returncode != 0:
        last_line = (done.stderr.strip() or "no message").splitlines()[-1]
        raise MissingPrerequisiteError(f"{remedy}: apt-get failed: {last_line}")


@functools.cache
def _update_package_lists() -> None:
    """Fetch the lists of packages, once per process: a fresh machine has none, or old ones.

    The exit code is ignored, because one of several mirrors may not be reachable.
    """
    print("apt-get update", flush=True)
    _apt_get("update")


def _apt_get(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["apt-get", *arguments],
        env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )


def _is_installed(package: str) -> bool:
    if shutil.which("dpkg-query") is None:
        return False
    query = ["dpkg-query", "--show", "--showformat=${db:Status-Status}", package]
    done = subprocess.run(query, capture_output=True, text=True, check=False)
    return done.stdout == "installed"


if __name__ == "__main__":
    try:
        install_programs(TEST_PROGRAMS)
    except MissingPrerequisiteError as error:
        sys.exit(report_missing(error))

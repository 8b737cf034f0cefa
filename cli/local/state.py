"""The state file of a local cluster that runs, and the directory of the newest ``run --local``.

The process of the cluster holds a lock for as long as it runs. A state file without a locked lock
file belongs to a process that has ended. The module is imported by completions of a shell, so it
imports nothing that starts a cluster; ``cli.local.cluster`` writes the state file.
"""

import contextlib
import fcntl
import json
import logging
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from cli.exitcodes import CliError, ExitCode
from localcluster.private_files import (
    ExposedError,
    check_private_directory,
    is_in_use,
    make_private_directory,
    read_regular_file,
    write_private_file,
)

logger = logging.getLogger(__name__)

STATE_FILE = "state.json"
LOCK_FILE = "lock"
_LAST_RUN_FILE = "last-run"
# The longest path of Linux.
_MAX_PATH_BYTES = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterState:
    """Contents of the state file of a running cluster."""

    pid: int
    """Process of the cluster."""
    server: str
    """URL of the API server, without a token."""
    kubeconfig: str
    """Path of the kubeconfig."""
    directory: str
    """Directory of the logs and of the state file."""
    started_at: str
    """Time of the start, in ISO 8601."""
    note: str = ""
    """Limits of the cluster on this host; "" if there are none."""


def find_state_directory(directory: str | None) -> Path:
    """Find the directory of this user's cluster."""
    if directory:
        return Path(directory).absolute()
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    if runtime:
        return Path(runtime) / "frameworkbarrier"
    state = os.environ.get("XDG_STATE_HOME")
    return (Path(state) if state else Path.home() / ".local" / "state") / "frameworkbarrier"


def read_state(directory: Path) -> ClusterState | None:
    """Read the state of the cluster that runs there; None if none does.

    Raises:
        CliError: another user could have written it.
    """
    try:
        check_private_directory(directory)
        with (directory / LOCK_FILE).open("rb") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                # The process that holds the lock runs.
                stored: dict[str, Any] = json.loads((directory / STATE_FILE).read_bytes())
                return ClusterState(**stored)
    except ExposedError as e:
        raise CliError(ExitCode.USAGE, f"--directory: {e}") from e
    except (OSError, ValueError, TypeError):
        # No cluster ran here, or it has not written its state file yet.
        return None
    return None


def remember_run(directory: Path) -> None:
    """Remember the directory of a ``run --local``, so that ``logs`` finds it; best effort."""
    place = find_state_directory(None)
    try:
        make_private_directory(place)
        write_private_file(place / _LAST_RUN_FILE, str(directory))
    except (OSError, ExposedError) as e:
        logger.debug("the directory of this run is not remembered", extra={"error": str(e)})


def find_last_run() -> Path | None:
    """Find the directory of the newest ``run --local`` of this user; None if it is gone."""
    place = find_state_directory(None)
    try:
        check_private_directory(place)
        path = Path(read_regular_file(place / _LAST_RUN_FILE, _MAX_PATH_BYTES).decode())
        check_private_directory(path)
    except (OSError, ValueError, ExposedError):
        return None
    return path


def list_kept_directories() -> list[Path]:
    """List the directories in which local clusters of this user keep logs.

    That of the newest ``run --local`` comes before that of ``local up``.
    """
    found = [last] if (last := find_last_run()) is not None else []
    place = find_state_directory(None)
    # After su, XDG_RUNTIME_DIR still belongs to another user.
    with contextlib.suppress(OSError, ExposedError):
        check_private_directory(place)
        found.append(place)
    return found


class RunningCluster(NamedTuple):
    """A local cluster that runs."""

    kubeconfig: Path
    directory: Path


def list_running() -> list[RunningCluster]:
    """List the local clusters of this user that run: that of ``local up``, then the newest run.

    Raises:
        CliError: another user could have written the state file.
    """
    found = []
    state = read_state(find_state_directory(None))
    if state is not None:
        found.append(RunningCluster(Path(state.kubeconfig), Path(state.directory)))
    last = find_last_run()
    # A cluster removes its kubeconfig when it ends; a killed one cannot, but its lock is gone.
    if last is not None and is_in_use(last):
        found.append(RunningCluster(last / "kubeconfig", last))
    return found

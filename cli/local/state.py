"""The state file of a local cluster that runs.

The process of the cluster holds a lock for as long as it runs. A state file without a locked lock
file belongs to a process that has ended.
"""

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from cli.exitcodes import CliError, ExitCode
from framework.clock import SystemClock
from localcluster.cluster import LocalCluster, LocalClusterError
from localcluster.private_files import (
    ExposedError,
    check_private_directory,
    write_private_file,
)

_STATE_FILE = "state.json"
_LOCK_FILE = "lock"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterState:
    """Contents of the state file of a running cluster."""

    pid: int
    server: str
    kubeconfig: str
    directory: str
    started_at: str
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
        with (directory / _LOCK_FILE).open("rb") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                # The process that holds the lock runs.
                stored: dict[str, Any] = json.loads((directory / _STATE_FILE).read_bytes())
                return ClusterState(**stored)
    except ExposedError as e:
        raise CliError(ExitCode.USAGE, f"--directory: {e}") from e
    except (OSError, ValueError, TypeError):
        # No cluster ran here, or it has not written its state file yet.
        return None
    return None


@contextmanager
def published(cluster: LocalCluster, note: str) -> Iterator[ClusterState]:
    """Publish this cluster to other commands while the block runs."""
    state = ClusterState(
        pid=os.getpid(),
        server=cluster.kube_config.server,
        kubeconfig=str(cluster.kubeconfig_path),
        directory=str(cluster.directory),
        started_at=SystemClock().now().isoformat(timespec="seconds"),
        note=note,
    )
    with (cluster.directory / _LOCK_FILE).open("wb") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as e:
            raise LocalClusterError(
                f"--directory: another cluster has just started in {cluster.directory}"
            ) from e
        path = cluster.directory / _STATE_FILE
        write_private_file(path, json.dumps(asdict(state)))
        try:
            yield state
        finally:
            path.unlink(missing_ok=True)
            (cluster.directory / _LOCK_FILE).unlink(missing_ok=True)

"""Runs a local cluster in this process, for `framework local up` and `framework run --local`."""

import gc
import json
import logging
import os
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from cli.exitcodes import CliError, ExitCode
from cli.local.state import LOCK_FILE, STATE_FILE, ClusterState
from framework.clock import SystemClock, SystemRandom, SystemUids
from framework.logs import configure_logging
from localcluster.cluster import (
    ClusterOptions,
    LocalCluster,
    LocalClusterError,
    PartFailedError,
)
from localcluster.kubelet.container.sandbox import Isolation
from localcluster.network.choice import NetworkChoice
from localcluster.private_files import (
    ExposedError,
    claim,
    make_private_directory,
    write_private_file,
)

logger = logging.getLogger(__name__)

LOG_FILE = "cluster.log"
# As `gc.set_threshold` takes them; the first one is 700 in Python 3.11.
_COLLECTION_THRESHOLDS = (20_000, 20, 50)


@dataclass(frozen=True, slots=True, kw_only=True)
class UpOptions:
    """Options of a local cluster."""

    detach: bool = False
    """Whether the cluster runs in the background."""
    kubeconfig: str | None = None
    """Path of the kubeconfig to write; None for a file in the directory of the cluster."""
    with_kubelet: bool = True
    """Whether Pods run; without a kubelet they stay Pending."""
    with_controller: bool = True
    """Whether the controller of Frameworks runs in the cluster."""
    with_kinds: bool = False
    """Whether this controller also reconciles TfJobs and TrainingJobs."""
    port: int = 0
    """Port of the API server; 0 for any free port."""
    isolation: str = "auto"
    """Volumes of Pods: ``auto``, ``root`` or ``paths``."""
    network: str = "auto"
    """Addresses of Pods: ``auto``, ``namespace`` or ``loopback``."""
    gpus: int = 0
    """GPUs that the node offers."""
    directory: str | None = None
    """State of the cluster, as the user named it; None for the directory of this user."""


@asynccontextmanager
async def open_local_cluster(directory: Path, *, options: UpOptions) -> AsyncIterator[LocalCluster]:
    """Run a local cluster in this process; its own log goes to a file in its directory.

    Raises:
        CliError: it cannot start, or a part of it failed for good.
    """
    cluster = LocalCluster(
        ClusterOptions(
            directory=directory,
            port=options.port,
            with_kubelet=options.with_kubelet,
            with_controller=options.with_controller,
            with_kinds=options.with_kinds,
            kubeconfig_path=Path(options.kubeconfig) if options.kubeconfig else None,
            isolation=Isolation(options.isolation),
            network=NetworkChoice(options.network),
            gpus=options.gpus,
        ),
        clock=SystemClock(),
        uids=SystemUids(),
        random=SystemRandom(),
    )
    try:
        with _logging_to(directory), _failures_logged(), _rare_collections():
            async with cluster:
                yield cluster
    except LocalClusterError as e:
        raise CliError(ExitCode.USAGE, str(e)) from e
    except PartFailedError as e:
        raise CliError(ExitCode.UNREACHABLE, str(e)) from e


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
    with (cluster.directory / LOCK_FILE).open("wb") as lock:
        if not claim(lock.fileno()):
            raise LocalClusterError(
                f"--directory: another cluster has just started in {cluster.directory}"
            )
        path = cluster.directory / STATE_FILE
        write_private_file(path, json.dumps(asdict(state)))
        try:
            yield state
        finally:
            path.unlink(missing_ok=True)
            (cluster.directory / LOCK_FILE).unlink(missing_ok=True)


@contextmanager
def _rare_collections() -> Iterator[None]:
    """Collect garbage less often: there are few cycles, and a collection visits all objects."""
    before = gc.get_threshold()
    gc.freeze()
    gc.set_threshold(*_COLLECTION_THRESHOLDS)
    try:
        yield
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()


@contextmanager
def _failures_logged() -> Iterator[None]:
    """Write the reason into the log: a cluster in the background has no terminal."""
    try:
        yield
    except PartFailedError as e:
        logger.error("the cluster ends", extra={"error": str(e)})
        raise


@contextmanager
def _logging_to(directory: Path) -> Iterator[None]:
    try:
        make_private_directory(directory)
        log = (directory / LOG_FILE).open("a", encoding="utf-8")
    except ExposedError as e:
        raise LocalClusterError(f"--directory: {e}") from e
    except OSError as e:
        raise LocalClusterError(
            f"--directory: cannot write to {directory}: {e.strerror}; "
            "give a directory you may write to"
        ) from e
    with log:
        configure_logging(stream=log)
        try:
            yield
        finally:
            configure_logging(level="error")

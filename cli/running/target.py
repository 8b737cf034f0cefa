"""The cluster of a run: an existing cluster, or a local cluster that ends with the run."""

import tempfile
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from cli.files.manifests import Manifest
from cli.invocation import build_command, build_export
from cli.local import requires_local_cluster
from cli.loglines.query import KeptLogs
from cli.running.display import Display
from cli.running.options import RunOptions
from framework.kube.config import KubeConfig


@dataclass(frozen=True, slots=True)
class Target:
    """The cluster to run on. Without a local cluster, it is the configuration only."""

    config: KubeConfig
    """The API server."""
    logs_directory: Path | None = None
    """Directory in which a local cluster leaves the logs."""
    kept_logs: KeptLogs | None = None
    """The logs of a local cluster."""
    kubeconfig: Path | None = None
    """Kubeconfig with which other programs reach a local cluster."""
    note: str = ""
    """Limits of a local cluster on this host; "" if there are none."""

    def introduce(self, display: Display) -> None:
        """Print how to reach the local cluster from another shell."""
        if self.kubeconfig is not None:
            display.say(f"local cluster in {self.logs_directory}; to reach it from another shell:")
            display.say(f"  {build_export('KUBECONFIG', str(self.kubeconfig))}")
        if self.note:
            display.remark(f"note: {self.note}")

    def explain_kept_logs(self, display: Display, frameworks: Iterable[Manifest]) -> None:
        """Print the commands that read the logs of an ended local cluster."""
        if self.logs_directory is None:
            return
        display.say(f"logs are kept in {self.logs_directory}; to read them:")
        directory = str(self.logs_directory)
        for manifest in frameworks:
            scope = [] if manifest.namespace in {None, "default"} else ["-n", manifest.namespace]
            command = build_command("logs", manifest.name, *scope, "--directory", directory)
            display.say(f"  {command}")


@asynccontextmanager
async def open_target(options: RunOptions, config: KubeConfig | None) -> AsyncIterator[Target]:
    """Open the cluster of ``config``; without one, start a local cluster."""
    if config is not None:
        yield Target(config)
        return
    with requires_local_cluster():
        from cli.local.cluster import UpOptions, open_local_cluster
        from cli.local.keptlogs import LocalLogs
        from cli.local.state import remember_run

    directory = Path(options.directory or tempfile.mkdtemp(prefix="framework-"))
    local = UpOptions(isolation=options.isolation, network=options.network, gpus=options.gpus)
    async with open_local_cluster(directory, options=local) as cluster:
        remember_run(cluster.directory)
        note = await cluster.ready()
        yield Target(
            cluster.kube_config,
            cluster.directory,
            LocalLogs(cluster.logs),
            cluster.kubeconfig_path,
            note,
        )

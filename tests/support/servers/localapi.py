"""A local API server without kubelet and controller, in the process of the test."""

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import NamedTuple

from framework.clock import SystemClock, SystemRandom, SystemUids
from framework.kube.client import KubeClient
from localcluster.cluster import ClusterOptions, LocalCluster


class LocalApi(NamedTuple):
    """The server, and a client of it."""

    cluster: LocalCluster
    client: KubeClient


@contextlib.asynccontextmanager
async def open_local_api(directory: Path) -> AsyncIterator[LocalApi]:
    """Run a server whose files are in ``directory``."""
    options = ClusterOptions(directory=directory, with_kubelet=False, with_controller=False)
    clock = SystemClock()
    cluster = LocalCluster(options, clock=clock, uids=SystemUids(), random=SystemRandom())
    async with cluster, KubeClient(cluster.kube_config, user_agent="t", clock=clock) as client:
        yield LocalApi(cluster, client)

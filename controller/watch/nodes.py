"""Watches nodes, so that Tasks leave before their nodes go: docs/design/leaving.md.

1. List and watch all nodes; keep those that Tasks leave (``controller.store.nodes``).
2. When a node is cordoned or tainted, queue the Frameworks that have Pods on it. This is done once
   for all nodes that change within ``_WAIT_SECONDS``, because it walks all Pods.
3. If nodes cannot be listed, log the reason and the remedy once. Nothing waits for nodes.
"""

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress

from controller.config.nodes import NodesConfig
from controller.runtime import Runtime
from controller.store.nodes import NodeStore
from controller.store.store import Store
from framework.kube.errors import ApiError
from framework.kube.listwatch import ListWatch
from framework.kube.nodes import trim_node
from framework.kube.resources import NODES

logger = logging.getLogger(__name__)

_WAIT_SECONDS = 0.2
_TRY_SECONDS = 0.5
_TRIES = 20


class NodeWatch:
    """The list-watch of nodes of one controller."""

    def __init__(
        self,
        runtime: Runtime,
        store: Store,
        config: NodesConfig,
        on_change: Callable[[str], None],
    ) -> None:
        """Prepare; nothing is read yet.

        Args:
            runtime: has the client, the clock, the random numbers and the metrics, which show how
                many nodes Tasks leave, and whether nodes are watched.
            store: has the Pods.
            config: which nodes Tasks leave.
            on_change: called with the key of each Framework that has a Pod on such a node.
        """
        self._store = store
        self._on_change = on_change
        self._changed: set[str] = set()
        self._is_changed = asyncio.Event()
        self.notices = NodeStore(
            config.leave_taints,
            runtime.clock,
            self._record_changed,
            leaves_on_cordon=config.leaves_on_cordon,
        )
        self._watch = ListWatch(
            runtime.client,
            NODES,
            self.notices,
            clock=runtime.clock,
            random=runtime.random,
            trim=trim_node,
            is_deferred=True,
        )
        runtime.metrics.follow_nodes(
            is_watched=lambda: self._watch.is_connected,
            count_left=lambda: len(self.notices.notices),
        )

    def start(self, tasks: asyncio.TaskGroup) -> None:
        """Start the list-watch and the tasks that follow it, which run for ever."""
        tasks.create_task(self._watch.run(), name="watch-nodes")
        tasks.create_task(self._follow(), name="nodes-to-leave")
        tasks.create_task(self._report_missing(), name="nodes-report")

    def _record_changed(self, names: frozenset[str]) -> None:
        self._changed |= names
        self._is_changed.set()

    async def _follow(self) -> None:
        while True:
            await self._is_changed.wait()
            await asyncio.sleep(_WAIT_SECONDS)
            self._is_changed.clear()
            names, self._changed = self._changed, set()
            logger.info(
                "nodes are cordoned or tainted: Tasks leave them",
                extra={"nodes": len(names), "first": min(names)},
            )
            for key in find_frameworks(self._store, names):
                self._on_change(key)

    async def _report_missing(self) -> None:
        """Log once that nodes cannot be listed, with the remedy."""
        for _ in range(_TRIES):
            with suppress(TimeoutError):
                async with asyncio.timeout(_TRY_SECONDS):
                    await self._watch.synced.wait()
                return
            if self._is_denied:
                break
        self.notices.is_missing = True
        remedy = "apply deploy/nodes, or set watchNodes to false" if self._is_denied else ""
        logger.warning(
            "nodes are not known: Tasks leave only when their Pods are evicted",
            extra={"error": str(self._watch.last_error or "no answer yet"), "remedy": remedy},
        )

    @property
    def _is_denied(self) -> bool:
        error = self._watch.last_error
        return isinstance(error, ApiError) and error.status in (401, 403)


def find_frameworks(store: Store, nodes: set[str]) -> list[str]:
    """Find the keys of the Frameworks that have a Pod on one of the nodes."""
    return [
        entry.key
        for entry in store.walk()
        if any(pod.node_name in nodes for pod in entry.observed.pods.values())
    ]

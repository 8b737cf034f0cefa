"""Writes about a Pod besides its running status: binding, refusal, deletion.

Each write is repeated until the API server has carried it out, or has refused it for good.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable

from framework.api.wire import format_time
from framework.clock import Clock
from framework.kube.backoff import Backoff
from framework.kube.client import KubeClient
from framework.kube.errors import ConflictError, KubeError, NotFoundError
from framework.kube.resources import PODS, Object, Resource
from localcluster.kubelet.events import EventReason, EventRecorder

logger = logging.getLogger(__name__)


async def persist(send: Callable[[], Awaitable[object]], **context: object) -> bool:
    """Send until success or a permanent failure; return whether it succeeded."""
    backoff = Backoff()
    while True:
        try:
            await send()
        except KubeError as e:
            if not e.is_transient:
                logger.info("write refused", extra={**context, "error": str(e)})
                return False
            logger.warning("write failed, trying again", extra={**context, "error": str(e)})
        else:
            return True
        await asyncio.sleep(backoff.next_bound_seconds())


class PodWrites:
    """Binds, refuses and deletes Pods."""

    def __init__(
        self, client: KubeClient, clock: Clock, events: EventRecorder, node_name: str
    ) -> None:
        """Write as this node."""
        self._client = client
        self._clock = clock
        self._events = events
        self._node_name = node_name

    async def bind(self, pod: Object) -> bool:
        """Bind the Pod to this node; return False if the server refuses."""
        metadata = pod["metadata"]
        binding = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": metadata["name"], "uid": metadata["uid"]},
            "target": {"apiVersion": "v1", "kind": "Node", "name": self._node_name},
        }
        # A Pod is bound by creating its subresource; the client creates whole resources only.
        plural = f"pods/{metadata['name']}/binding"
        bindings = Resource("", "v1", plural, "Binding", namespaced=True)

        async def send() -> None:
            await self._client.create(bindings, metadata["namespace"], binding)

        is_bound = await persist(send, pod=metadata["name"], write="binding")
        if is_bound:
            name = f"{metadata['namespace']}/{metadata['name']}"
            message = f"Successfully assigned {name} to {self._node_name}"
            self._events.record(pod, EventReason.SCHEDULED, message)
        return is_bound

    async def refuse(self, pod: Object, message: str) -> None:
        """Write into the Pod's status the reason why it does not start."""
        old = (pod.get("status") or {}).get("conditions") or ()
        condition = {
            "type": "PodScheduled",
            "status": "False",
            "reason": "Unschedulable",
            "message": message,
        }
        former: Object = next((c for c in old if c.get("type") == "PodScheduled"), {})
        if condition.items() <= former.items():
            return
        condition["lastTransitionTime"] = format_time(self._clock.now())
        others = [c for c in old if c.get("type") != "PodScheduled"]
        self._events.record(pod, EventReason.FAILED_SCHEDULING, message)
        status = {"phase": "Pending", "conditions": [*others, condition]}
        patch = {"metadata": {"uid": pod["metadata"]["uid"]}, "status": status}
        namespace, name = pod["metadata"]["namespace"], pod["metadata"]["name"]

        async def send() -> None:
            await self._client.patch(PODS, namespace, name, patch, subresource="status")

        await persist(send, pod=name, write="status")

    async def delete(self, pod: Object) -> None:
        """Delete a Pod without processes from the API."""
        metadata = pod["metadata"]

        async def send() -> None:
            try:
                await self._client.delete(
                    PODS,
                    metadata["namespace"],
                    metadata["name"],
                    uid=metadata["uid"],
                    grace_seconds=0,
                )
            except (NotFoundError, ConflictError):
                # Already gone; another Pod may have its name.
                return

        await persist(send, pod=metadata["name"], write="deletion")

"""The informers: three list-watches that keep the store equal to the API server.

Started by ``app``. Pods and ConfigMaps are selected by our label, so the controller never holds
what is not a Framework's.
"""

import asyncio
from collections.abc import Sequence

from controller.store import Store
from framework.api import constants
from framework.clock import Clock, Random
from framework.kube.client import KubeClient
from framework.kube.listwatch import ListWatch, Sink
from framework.kube.resources import CONFIGMAPS, FRAMEWORKS, PODS, Object, Resource


class FrameworkSink:
    """Passes Frameworks on to the store."""

    def __init__(self, store: Store) -> None:
        """Feed ``store``."""
        self._store = store

    def replace(self, items: list[Object], resource_version: str) -> None:  # noqa: ARG002 a Sink
        """Take a whole list."""
        self._store.replace_frameworks(items)

    def apply(self, event_type: str, obj: Object) -> None:
        """Take one event."""
        if event_type == "DELETED":
            self._store.remove_framework(obj)
        else:
            self._store.apply_framework(obj)

    def bookmark(self, resource_version: str) -> None:
        """Nothing to do: versions are compared per object."""


class PodSink(FrameworkSink):
    """Passes Pods on to the store."""

    def replace(self, items: list[Object], resource_version: str) -> None:
        """Take a whole list."""
        self._store.replace_pods(items, resource_version)

    def apply(self, event_type: str, obj: Object) -> None:
        """Take one event."""
        if event_type == "DELETED":
            self._store.remove_pod(obj)
        else:
            self._store.apply_pod(obj)


class ConfigMapSink(FrameworkSink):
    """Passes attempt ConfigMaps on to the store."""

    def replace(self, items: list[Object], resource_version: str) -> None:
        """Take a whole list."""
        self._store.replace_configmaps(items, resource_version)

    def apply(self, event_type: str, obj: Object) -> None:
        """Take one event."""
        if event_type == "DELETED":
            self._store.remove_configmap(obj)
        else:
            self._store.apply_configmap(obj)


class Informers:
    """The three list-watches of one namespace, or of all."""

    def __init__(
        self,
        client: KubeClient,
        store: Store,
        *,
        clock: Clock,
        random: Random,
        namespace: str | None,
    ) -> None:
        """Prepare; nothing is read yet."""

        def follow(resource: Resource, sink: Sink, selector: str | None) -> ListWatch:
            return ListWatch(
                client,
                resource,
                sink,
                clock=clock,
                random=random,
                namespace=namespace,
                label_selector=selector,
            )

        ours = constants.FRAMEWORK_NAME
        self._watches: Sequence[tuple[str, ListWatch]] = (
            # Frameworks last: none is decided before its Pods and its ConfigMap are known.
            ("pods", follow(PODS, PodSink(store), ours)),
            ("configmaps", follow(CONFIGMAPS, ConfigMapSink(store), ours)),
            ("frameworks", follow(FRAMEWORKS, FrameworkSink(store), None)),
        )

    def start(self, tasks: asyncio.TaskGroup) -> None:
        """Start to follow; they run for ever."""
        for name, watch in self._watches:
            tasks.create_task(watch.run(), name=f"watch-{name}")

    async def wait_synced(self) -> None:
        """Wait until every resource was listed once."""
        for _, watch in self._watches:
            await watch.synced.wait()

    def find_unready(self) -> list[str]:
        """Name what is not known, or not connected, in words."""
        unready = []
        for name, watch in self._watches:
            if not watch.synced.is_set():
                unready.append(f"{name}: not listed yet ({watch.last_error or 'in progress'})")
            elif not watch.is_connected:
                unready.append(f"{name}: not connected ({watch.last_error})")
        return unready

"""The informers: three list-watches that keep the store equal to the API server.

Started by ``app``. Pods and ConfigMaps are selected by our label, so the controller never holds
what is not a Framework's.
"""

import asyncio
from collections.abc import Callable, Sequence

from controller.serve.metrics import Metrics
from controller.store.store import Store
from framework.api import constants
from framework.api.pods import trim_configmap, trim_pod
from framework.clock import Clock, Random
from framework.kube.client import KubeClient
from framework.kube.listwatch import ListWatch, Sink
from framework.kube.resources import CONFIGMAPS, FRAMEWORKS, PODS, Object, Resource


class _VersionedSink:
    """Knows the newest version shown, so that a list of an older one is told from others."""

    def __init__(self, on_relist: Callable[[], None]) -> None:
        self._on_relist = on_relist
        self._version = -1

    def bookmark(self, resource_version: str) -> None:
        """Learn that everything up to this version has been seen."""
        self._version = max(self._version, _read_number(resource_version))

    def _note_event(self, obj: Object) -> None:
        self.bookmark(str(obj["metadata"].get("resourceVersion")))

    def _note_list(self, resource_version: str) -> bool:
        """Return whether the server's storage was restored from a backup since."""
        before, self._version = self._version, _read_number(resource_version)
        if before >= 0:
            self._on_relist()
        return self._version < before


class FrameworkSink(_VersionedSink):
    """Passes Frameworks on to the store."""

    def __init__(self, store: Store, on_relist: Callable[[], None]) -> None:
        """Feed ``store``; ``on_relist`` is called at every list but the first."""
        super().__init__(on_relist)
        self._store = store

    def replace(self, items: list[Object], resource_version: str) -> None:
        """Take a whole list."""
        self._store.replace_frameworks(items, is_reset=self._note_list(resource_version))

    def apply(self, event_type: str, obj: Object) -> None:
        """Take one event."""
        self._note_event(obj)
        if event_type == "DELETED":
            self._store.remove_framework(obj)
        else:
            self._store.apply_framework(obj)


class PodSink(_VersionedSink):
    """Passes Pods on to the store."""

    def __init__(
        self,
        store: Store,
        on_relist: Callable[[], None],
        on_deletion: Callable[[Object], None],
    ) -> None:
        """Feed ``store``; ``on_deletion`` is given each Pod that is gone, whole."""
        super().__init__(on_relist)
        self._store = store
        self._on_deletion = on_deletion

    def replace(self, items: list[Object], resource_version: str) -> None:
        """Take a whole list."""
        is_reset = self._note_list(resource_version)
        self._store.replace_pods(items, resource_version, is_reset=is_reset)

    def apply(self, event_type: str, obj: Object) -> None:
        """Take one event."""
        self._note_event(obj)
        if event_type == "DELETED":
            self._on_deletion(obj)
            self._store.remove_pod(obj)
        else:
            self._store.apply_pod(obj)


class ConfigMapSink(_VersionedSink):
    """Passes attempt ConfigMaps on to the store."""

    def __init__(self, store: Store, on_relist: Callable[[], None]) -> None:
        """Feed ``store``; ``on_relist`` is called at every list but the first."""
        super().__init__(on_relist)
        self._store = store

    def replace(self, items: list[Object], resource_version: str) -> None:
        """Take a whole list."""
        is_reset = self._note_list(resource_version)
        self._store.replace_configmaps(items, resource_version, is_reset=is_reset)

    def apply(self, event_type: str, obj: Object) -> None:
        """Take one event."""
        self._note_event(obj)
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
        metrics: Metrics,
        on_pod_deletion: Callable[[Object], None],
        on_connection: Callable[[], None],
    ) -> None:
        """Prepare; nothing is read yet.

        Args:
            client: reads go through it.
            store: is kept equal to what they show.
            clock: for the waits between tries.
            random: the same.
            namespace: None for all.
            metrics: counts lists taken anew.
            on_pod_deletion: given each Pod that is gone, whole.
            on_connection: called when a list-watch reaches the server, again or for the first time.
        """

        def count(resource: Resource) -> Callable[[], None]:
            return lambda: metrics.count_relist(resource.plural)

        def note_connection(is_connected: bool) -> None:  # noqa: FBT001 a callback's one argument
            if is_connected:
                for _, watch in self._watches:
                    watch.hurry()
                on_connection()

        def follow(
            resource: Resource,
            sink: Sink,
            selector: str | None,
            trim: Callable[[Object], Object] | None = None,
        ) -> ListWatch:
            return ListWatch(
                client,
                resource,
                sink,
                clock=clock,
                random=random,
                namespace=namespace,
                label_selector=selector,
                trim=trim,
                on_connection=note_connection,
            )

        ours = constants.FRAMEWORK_NAME
        self._watches: Sequence[tuple[str, ListWatch]] = (
            # Frameworks last: none is decided before its Pods and its ConfigMap are known.
            ("pods", follow(PODS, PodSink(store, count(PODS), on_pod_deletion), ours, trim_pod)),
            (
                "configmaps",
                follow(CONFIGMAPS, ConfigMapSink(store, count(CONFIGMAPS)), ours, trim_configmap),
            ),
            ("frameworks", follow(FRAMEWORKS, FrameworkSink(store, count(FRAMEWORKS)), None)),
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


def _read_number(resource_version: str) -> int:
    return int(resource_version) if resource_version.isdecimal() else 0

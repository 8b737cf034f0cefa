"""The informers: three list-watches that keep the store equal to the API server.

Pods and ConfigMaps are selected by our label, so the controller holds no objects without it.
"""

import asyncio
from collections.abc import Callable

from controller.core.actions import ObjectKind
from controller.runtime import Runtime
from controller.store.object_identity import RESOURCES, parse_version
from controller.store.store import Store
from framework.api import constants
from framework.api.pods import trim_configmap, trim_pod
from framework.kube.keptjson import KeptJson
from framework.kube.listwatch import ListWatch
from framework.kube.resources import Object


class StoreSink:
    """Passes the objects of one kind on to the store.

    It keeps the newest version it was given, to recognize a list of an older version.
    """

    def __init__(
        self,
        store: Store,
        kind: ObjectKind,
        on_relist: Callable[[], None],
        on_deletion: Callable[[Object], None] = lambda _: None,
    ) -> None:
        """Feed ``store``.

        Args:
            store: takes the objects.
            kind: the kind of the objects.
            on_relist: called at each list after the first.
            on_deletion: called with each complete object that a watch shows as deleted.
        """
        self._store = store
        self._kind = kind
        self._on_relist = on_relist
        self._on_deletion = on_deletion
        self._version = -1

    def replace(self, items: list[Object], resource_version: str) -> None:
        """Take a whole list. After a restore of the server's storage, its version is older."""
        before, self._version = self._version, parse_version(resource_version)
        if before >= 0:
            self._on_relist()
        is_reset = self._version < before
        self._store.replace(self._kind, items, resource_version, is_reset=is_reset)

    def apply(self, event_type: str, obj: Object) -> None:
        """Take one event."""
        self.bookmark(str(obj["metadata"].get("resourceVersion")))
        if event_type == "DELETED":
            self._on_deletion(obj)
            self._store.remove(self._kind, obj)
        else:
            self._store.apply(self._kind, obj)

    def bookmark(self, resource_version: str) -> None:
        """Record that everything up to this version has been seen."""
        self._version = max(self._version, parse_version(resource_version))


class Informers:
    """The three list-watches of one namespace, or of all."""

    def __init__(
        self,
        runtime: Runtime,
        store: Store,
        *,
        namespace: str | None,
        on_pod_deletion: Callable[[Object], None],
        on_connection: Callable[[], None],
        kept_json: KeptJson,
    ) -> None:
        """Prepare; nothing is read yet.

        Args:
            runtime: has the client, the clock, the random numbers and the metrics.
            store: gets the objects.
            namespace: the namespace to watch; None for all.
            on_pod_deletion: called with each complete Pod that is gone.
            on_connection: called when a list-watch reaches the server, again or for the first time.
            kept_json: bounds the JSON of Frameworks that wait to be decoded.
        """
        self._runtime = runtime
        self._store = store
        self._namespace = namespace
        self._on_pod_deletion = on_pod_deletion
        self._on_connection = on_connection
        self._kept_json = kept_json
        self._watches = [
            # Frameworks are the last: their Pods and ConfigMaps must be known before a decision.
            self._follow(ObjectKind.POD, selector=constants.FRAMEWORK_NAME, trim=trim_pod),
            self._follow(
                ObjectKind.CONFIGMAP, selector=constants.FRAMEWORK_NAME, trim=trim_configmap
            ),
            self._follow(ObjectKind.FRAMEWORK, is_deferred=True),
        ]

    def _follow(
        self,
        kind: ObjectKind,
        selector: str | None = None,
        trim: Callable[[Object], Object] | None = None,
        *,
        is_deferred: bool = False,
    ) -> tuple[str, ListWatch]:
        resource = RESOURCES[kind]
        sink = StoreSink(
            self._store,
            kind,
            on_relist=lambda: self._runtime.metrics.count_relist(resource.plural),
            on_deletion=self._on_pod_deletion if kind is ObjectKind.POD else lambda _: None,
        )
        watch = ListWatch(
            self._runtime.client,
            resource,
            sink,
            clock=self._runtime.clock,
            random=self._runtime.random,
            namespace=self._namespace,
            label_selector=selector,
            trim=trim,
            on_connection=self._hurry,
            is_deferred=is_deferred,
            kept_json=self._kept_json,
        )
        return resource.plural, watch

    def _hurry(self, is_connected: bool) -> None:  # noqa: FBT001 a callback's one argument
        """Let all list-watches try now, because one of them has reached the server."""
        if is_connected:
            for _, watch in self._watches:
                watch.hurry()
            self._on_connection()

    def start(self, tasks: asyncio.TaskGroup) -> None:
        """Start the list-watches, which run for ever."""
        for name, watch in self._watches:
            tasks.create_task(watch.run(), name=f"watch-{name}")

    async def wait_synced(self) -> None:
        """Wait until every resource was listed once."""
        for _, watch in self._watches:
            await watch.synced.wait()

    def find_unready(self) -> list[str]:
        """Describe each resource that is not listed yet, or not connected."""
        unready = []
        for name, watch in self._watches:
            if not watch.synced.is_set():
                unready.append(f"{name}: not listed yet ({watch.last_error or 'in progress'})")
            elif not watch.is_connected:
                unready.append(f"{name}: not connected ({watch.last_error})")
        return unready

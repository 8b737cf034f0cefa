"""Watches a Framework, its objects, and the Events that say why its Pods wait.

There is one ``Follower`` for each Framework. It collects the objects from which
``cli.running.viewbuilder`` builds a view. If the user may not read Pods, ConfigMaps or Events, only
the display has less detail.
"""

import asyncio
from collections import deque
from collections.abc import Callable

from cli.reasons import may_explain_wait
from cli.running.views import FrameworkObjects
from framework.api import constants
from framework.api.naming import build_configmap_name
from framework.clock import Clock, Random
from framework.kube.client import KubeClient
from framework.kube.listwatch import ListWatch
from framework.kube.resources import CONFIGMAPS, EVENTS, FRAMEWORKS, PODS, Object, Resource

_MAX_PASSED = 8
"""Number of states of a Framework kept until they are shown; older ones are left out."""
_PodListener = Callable[[Object], None]


class ObjectCache:
    """Objects by name, kept by a ``ListWatch``."""

    def __init__(
        self, on_change: Callable[[], None], on_object: _PodListener | None = None
    ) -> None:
        """Know nothing yet; call back at each change, and with each object."""
        self.objects: dict[str, Object] | None = None
        self._on_change = on_change
        self._on_object = on_object

    def replace(self, items: list[Object], resource_version: str) -> None:
        """Take all there are."""
        del resource_version
        self.objects = {str(item["metadata"]["name"]): item for item in items}
        for item in items:
            self._tell(item)
        self._on_change()

    def apply(self, event_type: str, obj: Object) -> None:
        """Take one change."""
        objects = {} if self.objects is None else self.objects
        name = str(obj["metadata"]["name"])
        if event_type == "DELETED":
            objects.pop(name, None)
        else:
            objects[name] = obj
        self.objects = objects
        self._tell(obj)
        self._on_change()

    def bookmark(self, resource_version: str) -> None:
        """Nothing to do: nothing changed."""

    def _tell(self, obj: Object) -> None:
        if self._on_object is not None:
            self._on_object(obj)


class Follower:
    """One Framework and its objects.

    Attributes:
        is_gone: the Framework was deleted.
        connection_error: why it cannot be watched now; None while it is watched.
    """

    def __init__(
        self,
        client: KubeClient,
        framework: Object,
        *,
        clock: Clock,
        random: Random,
        on_change: Callable[[], None],
        on_failed_pod: _PodListener,
        on_pod: _PodListener | None = None,
    ) -> None:
        """Follow ``framework``, an object as the server returned it.

        Args:
            client: an open client.
            framework: the Framework to follow; a new object with the same name is ignored.
            clock: for the list-watch.
            random: for the list-watch.
            on_change: called at every change.
            on_failed_pod: called once for each Pod that is seen Failed.
            on_pod: called at every change of a Pod.
        """
        metadata = framework["metadata"]
        self.name: str = metadata["name"]
        self.namespace: str = metadata["namespace"]
        self.uid: str = metadata["uid"]
        self._framework: Object = framework
        self._passed: deque[Object] = deque(maxlen=_MAX_PASSED)
        self._is_shown = True
        self._on_failed_pod = on_failed_pod
        self._on_pod = on_pod
        self._failed_uids: set[str] = set()
        self._warnings: dict[str, str] = {}
        self._frameworks = ObjectCache(on_change, self._see_framework)
        self._pods = ObjectCache(on_change, self._see_pod)
        self._configmaps = ObjectCache(on_change)
        self._events = ObjectCache(on_change, self._see_event)

        def build(
            resource: Resource,
            sink: ObjectCache,
            *,
            fields: str | None = None,
            labels: str | None = None,
        ) -> ListWatch:
            return ListWatch(
                client,
                resource,
                sink,
                clock=clock,
                random=random,
                namespace=self.namespace,
                on_connection=lambda _: on_change(),
                field_selector=fields,
                label_selector=labels,
            )

        configmap = build_configmap_name(self.name)
        by_label = f"{constants.FRAMEWORK_NAME}={self.name}"
        self._main = build(FRAMEWORKS, self._frameworks, fields=f"metadata.name={self.name}")
        self._listwatches = (
            self._main,
            build(PODS, self._pods, labels=by_label),
            build(CONFIGMAPS, self._configmaps, fields=f"metadata.name={configmap}"),
            build(EVENTS, self._events, fields="type=Warning"),
        )

    @property
    def is_gone(self) -> bool:
        """Return whether the Framework was deleted."""
        known = self._frameworks.objects
        if known is None:
            return False
        current = known.get(self.name)
        return current is None or current["metadata"].get("uid") != self.uid

    @property
    def connection_error(self) -> str | None:
        """Return why the Framework cannot be watched now; None while it is watched."""
        error = self._main.last_error
        return None if error is None or self._main.is_connected else str(error)

    def start(self, tasks: asyncio.TaskGroup) -> list["asyncio.Task[None]"]:
        """Start to watch; the tasks run until they are cancelled."""
        return [
            tasks.create_task(listwatch.run(), name=f"watch-{self.name}-{index}")
            for index, listwatch in enumerate(self._listwatches)
        ]

    def take_passed(self) -> list[FrameworkObjects]:
        """Return the states of the Framework, oldest first, that were replaced since the last call.

        The newest state is not among them. The other objects are those seen now.
        """
        states = [self._collect_objects(framework) for framework in self._passed]
        self._passed.clear()
        self._is_shown = True
        return states

    def collect_objects(self) -> FrameworkObjects:
        """Build the FrameworkObjects of the objects seen so far."""
        return self._collect_objects(self._framework)

    def _collect_objects(self, framework: Object) -> FrameworkObjects:
        return FrameworkObjects(
            name=self.name,
            namespace=self.namespace,
            framework=framework,
            configmap=(self._configmaps.objects or {}).get(build_configmap_name(self.name)),
            pods=self._pods.objects,
            warnings=self._warnings,
        )

    def _see_framework(self, framework: Object) -> None:
        # The last state of a deleted Framework stays on display.
        if framework["metadata"].get("uid") == self.uid:
            if not self._is_shown:
                self._passed.append(self._framework)
            self._framework = framework
            self._is_shown = False

    def _see_pod(self, pod: Object) -> None:
        if self._on_pod is not None:
            self._on_pod(pod)
        uid = str(pod["metadata"].get("uid"))
        is_failed = (pod.get("status") or {}).get("phase") == "Failed"
        if is_failed and uid not in self._failed_uids:
            self._failed_uids.add(uid)
            self._on_failed_pod(pod)

    def _see_event(self, event: Object) -> None:
        involved = event.get("involvedObject") or {}
        is_of_pod = involved.get("kind") == constants.POD_KIND and involved.get("uid")
        if is_of_pod and may_explain_wait(str(event.get("reason") or "")):
            self._warnings[str(involved["uid"])] = str(event.get("message") or "")

"""Watches a Framework, its objects, and the Events that say why its Pods wait.

There is one ``Follower`` for each Framework. It collects the objects from which
``cli.running.viewbuilder`` builds a view. If the user may not read Pods, ConfigMaps or Events, only
the display has less detail.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from cli.running.objectcache import ObjectCache, ObjectListener
from cli.running.views import FrameworkObjects
from cli.texts.reasons import may_explain_wait
from framework.api import constants
from framework.api.naming import build_configmap_name
from framework.clock import Clock, Random
from framework.kube.client import KubeClient
from framework.kube.listwatch import ListWatch
from framework.kube.resources import CONFIGMAPS, EVENTS, FRAMEWORKS, PODS, Object, Resource

# The most replaced states of a Framework that are kept until they are shown.
_MAX_REPLACED = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Listeners:
    """The functions that a ``Follower`` calls."""

    on_change: Callable[[], None]
    """Called at every change."""
    on_failed_pod: ObjectListener
    """Called once for each Pod that is seen Failed."""
    on_pod: ObjectListener | None = None
    """Called at every change of a Pod."""


class Follower:
    """One Framework and its objects."""

    def __init__(
        self,
        client: KubeClient,
        framework: Object,
        listeners: Listeners,
        *,
        clock: Clock,
        random: Random,
    ) -> None:
        """Prepare to follow a Framework; ``start`` begins.

        Args:
            client: an open client.
            framework: the Framework as stored; a new object with the same name is ignored.
            listeners: the functions to call.
            clock: for the list-watches.
            random: for the list-watches.
        """
        metadata = framework["metadata"]
        self.name: str = metadata["name"]
        self.namespace: str = metadata["namespace"]
        self.uid: str = metadata["uid"]
        self._listeners = listeners
        self._framework: Object = framework
        self._replaced: deque[Object] = deque(maxlen=_MAX_REPLACED)
        self._is_shown = True
        self._failed_uids: set[str] = set()
        self._warnings: dict[str, str] = {}
        self._frameworks = ObjectCache(listeners.on_change, self._observe_framework)
        self._pods = ObjectCache(listeners.on_change, self._observe_pod)
        self._configmaps = ObjectCache(listeners.on_change)
        self._events = ObjectCache(listeners.on_change, self._observe_event)
        build = partial(self._build_listwatch, client, clock, random)
        configmap = build_configmap_name(self.name)
        by_label = f"{constants.FRAMEWORK_NAME}={self.name}"
        self._main = build(FRAMEWORKS, self._frameworks, fields=f"metadata.name={self.name}")
        self._listwatches = (
            self._main,
            build(PODS, self._pods, labels=by_label),
            build(CONFIGMAPS, self._configmaps, fields=f"metadata.name={configmap}"),
            build(EVENTS, self._events, fields="type=Warning"),
        )

    def _build_listwatch(
        self,
        client: KubeClient,
        clock: Clock,
        random: Random,
        resource: Resource,
        cache: ObjectCache,
        *,
        fields: str | None = None,
        labels: str | None = None,
    ) -> ListWatch:
        return ListWatch(
            client,
            resource,
            cache,
            clock=clock,
            random=random,
            namespace=self.namespace,
            on_connection=lambda _: self._listeners.on_change(),
            field_selector=fields,
            label_selector=labels,
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

    def take_replaced(self) -> list[FrameworkObjects]:
        """Return the states of the Framework, oldest first, that were replaced since the last call.

        The newest state is not among them. All other objects are the newest ones.
        """
        states = [self._collect_objects(framework) for framework in self._replaced]
        self._replaced.clear()
        self._is_shown = True
        return states

    def collect_objects(self) -> FrameworkObjects:
        """Collect the objects that are known now."""
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

    def _observe_framework(self, framework: Object) -> None:
        # The last state of a deleted Framework stays on display.
        if framework["metadata"].get("uid") == self.uid:
            if not self._is_shown:
                self._replaced.append(self._framework)
            self._framework = framework
            self._is_shown = False

    def _observe_pod(self, pod: Object) -> None:
        if self._listeners.on_pod is not None:
            self._listeners.on_pod(pod)
        uid = str(pod["metadata"].get("uid"))
        is_failed = (pod.get("status") or {}).get("phase") == "Failed"
        if is_failed and uid not in self._failed_uids:
            self._failed_uids.add(uid)
            self._listeners.on_failed_pod(pod)

    def _observe_event(self, event: Object) -> None:
        involved = event.get("involvedObject") or {}
        is_of_pod = involved.get("kind") == constants.POD_KIND and involved.get("uid")
        if is_of_pod and may_explain_wait(str(event.get("reason") or "")):
            self._warnings[str(involved["uid"])] = str(event.get("message") or "")

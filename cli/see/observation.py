"""Reads a Framework, its ConfigMap, its Pods and their Events, as far as the user may."""

from collections.abc import Awaitable
from contextlib import aclosing
from dataclasses import dataclass
from typing import TypeVar

from cli.frameworks import get_framework
from cli.running.views import FrameworkObjects
from cli.see.eventlog import EventLog, EventRecord
from cli.see.reading import read_events
from cli.texts.reasons import may_explain_wait
from framework.api import constants
from framework.api.naming import build_configmap_name
from framework.kube.client import PAGE_SIZE, KubeClient
from framework.kube.errors import ForbiddenError, NotFoundError
from framework.kube.resources import CONFIGMAPS, PODS, Object

_Answer = TypeVar("_Answer")
_WARNING = "Warning"
# Fields of a container that are kept: the others may be large, and no view reads them.
_KEPT_OF_CONTAINER = ("name", "restartPolicy")


@dataclass(frozen=True, slots=True)
class ObservedFramework:
    """The objects of one Framework that the user may read."""

    framework: Object
    """The Framework as stored."""
    configmap: Object | None
    """ConfigMap of the attempt; None if it does not exist, or the user may not read it."""
    pods: dict[str, Object] | None
    """Pods by name; None if the user may not read them."""
    events: EventLog | None
    """The Events; None if the user may not read them."""
    hidden: tuple[str, ...] = ()
    """Rights that the user lacks, for example "list pods"."""

    def collect_objects(self) -> FrameworkObjects:
        """Collect the objects of which ``cli.running.viewbuilder`` builds a view."""
        metadata = self.framework["metadata"]
        return FrameworkObjects(
            name=str(metadata["name"]),
            namespace=str(metadata["namespace"]),
            framework=self.framework,
            configmap=self.configmap,
            pods=self.pods,
            warnings={
                e.uid: e.message
                for e in self.list_events()
                if e.type == _WARNING and may_explain_wait(e.reason)
            },
        )

    def list_events(self) -> list[EventRecord]:
        """List the Events, the newest last."""
        return [] if self.events is None else list(self.events.list_records())

    def explain_hidden(self) -> str:
        """Name the missing rights that hide a part; "" if nothing is hidden."""
        if not self.hidden:
            return ""
        rights = ", ".join(self.hidden)
        return f"note: not all is shown: you lack the rights {rights}; ask for them"


async def observe_framework(client: KubeClient, namespace: str, name: str) -> ObservedFramework:
    """Read a Framework, its Pods, its ConfigMap and their Events.

    Raises:
        CliError: it is not there.
        KubeError: the server does not answer, or refuses to show the Framework.
    """
    hidden: list[str] = []

    async def try_read(right: str, answer: Awaitable[_Answer]) -> _Answer | None:
        try:
            return await answer
        except NotFoundError:
            return None
        except ForbiddenError:
            hidden.append(right)
            return None

    framework = await get_framework(client, namespace, name)
    configmap_name = build_configmap_name(name)
    return ObservedFramework(
        framework=framework,
        pods=await try_read("list pods", _list_pods(client, namespace, name)),
        configmap=await try_read(
            "get configmaps", client.get(CONFIGMAPS, namespace, configmap_name)
        ),
        events=await try_read("list events", read_events(client, framework)),
        hidden=tuple(hidden),
    )


async def _list_pods(client: KubeClient, namespace: str, name: str) -> dict[str, Object]:
    pods: dict[str, Object] = {}
    selector = f"{constants.FRAMEWORK_NAME}={name}"
    pages = client.list_pages(PODS, namespace, label_selector=selector, limit=PAGE_SIZE)
    async with aclosing(pages):
        async for page, is_restart in pages:
            if is_restart:
                pods.clear()
            for pod in page["items"]:
                pods[str(pod["metadata"]["name"])] = _trim(pod)
    return pods


def _trim(pod: Object) -> Object:
    """Keep the fields that views read: a thousand Pods are kept at a time."""
    metadata, spec = pod["metadata"], pod.get("spec") or {}
    kinds = {
        kind: [
            {key: container[key] for key in _KEPT_OF_CONTAINER if key in container}
            for container in spec.get(kind) or ()
        ]
        for kind in ("initContainers", "containers")
    }
    kept = ("name", "namespace", "uid", "labels", "deletionTimestamp")
    plain = ("restartPolicy", "nodeName", "schedulingGates", "schedulerName")
    return {
        "metadata": {key: metadata[key] for key in kept if key in metadata},
        "spec": {**{key: spec[key] for key in plain if key in spec}, **kinds},
        "status": pod.get("status") or {},
    }

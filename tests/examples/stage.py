"""Frameworks on a cluster, as their user works with them: apply, watch, scale, stop."""

import contextlib
from collections.abc import Callable

import yaml

from framework.api import constants
from framework.kube.client import KubeClient, PatchContent
from framework.kube.errors import NotFoundError
from framework.kube.resources import CONFIGMAPS, FRAMEWORKS, PODS, SERVICES, Object
from tests.examples.commandline import EXAMPLES
from tests.support.servers.watching import watch_until

_RESOURCES = {"ConfigMap": CONFIGMAPS, "Framework": FRAMEWORKS, "Service": SERVICES}


def read_documents(name: str) -> list[Object]:
    """Read an example."""
    text = (EXAMPLES / name).read_text(encoding="utf-8")
    return [document for document in yaml.safe_load_all(text) if document]


class Stage:
    """One Framework of a user, in a namespace."""

    def __init__(self, kube: KubeClient, namespace: str, documents: list[Object]) -> None:
        self.kube = kube
        self.namespace = namespace
        self.documents = documents
        self.name: str = next(
            document["metadata"]["name"]
            for document in documents
            if document["kind"] == constants.FRAMEWORK_KIND
        )

    async def apply(self) -> None:
        for document in self.documents:
            await self.kube.create(_RESOURCES[document["kind"]], self.namespace, document)

    async def patch(self, *operations: Object) -> None:
        """Send a JSON patch: all of it holds, or nothing."""
        await self.kube.patch(
            FRAMEWORKS, self.namespace, self.name, operations, content=PatchContent.JSON
        )

    async def stop(self) -> Object:
        """Ask for the end and wait for it."""
        await self.patch({"op": "replace", "path": "/spec/executionType", "value": "Stop"})
        return await self.wait_for(lambda status: status["state"] == "Completed")

    async def wait_for(self, is_met: Callable[[Object], bool]) -> Object:
        """Watch the Framework until its status meets the condition; return the status."""

        def find(_: str, body: Object) -> Object | None:
            status: Object = body.get("status") or {}
            return status if status and is_met(status) else None

        selector = f"metadata.name={self.name}"
        return await watch_until(
            self.kube, FRAMEWORKS, self.namespace, find, field_selector=selector
        )

    async def wait_for_tasks(self, is_met: Callable[[list[Object]], bool]) -> list[Object]:
        """Watch until the Tasks of the first role are so; give them."""
        return list_tasks(await self.wait_for(lambda status: is_met(list_tasks(status))))

    async def wait_until_running(self, count: int) -> list[Object]:
        def is_running(tasks: list[Object]) -> bool:
            return [task["state"] for task in tasks] == ["AttemptRunning"] * count

        return await self.wait_for_tasks(is_running)

    async def read_pods(self) -> list[Object]:
        """Read the Framework's Pods, in the order of their names."""
        selector = f"{constants.FRAMEWORK_NAME}={self.name}"
        listed = await self.kube.list(PODS, self.namespace, label_selector=selector)
        return sorted(listed["items"], key=lambda pod: str(pod["metadata"]["name"]))

    async def wait_until_ready(self, count: int) -> None:
        """Watch until this many Pods of the Framework are ready: their servers answer."""
        ready: set[str] = set()

        def have_all(event: str, pod: Object) -> bool:
            is_ready = event in {"ADDED", "MODIFIED"} and _is_ready(pod)
            (ready.add if is_ready else ready.discard)(pod["metadata"].get("uid"))
            return len(ready) == count

        selector = f"{constants.FRAMEWORK_NAME}={self.name}"
        await watch_until(self.kube, PODS, self.namespace, have_all, label_selector=selector)

    async def delete_pod(self, role: str, index: int) -> None:
        with contextlib.suppress(NotFoundError):
            await self.kube.delete(PODS, self.namespace, f"{self.name}-{role}-{index}")


def _is_ready(pod: Object) -> bool:
    conditions = (pod.get("status") or {}).get("conditions") or []
    return {"Ready": "True"}.items() <= {c["type"]: c["status"] for c in conditions}.items()


def list_tasks(status: Object) -> list[Object]:
    roles = status["attemptStatus"]["taskRoleStatuses"]
    return [] if not roles else list(roles[0]["taskStatuses"])

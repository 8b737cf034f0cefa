"""Puts objects into an API server as if they had always been there.

A server sets identities and deletion times itself, so stored objects differ from those that were
read: owners are created first, each new UID replaces the old one in all objects (also inside
compressed statuses), all times are moved to now, and objects that were being deleted are deleted
again.
"""

import asyncio
import base64
import copy
import gzip
import json
import re
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import TypeVar

from framework.kube.client import KubeClient
from framework.kube.resources import CONFIGMAPS, FRAMEWORKS, PODS, Object

R = TypeVar("R")

AT_ONCE = 20
_RESOURCES = {"Framework": FRAMEWORKS, "ConfigMap": CONFIGMAPS, "Pod": PODS}
_GIVEN_BY_SERVER = (
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "managedFields",
)
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")
_FORM = "%Y-%m-%dT%H:%M:%SZ"
_COMPRESSED = "taskRoleStatusesCompressed"


def open_status(framework: Object) -> None:
    """Decompress the Task statuses in place, so that they can be read and rewritten."""
    attempt = (framework.get("status") or {}).get("attemptStatus", {})
    packed = attempt.get(_COMPRESSED)
    if isinstance(packed, str):
        attempt[_COMPRESSED] = json.loads(gzip.decompress(base64.b64decode(packed)))


def close_status(framework: Object) -> None:
    """Compress what ``open_status`` has opened."""
    attempt = (framework.get("status") or {}).get("attemptStatus", {})
    opened = attempt.get(_COMPRESSED)
    if isinstance(opened, list):
        packed = gzip.compress(json.dumps(opened, separators=(",", ":")).encode())
        attempt[_COMPRESSED] = base64.b64encode(packed).decode()


def move_times(objects: list[Object], at: datetime, *, remaining_seconds: int = 3) -> list[Object]:
    """Move all times by one span, so that the last transition was just before ``at``.

    A Framework that waits for its retry is moved so that this many seconds of its delay are left.
    """
    status = objects[0]["status"]
    last = max(_TIME.findall(json.dumps(status)))
    span = at - datetime.strptime(last, _FORM).replace(tzinfo=UTC)
    delay = status["retryPolicyStatus"]["retryDelaySec"]
    if delay is not None:
        span -= timedelta(seconds=delay - remaining_seconds)

    def move(match: re.Match[str]) -> str:
        moved = datetime.strptime(match[0], _FORM).replace(tzinfo=UTC) + span
        return moved.strftime(_FORM)

    return [json.loads(_TIME.sub(move, json.dumps(body))) for body in objects]


def complete_pods(objects: list[Object]) -> list[Object]:
    """Add the Pods that a long list leaves out, made like its first Pod.

    The status, which must be open, names them.
    """
    pods = {body["metadata"]["name"]: body for body in objects if body["kind"] == "Pod"}
    if not pods:
        return objects
    pattern = next(iter(pods.values()))
    added = [
        build_like(pattern, task)
        for role in list_roles(objects[0])
        for task in role["taskStatuses"]
        if task["attemptStatus"]["podUID"] is not None
        and task["state"] not in {"AttemptCompleted", "Completed"}
        and task["attemptStatus"]["podName"] not in pods
    ]
    return [*objects, *added]


def list_roles(framework: Object) -> list[Object]:
    """Give the Task role statuses of an open status."""
    attempt = framework["status"]["attemptStatus"]
    roles: list[Object] = attempt.get(_COMPRESSED) or attempt["taskRoleStatuses"] or []
    return roles


def build_like(pattern: Object, task: Object) -> Object:
    """Make a Task's Pod from another's of the same role."""
    attempt = task["attemptStatus"]
    old = pattern["metadata"]["annotations"]
    text = json.dumps(pattern)
    for before, after in (
        (pattern["metadata"]["uid"], attempt["podUID"]),
        (old["FC_TASK_UID"], task["instanceUID"]),
        (pattern["metadata"]["name"], attempt["podName"]),
        (pattern["status"]["podIP"], attempt["podIP"]),
    ):
        text = text.replace(f'"{before}"', f'"{after}"')
    pod: Object = json.loads(text)
    index = str(task["index"])
    pod["metadata"]["annotations"]["FC_TASK_INDEX"] = index
    pod["metadata"]["labels"]["FC_TASK_INDEX"] = index
    for variable in pod["spec"]["containers"][0]["env"]:
        if variable["name"] == "FC_TASK_INDEX":
            variable["value"] = index
    return pod


class Loader:
    """Stores situations in a namespace."""

    def __init__(self, kube: KubeClient, namespace: str) -> None:
        self._kube = kube
        self._namespace = namespace
        self._places = asyncio.Semaphore(AT_ONCE)

    async def load(self, objects: list[Object]) -> list[Object]:
        """Store a Framework, its status open, with its ConfigMap and its Pods.

        Returns:
            the written objects, with the UIDs of the server.
        """
        texts = [json.dumps(body).replace('"default"', f'"{self._namespace}"') for body in objects]
        versions: dict[str, str] = {}
        for kind in ("Framework", "ConfigMap", "Pod"):
            mine = [number for number, body in enumerate(objects) if body["kind"] == kind]
            stored = await self._each(self._create, [json.loads(texts[n]) for n in mine])
            metas = [body["metadata"] for body in stored]
            versions |= {meta["uid"]: meta["resourceVersion"] for meta in metas}
            olds = [objects[number]["metadata"]["uid"] for number in mine]
            uids = {old: meta["uid"] for old, meta in zip(olds, metas, strict=True)}
            texts = _replace_all(texts, uids)
        bodies: list[Object] = [json.loads(text) for text in texts]
        for body in bodies:
            body["metadata"]["resourceVersion"] = versions[body["metadata"]["uid"]]
        await self._each(self._write_status, [body for body in bodies if "status" in body])
        deleted = [body for body in bodies if "deletionTimestamp" in body["metadata"]]
        await self._each(self._delete, deleted)
        return bodies

    async def _create(self, body: Object) -> Object:
        given = {key: value for key, value in body.items() if key != "status"}
        metadata = body["metadata"]
        given["metadata"] = {k: v for k, v in metadata.items() if k not in _GIVEN_BY_SERVER}
        return await self._kube.create(_RESOURCES[body["kind"]], self._namespace, given)

    async def _write_status(self, body: Object) -> Object:
        resource = _RESOURCES[body["kind"]]
        name = body["metadata"]["name"]
        if resource is PODS:
            status = {"status": body["status"]}
            return await self._kube.patch(PODS, self._namespace, name, status, subresource="status")
        # A merge patch would take the nulls for deletions.
        whole = copy.deepcopy(body)
        close_status(whole)
        return await self._kube.replace(
            resource, self._namespace, name, whole, subresource="status"
        )

    async def _delete(self, body: Object) -> Object | None:
        metadata = body["metadata"]
        seconds = metadata.get("deletionGracePeriodSeconds") if body["kind"] == "Pod" else None
        return await self._kube.delete(
            _RESOURCES[body["kind"]], self._namespace, metadata["name"], grace_seconds=seconds
        )

    async def _each(
        self, call: Callable[[Object], Awaitable[R]], bodies: Sequence[Object]
    ) -> list[R]:
        async def call_in_place(body: Object) -> R:
            async with self._places:
                return await call(body)

        return await asyncio.gather(*map(call_in_place, bodies))


def _replace_all(text: list[str], replacements: dict[str, str]) -> list[str]:
    if not replacements:
        return text
    pattern = re.compile("|".join(map(re.escape, replacements)))
    return [pattern.sub(lambda match: replacements[match[0]], part) for part in text]

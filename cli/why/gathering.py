"""Reads the objects that an answer needs, with a bounded number of bounded requests.

Only the Framework must be readable. The answer names the other objects that the user may not read
or that did not arrive in time.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import aclosing
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import TypeVar
from urllib.parse import urlencode

from cli.exitcodes import CliError
from cli.frameworks import get_framework
from cli.jobs import find_job_name
from cli.loglines.containeroutput import split_output
from cli.loglines.query import KeptLogs, LogQuery, LogSource
from cli.texts.torchreport import REPORT_LINES, strip_report
from cli.why.commands import Commands
from cli.why.observation import (
    EventFacts,
    Observation,
    TaskFacts,
    build_tasks,
    parse_events,
    read_status,
)
from cli.why.requests import LogRequest, Requests, plan_requests
from cli.why.scalers import (
    SCALERS,
    FailedScaler,
    describe_named,
    find_job,
    find_last_failed,
    list_named,
)
from framework.api import constants
from framework.api.naming import build_configmap_name
from framework.kube.client import KubeClient
from framework.kube.errors import ForbiddenError, KubeError, NotFoundError
from framework.kube.resources import (
    CONFIGMAPS,
    EVENTS,
    LEASES,
    NODES,
    PODS,
    SECRETS,
    Object,
    Resource,
)

T = TypeVar("T")

PERSISTENT_VOLUME_CLAIMS = Resource(
    "", "v1", "persistentvolumeclaims", "PersistentVolumeClaim", namespaced=True
)
_TIMEOUT_SECONDS = 10.0
_LOG_LINES = 15
_READ_LINES = _LOG_LINES + REPORT_LINES
_READ_BYTES = 128 * 1024
_LEASE = ("frameworkbarrier-system", "framework-controller")
_KINDS = {"Pod": PODS, "ConfigMap": CONFIGMAPS, "Secret": SECRETS}


class Gatherer:
    """Reads one Framework and what is around it."""

    def __init__(
        self, client: KubeClient, namespace: str, name: str, kept: KeptLogs | None = None
    ) -> None:
        """Prepare; nothing is read yet.

        Args:
            client: of the cluster.
            namespace: of the Framework.
            name: of the Framework.
            kept: the logs of a local cluster, which it keeps longer than its Pods; None elsewhere.
        """
        self._client = client
        self._namespace = namespace
        self._name = name
        self._kept = kept
        self._unseen: set[str] = set()
        self._rights: set[str] = set()

    async def gather(self, commands: Commands, now: datetime, *, is_local: bool) -> Observation:
        """Read everything.

        Raises:
            CliError: there is no such Framework.
            KubeError: the Framework cannot be read.
        """
        # Pods are read before the Framework, so that no Pod is newer than the status.
        pods, configmap, events, lease = await asyncio.gather(
            self._list_pods(),
            self._get(CONFIGMAPS, build_configmap_name(self._name), "the ConfigMap of the attempt"),
            self._list_events(f"involvedObject.kind={constants.FRAMEWORK_KIND}", self._name),
            self._get_lease(),
        )
        framework = await self._get_framework()
        status, fault = read_status(framework)
        observation = Observation(
            name=self._name,
            namespace=self._namespace,
            now=now,
            framework=framework,
            commands=replace(commands, job=find_job_name(framework)),
            status=status,
            fault=fault,
            tasks=build_tasks(framework, status, pods) if status is not None else (),
            events=events,
            configmap=configmap,
            lease=lease,
            failed_scaler=await self._find_failed_scaler(framework),
            is_local=is_local,
        )
        return await self._read_more(observation, plan_requests(observation))

    async def _get_framework(self) -> Object:
        """Read the Framework; the error also explains the name of a scaler.

        Raises:
            CliError: there is no such Framework.
            KubeError: the Framework cannot be read.
        """
        try:
            return await get_framework(
                self._client, self._namespace, self._name, timeout_seconds=_TIMEOUT_SECONDS
            )
        except CliError as e:
            scalers = [text async for text in self._describe_scalers()]
            if not scalers:
                raise
            raise CliError(e.exit_code, "; ".join((*e.lines, *scalers))) from e

    async def _describe_scalers(self) -> AsyncIterator[str]:
        for kind, resource, name in list_named(self._name):
            try:
                body = await self._client.get(
                    resource, self._namespace, name, timeout_seconds=_TIMEOUT_SECONDS
                )
            except KubeError:
                continue
            yield describe_named(self._name, kind, body)

    async def _read_more(self, observation: Observation, requests: Requests) -> Observation:
        events, nodes, claims, holder, logs = await asyncio.gather(
            asyncio.gather(*(self._list_pod_events(task) for task in requests.pods)),
            self._read_nodes(requests),
            self._read_claims(requests.claims),
            self._read_holder(requests.holder),
            self._read_logs(requests.logs),
        )
        by_key = {task.key: found for task, found in zip(requests.pods, events, strict=True)}
        tasks = [replace(task, events=by_key.get(task.key, ())) for task in observation.tasks]
        return replace(
            observation,
            tasks=tuple(tasks),
            nodes=nodes,
            claims=claims,
            holder=holder,
            logs=logs,
            # In a fixed order, independent of the order of the answers.
            unseen=tuple(sorted(self._unseen)),
            missing_rights=tuple(sorted(self._rights)),
        )

    async def _list_pods(self) -> Mapping[str, Object]:
        async def read() -> Mapping[str, Object]:
            selector = f"{constants.FRAMEWORK_NAME}={self._name}"
            listed = await self._client.list(
                PODS, self._namespace, label_selector=selector, timeout_seconds=_TIMEOUT_SECONDS
            )
            return {str(pod["metadata"]["name"]): pod for pod in listed["items"]}

        return await self._try("Pods", "list pods", read, {})

    async def _get(self, resource: Resource, name: str, what: str) -> Object | None:
        async def read() -> Object | None:
            return await self._client.get(
                resource, self._namespace, name, timeout_seconds=_TIMEOUT_SECONDS
            )

        # To grant the right to read Secrets only for the name of an owner would be too much.
        right = "" if resource is SECRETS else f"get {resource.plural}"
        return await self._try(what, right, read, None)

    async def _get_lease(self) -> Object | None:
        """Read the Lease of the controller; most users may not, so this is not reported."""
        namespace, name = _LEASE
        try:
            return await self._client.get(LEASES, namespace, name, timeout_seconds=_TIMEOUT_SECONDS)
        except KubeError:
            return None

    async def _find_failed_scaler(self, framework: Object) -> FailedScaler | None:
        job = find_job(framework)
        if job is None:
            return None
        lists = await asyncio.gather(*(self._list_scalers(each) for each in SCALERS.values()))
        found = zip(SCALERS, lists, strict=True)
        return find_last_failed(job, ((kind, body) for kind, bodies in found for body in bodies))

    async def _list_scalers(self, resource: Resource) -> list[Object]:
        right = f"list {resource.plural}"
        return await self._try(f"{resource.kind}s", right, partial(self._list_first, resource), [])

    async def _list_events(self, selector: str, name: str) -> tuple[EventFacts, ...]:
        async def read() -> tuple[EventFacts, ...]:
            fields = f"{selector},involvedObject.name={name}"
            listed = await self._client.list(
                EVENTS, self._namespace, field_selector=fields, timeout_seconds=_TIMEOUT_SECONDS
            )
            return parse_events(listed["items"])

        return await self._try("Events", "list events", read, ())

    async def _list_pod_events(self, task: TaskFacts) -> tuple[EventFacts, ...]:
        uid = task.status.attempt_status.pod_uid
        return await self._list_events(f"involvedObject.uid={uid}", task.pod_name)

    async def _read_nodes(self, requests: Requests) -> Mapping[str, Object] | None:
        if not requests.nodes and not requests.lists_nodes:
            return None
        nodes: dict[str, Object] = {}
        if requests.lists_nodes:
            none: dict[str, Object] = {}
            nodes |= await self._try("nodes", "list nodes", self._list_first_nodes, none)
        for name in requests.nodes:
            if name not in nodes and "nodes" not in self._unseen:
                read = partial(self._get_node, name)
                node = await self._try("nodes", "get nodes", read, None)
                nodes |= {} if node is None else {name: node}
        return nodes

    async def _list_first_nodes(self) -> dict[str, Object]:
        nodes = await self._list_first(NODES)
        return {str(node["metadata"]["name"]): node for node in nodes}

    async def _list_first(self, resource: Resource) -> list[Object]:
        """List the objects of the first page."""
        namespace = self._namespace if resource.namespaced else None
        pages = self._client.list_pages(resource, namespace, timeout_seconds=_TIMEOUT_SECONDS)
        async with aclosing(pages):
            async for page, _ in pages:
                return list(page["items"])
        return []

    async def _get_node(self, name: str) -> Object | None:
        return await self._client.get(NODES, None, name, timeout_seconds=_TIMEOUT_SECONDS)

    async def _read_claims(self, names: tuple[str, ...]) -> Mapping[str, Object | None]:
        what = "PersistentVolumeClaims"
        found = {name: await self._get(PERSISTENT_VOLUME_CLAIMS, name, what) for name in names}
        return {} if what in self._unseen else found

    async def _read_holder(self, holder: tuple[str, str] | None) -> Object | None:
        if holder is None:
            return None
        kind, name = holder
        return await self._get(_KINDS[kind], name, f"{kind} {name}")

    async def _read_logs(
        self, requests: tuple[LogRequest, ...]
    ) -> Mapping[tuple[str, str], tuple[str, ...]]:
        logs = await asyncio.gather(*(self._read_log(request) for request in requests))
        read = zip(requests, logs, strict=True)
        return {(request.pod, request.container): lines for request, lines in read if lines}

    async def _read_log(self, request: LogRequest) -> tuple[str, ...]:
        """Read the last lines of a container; none if its log has gone."""
        try:
            async with asyncio.timeout(_TIMEOUT_SECONDS):
                raw = await self._read_live_log(request)
        except ForbiddenError:
            self._unseen.add("logs of containers")
            self._rights.add("get pods/log")
            return ()
        except (KubeError, TimeoutError):
            raw = await self._read_kept_log(request)
        return tuple(strip_report(split_output(raw[-_READ_BYTES:]))[-_LOG_LINES:])

    async def _read_live_log(self, request: LogRequest) -> bytes:
        query = {
            "container": request.container,
            "tailLines": _READ_LINES,
            "limitBytes": _READ_BYTES,
            **({"previous": "true"} if request.is_previous else {}),
        }
        path = PODS.path(self._namespace, request.pod, "log")
        return await self._client.get_raw(
            f"{path}?{urlencode(query)}", timeout_seconds=_TIMEOUT_SECONDS
        )

    async def _read_kept_log(self, request: LogRequest) -> bytes:
        if self._kept is None:
            return b""
        source = LogSource(self._namespace, request.pod, request.container, request.uid or None)
        pieces = self._kept.stream(source, LogQuery(tail_lines=_READ_LINES))
        try:
            async with aclosing(pieces):
                return b"".join([piece async for piece in pieces])
        except KubeError:
            return b""

    async def _try(
        self, what: str, right: str, read: Callable[[], Awaitable[T]], otherwise: T
    ) -> T:
        """Read something that an answer can do without, with a right that users may lack."""
        try:
            return await read()
        except NotFoundError:
            return otherwise
        except ForbiddenError:
            self._rights |= {right} if right else set()
        except KubeError:
            pass
        self._unseen.add(what)
        return otherwise

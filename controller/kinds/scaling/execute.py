"""Executes the steps of scalers. Each is one request, and each may be sent again.

``SetWorkers`` is not here: the decision about the job replaces its Framework.
"""

from collections.abc import Awaitable, Callable
from typing import Any, Protocol, assert_never

from controller.kinds.scaling.store import ScalerStore
from framework.api import constants
from framework.api.types import Framework
from framework.kinds.scaling.snapshot import (
    Action,
    AddOwner,
    ClearRequest,
    SetWorkers,
    WriteRequest,
    WriteStatus,
)
from framework.kinds.scaling.status import encode_status
from framework.kinds.scaling.types import Scaler, ScalerKind
from framework.kube.client import KubeClient
from framework.kube.errors import NotFoundError
from framework.kube.resources import (
    CONFIGMAPS,
    FRAMEWORKS,
    SCALE_INS,
    SCALE_OUTS,
    TRAININGJOBS,
    Object,
    Resource,
)

SCALERS = {ScalerKind.SCALE_IN: SCALE_INS, ScalerKind.SCALE_OUT: SCALE_OUTS}


class Send(Protocol):
    """Sends a write while this controller may write, and counts it."""

    async def __call__(
        self,
        resource: Resource,
        verb: str,
        send: Callable[[], Awaitable[Object]],
        subresource: str = "",
    ) -> Object:
        """Send it, and return the answer.

        Raises:
            KubeError: it failed.
        """
        ...


class ScalerExecutor:
    """Sends the requests for scalers."""

    def __init__(self, client: KubeClient, store: ScalerStore, send: Send) -> None:
        """Send through ``client`` by ``send``."""
        self._client = client
        self._store = store
        self._send = send

    async def is_current(self, scaler: Scaler) -> bool:
        """Return whether the API server has the version of the scaler that the store has.

        The store may not have the last writes of a controller that ended a moment ago. Called
        before a step with an effect on the job.

        Raises:
            KubeError: the request failed.
        """
        known = self._store.get(scaler)
        try:
            found = await self._client.get_metadata(
                SCALERS[scaler.kind], scaler.namespace, scaler.name
            )
        except NotFoundError:
            self._store.drop(scaler)
            return False
        if found["metadata"].get("uid") != scaler.uid:
            self._store.drop(scaler)
        versions = [body and _read_identity(body) for body in (known, found)]
        return known is not None and versions[0] == versions[1]

    async def is_framework_current(self, framework: Framework | None) -> bool:
        """Return whether the API server has this spec of the Framework.

        Raises:
            KubeError: the request failed.
        """
        if framework is None:
            return False
        known = framework.metadata
        try:
            found = await self._client.get_metadata(FRAMEWORKS, known.namespace, known.name)
        except NotFoundError:
            return False
        metadata = found["metadata"]
        versions = metadata.get("uid"), metadata.get("generation")
        return versions == (known.uid, known.generation)

    async def knows_shown(self, job: Object) -> bool:
        """Return whether the store has the scaler that the API server shows in the job's status.

        Raises:
            KubeError: a request failed.
        """
        namespace, name = job["metadata"]["namespace"], job["metadata"]["name"]
        try:
            stored = await self._client.get(TRAININGJOBS, namespace, name)
        except NotFoundError:
            return True
        kind, _, rest = read_shown(stored).partition(":")
        if kind not in SCALERS:
            return True
        scaler = rest.partition("/")[2]
        resource = SCALERS[ScalerKind(kind)]
        try:
            found = await self._client.get_metadata(resource, namespace, scaler)
        except NotFoundError:
            return True
        return self._store.has_version(ScalerKind(kind), found["metadata"])

    async def execute(
        self, job: Object | None, framework: Framework | None, action: Action
    ) -> None:
        """Execute one step.

        Raises:
            KubeError: a request failed, and may succeed later.
        """
        match action:
            case AddOwner(scaler) | WriteStatus(scaler):
                try:
                    await self._write_scaler(job, action)
                except NotFoundError:
                    self._store.drop(scaler)
                    raise
            case WriteRequest(request):
                await self._write_request(framework, request)
            case ClearRequest():
                await self._write_request(framework, None)
            case SetWorkers():
                return
            case _:
                assert_never(action)

    async def _write_scaler(self, job: Object | None, action: AddOwner | WriteStatus) -> None:
        if isinstance(action, AddOwner):
            await self._add_owner(action.scaler, job)
        else:
            status = encode_status(action.scaler.kind, action.status)
            await self._write_status(action.scaler, status)

    async def _add_owner(self, scaler: Scaler, job: Object | None) -> None:
        wire = self._store.get(scaler)
        if wire is None or job is None:
            return
        owners: list[Any] = list(wire["metadata"].get("ownerReferences") or ())
        owner = {
            "apiVersion": job["apiVersion"],
            "kind": job["kind"],
            "name": job["metadata"]["name"],
            "uid": job["metadata"]["uid"],
            "controller": not any(owner.get("controller") for owner in owners),
            "blockOwnerDeletion": False,
        }
        resource = SCALERS[scaler.kind]
        patch = {
            "metadata": {
                "resourceVersion": wire["metadata"]["resourceVersion"],
                "ownerReferences": [*owners, owner],
            }
        }
        stored = await self._send(
            resource,
            "patch",
            lambda: self._client.patch(resource, scaler.namespace, scaler.name, patch),
        )
        self._store.put_answer(scaler, stored)

    async def _write_status(self, scaler: Scaler, status: Object) -> None:
        wire = self._store.get(scaler)
        if wire is None:
            return
        resource = SCALERS[scaler.kind]
        head = {"apiVersion": resource.api_version, "kind": resource.kind}
        body = {**head, **wire, "status": status}
        stored = await self._send(
            resource,
            "update",
            lambda: self._client.replace(
                resource, scaler.namespace, scaler.name, body, subresource="status"
            ),
            "/status",
        )
        self._store.put_answer(scaler, stored)

    async def _write_request(self, framework: Framework | None, request: str | None) -> None:
        """Write or remove the request in the attempt's ConfigMap; None: remove it."""
        if framework is None or framework.status is None:
            return
        attempt, namespace = framework.status.attempt_status, framework.metadata.namespace
        patch = {
            "metadata": {"uid": attempt.configmap_uid},
            "binaryData": {constants.SCALER_KEY: request},
        }
        await self._send(
            CONFIGMAPS,
            "patch",
            lambda: self._client.patch(CONFIGMAPS, namespace, attempt.configmap_name, patch),
        )


def read_shown(job: Object) -> str:
    """Read the scaler that the status of a job names; "" if it names none."""
    status: Any = job.get("status")
    shown = status.get("currentScaler") if isinstance(status, dict) else None
    return shown if isinstance(shown, str) else ""


def _read_identity(body: Object) -> tuple[object, object]:
    return body["metadata"].get("uid"), body["metadata"].get("resourceVersion")

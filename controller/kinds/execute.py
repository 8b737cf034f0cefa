"""Executes the decisions about jobs: the stages in order, the actions of a stage at the same time.

    ExecutionError
    |-- ObstacleError       an object cannot be created: the status of the job must show this
    |-- FrameworkFoundError the name of the Framework is in use: decide again with this Framework
    `-- GateClosedError     this controller must not write now

Other errors are those of ``framework.kube.errors``; the caller tries again after a pause.

Each object but the Framework is created with a proof of its creator (``controller.kinds.proofs``).
A create whose name is in use succeeds if the job owns the object of this name and a controller has
created it, in an earlier try. Of such a Secret, only the metadata is requested. Such a RoleBinding
gets the wanted accounts.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TypeVar, assert_never

from controller.kinds.decide.creators import is_by_controller
from controller.kinds.decide.decision import (
    Action,
    Create,
    CreateKey,
    Decision,
    Delete,
    EmitEvent,
    Obstacle,
    Patch,
    Replace,
    TryCreate,
    WriteStatus,
)
from controller.kinds.decide.ownership import (
    binds_same_role,
    is_bound_otherwise,
    is_marked,
    is_owned,
)
from controller.kinds.decide.plan import NAME_TAKEN, REFUSED, describe_taken
from controller.kinds.proofs import find_creator, sign
from controller.kinds.store import JobStore
from controller.report.events import EventRecorder
from controller.runtime import Runtime
from controller.store.creation_proofs import KeyPair
from framework.clock import KeySource
from framework.kinds.sshkey import add_key
from framework.kube import resources
from framework.kube.client import PatchContent
from framework.kube.errors import (
    AlreadyExistsError,
    ApiError,
    ConflictError,
    KubeError,
    NotFoundError,
)
from framework.kube.resources import FRAMEWORKS, ROLE_BINDINGS, SERVICES, Object, Resource

_Answer = TypeVar("_Answer")

_WIDTH = 8
_SECRET = "Secret"
_RESOURCES = {
    resource.kind: resource
    for resource in (
        resources.FRAMEWORKS,
        resources.SERVICES,
        resources.SECRETS,
        resources.SERVICE_ACCOUNTS,
        resources.ROLES,
        resources.ROLE_BINDINGS,
        resources.DEPLOYMENTS,
    )
}


class ExecutionError(Exception):
    """A decision was not executed to its end."""


class ObstacleError(ExecutionError):
    """An object cannot be created; ``obstacle`` is for the user."""

    def __init__(self, obstacle: Obstacle) -> None:
        """Keep the obstacle."""
        super().__init__(obstacle.message)
        self.obstacle = obstacle


class FrameworkFoundError(ExecutionError):
    """There is a Framework of this name, which no watch has shown."""

    def __init__(self, found: Object) -> None:
        """Keep the Framework."""
        super().__init__("the Framework exists")
        self.found = found


class GateClosedError(ExecutionError):
    """This controller must not write now."""


class JobExecutor:
    """Sends the requests for the jobs of one kind."""

    def __init__(
        self,
        runtime: Runtime,
        resource: Resource,
        store: JobStore,
        *,
        keys: KeySource,
        creator: KeyPair,
        recorder: EventRecorder,
    ) -> None:
        """Prepare; ``keys`` makes ssh keys, ``creator`` signs the objects that are created."""
        self._client = runtime.client
        self._resource = resource
        self._store = store
        self._keys = keys
        self._creator = creator
        self._recorder = recorder
        self._write_gate = runtime.write_gate
        self._metrics = runtime.metrics
        self._clock = runtime.clock

    async def execute(self, job: Object, decision: Decision) -> None:
        """Execute a decision about a job.

        Raises:
            ExecutionError: see above.
            KubeError: a request failed, and may succeed later.
        """
        for stage in decision.stages:
            for start in range(0, len(stage), _WIDTH):
                await self._execute_all(job, stage[start : start + _WIDTH])

    async def _execute_all(self, job: Object, actions: Sequence[Action]) -> None:
        results = await asyncio.gather(
            *(self._execute(job, action) for action in actions), return_exceptions=True
        )
        for result in results:
            if isinstance(result, BaseException):
                raise result

    async def _execute(self, job: Object, action: Action) -> None:
        match action:
            case Create(body):
                await self._create(job, body, body)
            case TryCreate(body):
                await self._create(job, body, body, is_dry_run=True)
            case CreateKey(body):
                await self._create(job, body, add_key(body, self._keys.new_key()))
            case Replace(body):
                await self._replace(body)
            case Patch(kind, name, uid, fields):
                await self._patch(job, _RESOURCES[kind], name, uid, fields)
            case Delete(kind, name, uid):
                await self._delete(job, _RESOURCES[kind], name, uid)
            case WriteStatus(status):
                await self._write_status(job, status)
            case EmitEvent(type_, reason, message):
                self._recorder.emit(_build_reference(job), type_, reason, message)
            case _:
                assert_never(action)

    async def _create(
        self, job: Object, shown: Object, body: Object, *, is_dry_run: bool = False
    ) -> None:
        """Create an object; ``shown`` is the part of it that an error may show."""
        kind, name = shown["kind"], shown["metadata"]["name"]
        resource, namespace = _RESOURCES[kind], job["metadata"]["namespace"]
        if resource is not FRAMEWORKS:
            body = sign(body, namespace, self._creator)
        try:
            stored = await self.send(
                resource,
                "create",
                lambda: self._client.create(resource, namespace, body, dry_run=is_dry_run),
            )
        except AlreadyExistsError:
            await self._check_existing(job, resource, name, shown)
        except ApiError as e:
            if e.is_transient:
                raise
            raise _build_refused(kind, name, e) from e
        else:
            if is_dry_run:
                return
            if resource is FRAMEWORKS:
                self._store.frameworks.put(stored)
            elif resource is SERVICES:
                self._store.services.put(stored)

    async def _check_existing(
        self, job: Object, resource: Resource, name: str, wanted: Object
    ) -> None:
        namespace = job["metadata"]["namespace"]
        if resource is FRAMEWORKS:
            raise FrameworkFoundError(await self._client.get(resource, namespace, name))
        # Of a Secret, only the metadata is requested.
        get = self._client.get if resource is ROLE_BINDINGS else self._client.get_metadata
        found = await get(resource, namespace, name)
        has_marks = is_owned(found, job) and is_marked(found, job)
        creator = find_creator(resource.kind, found)
        is_own = has_marks and is_by_controller(
            creator, found["metadata"].get("creationTimestamp"), job
        )
        if not is_own or (resource is ROLE_BINDINGS and not binds_same_role(found, wanted)):
            has_id = self._resource is resources.TFJOBS
            is_forged = has_marks and not is_own
            message = describe_taken(resource.kind, name, has_runtime_id=has_id, is_owned=is_forged)
            raise ObstacleError(Obstacle(NAME_TAKEN, message))
        if resource is ROLE_BINDINGS and is_bound_otherwise(found, wanted):
            uid, fields = found["metadata"]["uid"], {"/subjects": wanted["subjects"]}
            await self._patch(job, resource, name, uid, fields)

    async def _replace(self, body: Object) -> None:
        metadata = {k: v for k, v in body["metadata"].items() if k != "managedFields"}
        namespace, name = metadata["namespace"], metadata["name"]
        body = {**body, "metadata": metadata}
        try:
            stored = await self.send(
                FRAMEWORKS,
                "update",
                lambda: self._client.replace(FRAMEWORKS, namespace, name, body),
            )
        except ConflictError:
            raise
        except ApiError as e:
            if e.is_transient or isinstance(e, NotFoundError):
                raise
            raise _build_refused(FRAMEWORKS.kind, name, e) from e
        self._store.frameworks.put(stored)

    async def _patch(
        self, job: Object, resource: Resource, name: str, uid: str, fields: Mapping[str, object]
    ) -> None:
        """Set fields of an object; the test makes the API server refuse another of this name."""
        namespace = job["metadata"]["namespace"]
        test: Object = {"op": "test", "path": "/metadata/uid", "value": uid}
        # "add" replaces a member that exists.
        sets = ({"op": "add", "path": path, "value": value} for path, value in fields.items())
        body = [test, *sets]
        try:
            stored = await self.send(
                resource,
                "patch",
                lambda: self._client.patch(
                    resource, namespace, name, body, content=PatchContent.JSON
                ),
            )
        except NotFoundError:
            # The watch shows it, and the next decision creates it again.
            return
        except ConflictError:
            raise
        except ApiError as e:
            if e.is_transient:
                raise
            raise _build_refused(resource.kind, name, e) from e
        if resource is SERVICES:
            self._store.services.put_answer(stored)

    async def _delete(self, job: Object, resource: Resource, name: str, uid: str) -> None:
        namespace = job["metadata"]["namespace"]
        try:
            await self.send(
                resource, "delete", lambda: self._client.delete(resource, namespace, name, uid=uid)
            )
        except (NotFoundError, ConflictError):
            # It is gone, or another object has its name.
            return

    async def _write_status(self, job: Object, status: Object) -> None:
        metadata = job["metadata"]
        body = {**job, "status": status}
        stored = await self.send(
            self._resource,
            "update",
            lambda: self._client.replace(
                self._resource, metadata["namespace"], metadata["name"], body, subresource="status"
            ),
            "/status",
        )
        self._store.jobs.put(stored)
        # After an obstacle, a second decision writes the status again, with the new version.
        job["metadata"], job["status"] = stored["metadata"], status

    async def send(
        self,
        resource: Resource,
        verb: str,
        send: Callable[[], Awaitable[_Answer]],
        subresource: str = "",
    ) -> _Answer:
        """Send one write, and count it.

        Raises:
            GateClosedError: this controller must not write now.
            KubeError: it failed.
        """
        if not self._write_gate.may_write():
            raise GateClosedError("not the leader, or the CRD is not usable")
        started = self._clock.monotonic()
        error: KubeError | None = None
        try:
            return await send()
        except KubeError as e:
            error = e
            raise
        finally:
            seconds = self._clock.monotonic() - started
            self._metrics.count_answer(f"{resource.plural}{subresource}", verb, error, seconds)


def _build_refused(kind: str, name: str, error: ApiError) -> ObstacleError:
    # The answer may contain parts of the object: of a Secret, it is not shown.
    fault = f"status {error.status}" if kind == _SECRET else str(error)
    return ObstacleError(Obstacle(REFUSED, f"the API server refuses the {kind} {name}: {fault}"))


def _build_reference(job: Object) -> Object:
    metadata = job["metadata"]
    return {
        "apiVersion": job["apiVersion"],
        "kind": job["kind"],
        "namespace": metadata.get("namespace"),
        "name": metadata.get("name"),
        "uid": metadata.get("uid"),
    }

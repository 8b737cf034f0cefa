"""A client that refuses answers that are not objects of Kubernetes.

A wrong address, a proxy or a faulty server may answer with any content. The modules of the command
line rely on the form that is checked here; ``framework.api.codec`` checks the status of a
Framework.
"""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Annotated, Any

import msgspec

from framework.kube.client import KubeClient, WatchEvent
from framework.kube.errors import UnreachableError
from framework.kube.resources import PODS, Object, Resource

_BOOKMARK = "BOOKMARK"
_Json = dict[str, Any]
_Texts = dict[str, str]


class _Metadata(msgspec.Struct, rename="camel"):
    name: Annotated[str, msgspec.Meta(min_length=1)]
    namespace: str | None = None
    uid: str | None = None
    resource_version: str | None = None
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    labels: _Texts | None = None
    annotations: _Texts | None = None
    owner_references: list[_Json] | None = None


class _Object(msgspec.Struct, rename="camel"):
    """Any object; the status of a Framework is checked when it is decoded."""

    metadata: _Metadata
    spec: _Json | None = None
    involved_object: _Json | None = None


class _Container(msgspec.Struct):
    name: str


class _State(msgspec.Struct):
    running: _Json | None = None
    terminated: _Json | None = None
    waiting: _Json | None = None


class _ContainerStatus(msgspec.Struct, rename="camel"):
    name: str
    state: _State | None = None
    last_state: _State | None = None
    restart_count: int = 0


class _PodSpec(msgspec.Struct, rename="camel"):
    containers: Annotated[list[_Container], msgspec.Meta(min_length=1)]
    init_containers: list[_Container] | None = None


class _PodStatus(msgspec.Struct, rename="camel"):
    phase: str | None = None
    reason: str | None = None
    message: str | None = None
    conditions: list[_Json] | None = None
    container_statuses: list[_ContainerStatus] | None = None
    init_container_statuses: list[_ContainerStatus] | None = None


class _Pod(msgspec.Struct):
    metadata: _Metadata
    spec: _PodSpec
    status: _PodStatus | None = None


class _Row(msgspec.Struct):
    """A row of a Table, which has an object with its metadata."""

    cells: list[Any]
    object: _Object


class _Table(msgspec.Struct):
    rows: list[_Row]


class CheckedClient(KubeClient):
    """A client whose answers have the form of objects; else it raises ``UnreachableError``."""

    async def get(self, resource: Resource, *args: Any, **options: Any) -> Object:
        """Return an object as stored."""
        return _check(resource, await super().get(resource, *args, **options))

    async def list_pages(
        self, resource: Resource, *args: Any, **options: Any
    ) -> AsyncGenerator[tuple[Object, bool]]:
        """Yield each page of a list, and whether the earlier pages are invalid."""
        trim = options.pop("trim", None)

        def read(item: Object) -> Object:
            checked = _check(resource, item)
            return trim(checked) if trim else checked

        async with aclosing(super().list_pages(resource, *args, trim=read, **options)) as pages:
            async for page, is_restart in pages:
                yield page, is_restart

    async def create(self, resource: Resource, *args: Any, **options: Any) -> Object:
        """Create an object and return it as stored."""
        return _check(resource, await super().create(resource, *args, **options))

    async def patch(self, resource: Resource, *args: Any, **options: Any) -> Object:
        """Patch an object and return it as stored."""
        return _check(resource, await super().patch(resource, *args, **options))

    async def watch(
        self, resource: Resource, *args: Any, **options: Any
    ) -> AsyncGenerator[WatchEvent]:
        """Yield type and object of each change."""
        async with aclosing(super().watch(resource, *args, **options)) as events:
            async for event_type, obj in events:
                yield event_type, obj if event_type == _BOOKMARK else _check(resource, obj)


def _check(resource: Resource, obj: Object) -> Object:
    """Return the object as it is.

    Raises:
        UnreachableError: it does not have the form of an object of this kind.
    """
    try:
        msgspec.convert(obj, _choose_form(resource, obj))
    except msgspec.ValidationError as e:
        text = f"the answer is no object of Kubernetes: {e}"
        raise UnreachableError(text, method="GET", path=resource.path(None)) from e
    return obj


def _choose_form(resource: Resource, obj: Object) -> type[msgspec.Struct]:
    """Choose what to check; a client that asks for Tables gets rows in the place of objects."""
    if obj.get("kind") == "Table":
        return _Table
    if "cells" in obj:
        return _Row
    return _Pod if resource is PODS else _Object

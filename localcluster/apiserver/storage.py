"""The storage engine: the rules of the Kubernetes API, without sockets.

A call is a request, which is complete when the call returns. The engine is synchronous and
deterministic: time and UIDs come from the ``Clock`` and the ``UidSource``. Arguments and results
are copied, so the caller may change them. HTTP, authentication and persistence are not here.
"""

import base64
import binascii
import json
from dataclasses import dataclass
from typing import Any

from framework.clock import Clock, UidSource
from localcluster.apiserver.bodies.patches import apply_patch
from localcluster.apiserver.engine import selectors, writes
from localcluster.apiserver.engine.collection import Collector
from localcluster.apiserver.engine.deletion import Deleter
from localcluster.apiserver.engine.history import Watch, WatchEvent
from localcluster.apiserver.engine.selectors import Selector
from localcluster.apiserver.engine.state import State
from localcluster.apiserver.kinds.strategies import Strategies
from localcluster.apiserver.model import errors, objects
from localcluster.apiserver.model.builtins import BUILTIN_TYPES, CONFIG_MAPS, NAMESPACES
from localcluster.apiserver.model.errors import Object, StatusError
from localcluster.apiserver.model.options import DeleteOptions, WriteOptions
from localcluster.apiserver.model.registry import Registry, ResourceType

__all__ = [
    "DeleteOptions",
    "ListResult",
    "Object",
    "Selector",
    "StatusError",
    "Storage",
    "Watch",
    "WatchEvent",
    "WriteOptions",
]

INITIAL_NAMESPACES = ("default", "kube-system", "kube-public", "kube-node-lease")
ROOT_CERTIFICATE_NAME = "kube-root-ca.crt"
HISTORY_LIMIT = 10_000
_NOTHING_SELECTED = Selector()
_DEFAULT_DELETE = DeleteOptions()


@dataclass(frozen=True)
class ListResult:
    """One page of a list."""

    items: list[Object]
    resource_version: str
    continue_token: str | None
    remaining: int | None
    """Number of further objects; None (unknown) with a selector."""


class Storage:
    """The API server without HTTP.

    A refused request raises ``StatusError`` with the code and the message of kube-apiserver, for
    example 404 without the object, 409 for another version of it, 410 for a version that the
    history lacks, and 422 for a broken rule.
    """

    def __init__(
        self,
        clock: Clock,
        uids: UidSource,
        *,
        history_limit: int = HISTORY_LIMIT,
        root_certificate: str | None = None,
    ) -> None:
        """Start with the namespaces that every cluster has.

        Every new namespace gets the ``root_certificate``, if it is not None, in a ConfigMap that
        projected volumes of service accounts read.
        """
        self.registry = Registry(BUILTIN_TYPES)
        self._state = State(clock, uids, self.registry, history_limit)
        self._writer = writes.Writer(self._state)
        self._deleter = Deleter(self._state)
        self._strategies = Strategies(self._state)
        self._collector = Collector(self._state, self._deleter, self._strategies.of)
        self._root_certificate = root_certificate
        for name in INITIAL_NAMESPACES:
            self.create(NAMESPACES, None, {"metadata": {"name": name}})

    @property
    def resource_version(self) -> int:
        """The version of the newest write."""
        return self._state.resource_version

    def create(
        self,
        rt: ResourceType,
        namespace: str | None,
        body: Object,
        options: WriteOptions | None = None,
    ) -> Object:
        """Store a new object and return it."""
        options = options or WriteOptions()
        strategy = self._strategies.of(rt)
        created = self._writer.create(strategy, namespace, body, options)
        if rt is NAMESPACES and self._root_certificate is not None and not options.dry_run:
            published = {
                "metadata": {"name": ROOT_CERTIFICATE_NAME},
                "data": {"ca.crt": self._root_certificate},
            }
            self.create(CONFIG_MAPS, created["metadata"]["name"], published)
        return _copy(created)

    def bind(
        self,
        rt: ResourceType,
        namespace: str | None,
        name: str,
        body: Object,
        options: WriteOptions | None = None,
    ) -> Object:
        """POST to ``pods/binding``, the only subresource that is created; return a Status."""
        key = writes.key_of(rt, namespace, name)
        return self._writer.bind(key, body, options or WriteOptions())

    def get(
        self,
        rt: ResourceType,
        namespace: str | None,
        name: str,
    ) -> Object:
        """Return an object."""
        return _copy(self._writer.find(rt, writes.key_of(rt, namespace, name)))

    def list(
        self,
        rt: ResourceType,
        namespace: str | None,
        selector: Selector = _NOTHING_SELECTED,
        *,
        limit: int | None = None,
        continue_token: str | None = None,
        resource_version: int | None = None,
        exact: bool = False,
    ) -> ListResult:
        """List objects in order of namespace and name; None is all namespaces.

        Further pages have the state of the first page. ``resource_version`` is the minimum
        version, or with ``exact`` the version itself.
        """
        matches = selectors.compile_selector(rt, namespace, selector)
        version, start = self.resource_version, None
        if continue_token:
            version, start = _read_token(continue_token)
        elif resource_version:
            self._check_reached(resource_version)
            version = resource_version if exact else version
        held = self._state.all_of(rt.key)
        if version != self.resource_version:
            held = self._state.at(rt.key, version)
        keys = sorted(key for key, obj in held.items() if matches(obj))
        if start is not None:
            keys = [key for key in keys if key > start]
        page = keys[:limit] if limit else keys
        left = len(keys) - len(page)
        token = _write_token(version, page[-1]) if left and page else None
        is_known = left and not selector.label and not selector.field
        remaining = left if is_known else None
        items = [_copy(held[key]) for key in page]
        return ListResult(items, str(version), token, remaining)

    def _check_reached(self, version: int) -> None:
        if version > self.resource_version:
            message = f"Too large resource version: {version}, current: {self.resource_version}"
            cause = errors.Cause("ResourceVersionTooLarge", "", "Too large resource version")
            raise StatusError(504, "Timeout", message, retry_after=1, causes=[cause])

    def update(
        self,
        rt: ResourceType,
        namespace: str | None,
        name: str,
        body: Object,
        options: WriteOptions | None = None,
        *,
        subresource: str | None = None,
    ) -> Object:
        """Replace an object, or its status."""
        options = options or WriteOptions()
        strategy = self._strategies.of(rt)
        key = writes.key_of(rt, namespace, name)
        updated = self._writer.update(strategy, key, body, options, subresource)
        return _copy(updated)

    def patch(
        self,
        rt: ResourceType,
        namespace: str | None,
        name: str,
        patch: Any,
        content_type: str,
        options: WriteOptions | None = None,
        *,
        subresource: str | None = None,
    ) -> Object:
        """Patch an object."""
        options = options or WriteOptions()
        strategy = self._strategies.of(rt)
        key = writes.key_of(rt, namespace, name)
        old = self._writer.find(rt, key)
        patched = apply_patch(rt, old, patch, content_type)
        return _copy(self._writer.revise(strategy, old, patched, options, subresource))

    def delete(
        self,
        rt: ResourceType,
        namespace: str | None,
        name: str,
        options: DeleteOptions = _DEFAULT_DELETE,
    ) -> Object:
        """Delete an object; return its last state, or the terminating object."""
        key = writes.key_of(rt, namespace, name)
        return _copy(self._deleter.delete(self._strategies.of(rt), key, options))

    def watch_from(
        self,
        rt: ResourceType,
        namespace: str | None,
        selector: Selector = _NOTHING_SELECTED,
        resource_version: int | None = None,
    ) -> Watch:
        """Open a watch after a version; None or 0 begins with the existing objects, as ADDED."""
        matches = selectors.compile_selector(rt, namespace, selector)
        if resource_version:
            missed = self._state.history.since(resource_version, rt.key)
            watch = self._state.history.open(rt, matches, after=resource_version)
            for change in missed:
                watch.offer(change)
            return watch
        watch = self._state.history.open(rt, matches)
        held = self._state.all_of(rt.key)
        watch.seed(held[key] for key in sorted(held))
        return watch

    def collect_garbage(self) -> int:
        """Collect until nothing is due; return the number of writes."""
        before = self.resource_version
        while self.collect_garbage_once():
            pass
        return self.resource_version - before

    def collect_garbage_once(self) -> bool:
        """Do a step of collection; return whether it wrote."""
        return self._collector.step()

    @property
    def has_garbage(self) -> bool:
        """Return whether a step of collection has an object to check."""
        return bool(self._state.collection_queue)


def _copy(obj: Object) -> Object:
    copied: Object = objects.copy_json(obj)
    return copied


def _write_token(version: int, last: objects.ObjectKey) -> str:
    token = json.dumps({"v": version, "after": list(last)})
    return base64.urlsafe_b64encode(token.encode()).decode().rstrip("=")


def _read_token(token: str) -> tuple[int, objects.ObjectKey]:
    try:
        padded = token + "=" * (-len(token) % 4)
        read = json.loads(base64.urlsafe_b64decode(padded.encode()))
        namespace, name = read["after"]
        return int(read["v"]), (str(namespace), str(name))
    except (ValueError, KeyError, TypeError, binascii.Error) as error:
        message = "continue key is not valid: the token is malformed"
        raise errors.bad_request(message) from error

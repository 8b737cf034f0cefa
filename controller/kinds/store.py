"""The store of the jobs of one kind: the jobs, their Frameworks, their Services.

Its only sources are the watches, and the answers to our own writes until a watch shows the same.
Jobs and Frameworks are kept as JSON (``DeferredObject``) and decoded for a decision. If there is no
room for their JSON, only their identity is kept, and they are read live in the turn of their job.
"""

from collections.abc import Callable
from typing import Any

from controller.kinds.decide.creators import is_by_controller
from controller.kinds.decide.decision import ServiceView
from controller.kinds.decide.ownership import JOB_LABEL, is_owned
from controller.kinds.decide.services import SERVICE, compute_form, read_headless
from controller.kinds.proofs import find_creator
from controller.store.object_identity import parse_version
from framework.kube.deferred import DeferredObject, defer_object
from framework.kube.keptjson import KeptJson
from framework.kube.resources import Object

_KEPT = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp", "deletionTimestamp")
_FORM, _HEADLESS, _CREATOR = "form", "headless", "creator"
MAX_JOB_BYTES = 512 * 1024
"""A job with more JSON is not decoded: this and the decision could block the event loop for 1 s."""
# More than any object has, because a status that is not read would be written again without its
# creatorKeys.
_MAX_STATUS_BYTES = 2 * 1024 * 1024


class JobStore:
    """The objects of all jobs of one kind, by ``namespace/name`` of the job."""

    def __init__(self, on_change: Callable[[str], None]) -> None:
        """Call ``on_change`` with the key of a job when one of its objects has changed."""
        self._jobs: dict[str, DeferredObject] = {}
        self._frameworks: dict[str, DeferredObject] = {}
        # Metadata and form of the Services, by the key of their job and their name.
        self._services: dict[str, dict[str, Object]] = {}
        self.jobs = ObjectSink(self._jobs, on_change)
        self.frameworks = ObjectSink(self._frameworks, on_change)
        self.services = ServiceSink(self._services, on_change)

    def __len__(self) -> int:
        """Count the jobs."""
        return len(self._jobs)

    def list_keys(self) -> list[str]:
        """List the keys of the jobs."""
        return list(self._jobs)

    def find_job(self, key: str) -> Object | None:
        """Decode a job; if it is too large, only its identity and its status.

        Raises:
            BrokenStreamError: the server sent an object that cannot be read.
        """
        found = self._jobs.get(key)
        if found is not None and self.is_too_large(key):
            status = found.read_field("status", max_bytes=_MAX_STATUS_BYTES)
            return {"metadata": dict(found["metadata"]), "status": status or {}}
        return None if found is None else found.decode()

    def list_stripped(self, key: str) -> "list[ObjectSink]":
        """List the sinks of the objects of a job that must be read live before a decision."""
        sinks = self.jobs, self.frameworks
        return [sink for sink in sinks if sink.is_stripped(key)]

    def put_away(self, key: str, budget: KeptJson) -> None:
        """Keep the JSON of a job and its Framework until its next turn if there is room."""
        for kept in self._jobs, self._frameworks:
            if key in kept:
                kept[key].keep_in(budget)

    def is_too_large(self, key: str) -> bool:
        """Return whether a job has more than ``MAX_JOB_BYTES`` beside its status.

        The controller writes the status, which has the names of thousands of workers twice.
        """
        found = self._jobs.get(key)
        if found is None or found.length <= MAX_JOB_BYTES:
            return False
        return found.length - found.measure_field("status") > MAX_JOB_BYTES

    def find_framework(self, key: str) -> Object | None:
        """Decode the Framework of a job's name, if it has our label.

        Raises:
            BrokenStreamError: the server sent an object that cannot be read.
        """
        found = self._frameworks.get(key)
        return None if found is None else found.decode()

    def get_services_version(self, key: str) -> int:
        """Return a number that changes with each change of the Services of a job."""
        return self.services.versions.get(key, 0)

    def list_services(self, key: str, job: Object) -> dict[str, ServiceView]:
        """List the Services that a job owns and a controller has created, by name."""
        found = self._services.get(key, {})
        return {
            name: ServiceView(
                str(service["metadata"].get("uid")),
                service[_FORM],
                service[_HEADLESS],
                service[_CREATOR],
            )
            for name, service in found.items()
            if is_owned(service, job)
            and not service["metadata"].get("deletionTimestamp")
            and is_by_controller(
                service[_CREATOR], service["metadata"].get("creationTimestamp"), job
            )
        }


class _Sink:
    """Takes the lists and changes of a watch; ``put`` selects the part of an object to keep."""

    def __init__(self, kept: dict[str, Any], on_change: Callable[[str], None]) -> None:
        """Keep everything in ``kept``, by the key of its job."""
        self._kept = kept
        self._on_change = on_change

    def put(self, obj: Object) -> None:
        """Take an object as a watch or the answer to a write shows it."""
        raise NotImplementedError

    def replace(self, items: list[Object], resource_version: str) -> None:  # noqa: ARG002 a Sink
        """Take a whole list."""
        before = set(self._kept)
        self._kept.clear()
        for item in items:
            self.put(item)
        for key in before | set(self._kept):
            self._on_change(key)

    def bookmark(self, resource_version: str) -> None:
        """Do nothing: a version without an object is not kept."""


class ObjectSink(_Sink):
    """Keeps one object for each key, the latest version."""

    def apply(self, event_type: str, obj: Object) -> None:
        """Take a change."""
        key = _find_key(obj)
        if event_type == "DELETED":
            known = self._kept.get(key)
            if known is not None and known["metadata"].get("uid") == obj["metadata"].get("uid"):
                del self._kept[key]
        else:
            self.put(obj)
        self._on_change(key)

    def is_stripped(self, key: str) -> bool:
        """Return whether only the identity of an object is kept."""
        return key in self._kept and self._kept[key].is_stripped

    def put(self, obj: Object) -> None:
        """Take an object, unless a later version is known."""
        key = _find_key(obj)
        known = self._kept.get(key)
        if known is None or _read_version(known) <= _read_version(obj):
            # Answers to writes are decoded: as Python objects, they take many times the memory.
            self._kept[key] = obj if isinstance(obj, DeferredObject) else defer_object(obj)


class ServiceSink(_Sink):
    """Keeps metadata and form of Services, by the job that their label names, and by their name."""

    def __init__(
        self, kept: dict[str, dict[str, Object]], on_change: Callable[[str], None]
    ) -> None:
        """Keep the Services in ``kept``."""
        super().__init__(kept, on_change)
        self.versions: dict[str, int] = {}
        """Number of the last change, for each job that has Services."""
        self._changes = 0

    def replace(self, items: list[Object], resource_version: str) -> None:
        """Take a whole list."""
        self.versions.clear()
        super().replace(items, resource_version)

    def apply(self, event_type: str, obj: Object) -> None:
        """Take a change."""
        key = _find_owner_key(obj)
        if event_type == "DELETED":
            found = self._kept.get(key, {})
            found.pop(obj["metadata"]["name"], None)
            self._count(key)
            if not found:
                self._kept.pop(key, None)
                self.versions.pop(key, None)
        else:
            self.put(obj)
        self._on_change(key)

    def put(self, obj: Object) -> None:
        """Take a Service."""
        key = _find_owner_key(obj)
        self._kept.setdefault(key, {})[obj["metadata"]["name"]] = trim_service(obj)
        self._count(key)

    def put_answer(self, obj: Object) -> None:
        """Take the answer to a patch, unless a watch has shown a later version or the end."""
        name = obj["metadata"]["name"]
        known = self._kept.get(_find_owner_key(obj), {}).get(name)
        if known is None or known["metadata"].get("uid") != obj["metadata"].get("uid"):
            return
        if _read_version(known) < _read_version(obj):
            self.put(obj)

    def _count(self, key: str) -> None:
        self._changes += 1
        self.versions[key] = self._changes


def trim_service(obj: Object) -> Object:
    """Keep only the form and creator of a Service, and the metadata that identifies its job.

    Other labels and owners are dropped: a tenant may fill a Service with 1 MB of them.
    """
    if _FORM in obj:
        return obj
    metadata = obj["metadata"]
    kept = {key: metadata[key] for key in _KEPT if key in metadata}
    kept["labels"] = {JOB_LABEL: (metadata.get("labels") or {}).get(JOB_LABEL)}
    kept["ownerReferences"] = [
        {"controller": True, "uid": owner.get("uid")}
        for owner in metadata.get("ownerReferences") or ()
        if owner.get("controller") is True
    ]
    return {
        "metadata": kept,
        _FORM: compute_form(obj),
        _HEADLESS: read_headless(obj),
        _CREATOR: find_creator(SERVICE, obj),
    }


def _find_key(obj: Object) -> str:
    return f"{obj['metadata'].get('namespace')}/{obj['metadata'].get('name')}"


def _find_owner_key(obj: Object) -> str:
    labels = obj["metadata"].get("labels") or {}
    return f"{obj['metadata'].get('namespace')}/{labels.get(JOB_LABEL)}"


def _read_version(obj: Object) -> int:
    return parse_version(obj["metadata"].get("resourceVersion"))

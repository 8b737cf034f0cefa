"""PATCH in its four forms: JSON, merge, strategic merge, server-side apply.

The outcome is stored as an update is (``writes``). Server-side apply keeps no managed fields: it is
a merge patch, strategic for built-in kinds, and creates an object that is absent. A field that is
no longer applied stays.
"""

from typing import Any

from localcluster.apiserver.bodies import patches, strategic
from localcluster.apiserver.engine.state import State
from localcluster.apiserver.engine.strategy import Strategy
from localcluster.apiserver.engine.writes import Writer, present
from localcluster.apiserver.model import errors, objects
from localcluster.apiserver.model.errors import Object
from localcluster.apiserver.model.objects import ObjectKey
from localcluster.apiserver.model.options import WriteOptions
from localcluster.apiserver.model.registry import ResourceType

_OPTIONS = ResourceType("meta.k8s.io", "v1", "options", "PatchOptions")


class Patcher:
    """Patches objects of one state."""

    def __init__(self, state: State, writer: Writer) -> None:
        """Patch in ``state`` through ``writer``."""
        self._state = state
        self._writer = writer

    def patch(
        self,
        strategy: Strategy,
        key: ObjectKey,
        patch: Any,
        content_type: str,
        options: WriteOptions,
        subresource: str | None,
    ) -> tuple[Object, bool]:
        """Patch an object; the second value tells whether an apply created it."""
        rt = strategy.rt
        form = content_type.partition(";")[0].strip()
        if form == patches.APPLY_PATCH:
            return self._apply(strategy, key, patch, options, subresource)
        old = self._writer.find(rt, key)
        patched = _patched(rt, old, patch, form)
        return self._writer.revise(strategy, old, patched, options, subresource), False

    def _apply(
        self,
        strategy: Strategy,
        key: ObjectKey,
        patch: Any,
        options: WriteOptions,
        subresource: str | None,
    ) -> tuple[Object, bool]:
        rt = strategy.rt
        if not isinstance(patch, dict):
            raise errors.bad_request("error decoding YAML: the body is no object")
        if not options.field_manager:
            cause = errors.required("fieldManager", "is required for apply patch")
            raise errors.invalid(_OPTIONS, "", [cause])
        wanted = _named(rt, key, patch)
        stored = self._state.find(rt.key, key)
        if stored is None:
            if subresource:
                raise errors.not_found(rt, key[1])
            return self._writer.create(strategy, key[0] or None, wanted, options), True
        old = present(rt, stored)
        form = patches.STRATEGIC_MERGE_PATCH if rt.wire_type else patches.MERGE_PATCH
        merged = _patched(rt, old, wanted, form)
        return self._writer.revise(strategy, old, merged, options, subresource), False


def _named(rt: ResourceType, key: ObjectKey, patch: Object) -> Object:
    meta = dict(patch.get("metadata") or {})
    if meta.get("managedFields"):
        raise errors.bad_request("metadata.managedFields must be nil")
    if meta.setdefault("name", key[1]) != key[1]:
        message = (
            f"the name of the object ({meta['name']}) does not match the name on the URL ({key[1]})"
        )
        raise errors.bad_request(message)
    if rt.namespaced:
        meta.setdefault("namespace", key[0])
    wanted: Object = objects.copy_json({**patch, "metadata": meta})
    return wanted


def _patched(rt: ResourceType, old: Object, patch: Any, form: str) -> Any:
    if form == patches.JSON_PATCH:
        return patches.apply_json_patch(old, patch)
    if form == patches.MERGE_PATCH:
        if not isinstance(patch, dict):
            raise errors.bad_request("error decoding patch: a merge patch is an object")
        return patches.apply_merge_patch(old, patch)
    if form == patches.STRATEGIC_MERGE_PATCH and rt.wire_type is not None:
        if not isinstance(patch, dict):
            raise errors.bad_request("error decoding patch: a merge patch is an object")
        patched = strategic.apply_strategic_patch(rt.wire_type, old, patch)
        # The API server patches a typed object here, which has a kind of its own.
        return {**patched, "apiVersion": rt.api_version, "kind": rt.kind}
    known = [patches.JSON_PATCH, patches.MERGE_PATCH, patches.APPLY_PATCH]
    if rt.wire_type is not None:
        known.insert(2, patches.STRATEGIC_MERGE_PATCH)
    message = (
        "the body of the request was in an unknown format - accepted media types include: "
        + ", ".join(known)
    )
    raise errors.unsupported_media_type(message)

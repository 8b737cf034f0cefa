"""PATCH in its three forms: JSON, merge, strategic merge. The result is stored like an update.

There is no server-side apply: its content type is answered with 415.
"""

from typing import Any

from localcluster.apiserver.bodies import patches, strategic
from localcluster.apiserver.model import errors
from localcluster.apiserver.model.errors import Object
from localcluster.apiserver.model.registry import ResourceType


def apply_patch(rt: ResourceType, old: Object, patch: Any, content_type: str) -> Any:
    """Return an object with a patch applied.

    Raises:
        StatusError: 400 or 422 for a bad patch, 415 for an unknown content type.
    """
    form = content_type.partition(";")[0].strip()
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
    known = [patches.JSON_PATCH, patches.MERGE_PATCH]
    if rt.wire_type is not None:
        known.append(patches.STRATEGIC_MERGE_PATCH)
    message = (
        "the body of the request was in an unknown format - accepted media types include: "
        + ", ".join(known)
    )
    raise errors.unsupported_media_type(message)

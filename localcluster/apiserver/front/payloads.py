"""Decodes JSON bodies; errors name the fault."""

from typing import Any

import msgspec

from localcluster.apiserver.bodies.patches import media_name
from localcluster.apiserver.model.errors import (
    Object,
    StatusError,
    bad_request,
    too_large,
    unsupported_media_type,
)

MAX_BODY_BYTES = 3 * 1024 * 1024
_JSON = "application/json"
# Sent by `kubectl create KIND` and `kubectl auth can-i`; all other commands send JSON.
_PROTOBUF = "application/vnd.kubernetes.protobuf"


def decode_object(body: bytes, content_type: str, kind: str) -> Object:
    """Return the object of a body in JSON; without a content type, JSON is assumed."""
    media = media_name(content_type) or _JSON
    if media != _JSON:
        raise unsupported_media_type(
            "the body of the request was in an unknown format"
            f" - accepted media types include: {_JSON}"
            + ("; with kubectl, give the object in a file (-f)" if media == _PROTOBUF else "")
        )
    problem = f"the object provided is unrecognized (must be of type {kind}): "
    try:
        decoded = _decode(body)
    except ValueError as error:
        raise bad_request(f"{problem}couldn't get version/kind; {error}") from error
    if not isinstance(decoded, dict):
        raise bad_request(
            f"{problem}couldn't get version/kind; json parse error: the body is not an object"
        )
    return decoded


def decode_patch(body: bytes) -> Any:
    """Return a patch of any form."""
    try:
        return _decode(body)
    except ValueError as error:
        raise bad_request(f"error decoding patch: {error}") from error


def body_too_large() -> StatusError:
    """Return 413 for a body above the limit."""
    return too_large(f"Request entity too large: limit is {MAX_BODY_BYTES}")


def _decode(body: bytes) -> Any:
    """Return the value of a body; a ValueError has the position of the fault."""
    try:
        return msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        shown = body[:40].decode("utf-8", "replace") or "<empty>"
        raise ValueError(f"json parse error: {error} ({shown})") from error
    except RecursionError as error:
        raise ValueError("json parse error: nested too deeply") from error

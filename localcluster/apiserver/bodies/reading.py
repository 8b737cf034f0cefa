"""Reads a body as an object of its type: checks the kind, drops unknown fields, sets defaults.

By the options, an unknown field is dropped silently, dropped with a warning, or an error.
"""

from typing import Any

from localcluster.apiserver.bodies.wire import DecodeError, Decoder
from localcluster.apiserver.model import errors, metadata, objects
from localcluster.apiserver.model.errors import Object
from localcluster.apiserver.model.options import IGNORE, STRICT, WriteOptions
from localcluster.apiserver.model.registry import ResourceType
from localcluster.apiserver.schemas import structural


def read_body(rt: ResourceType, body: Any, options: WriteOptions) -> Object:
    """Return a body as a fresh object of the type; the body is not changed."""
    try:
        return _read(rt, body, options)
    except DecodeError as error:
        raise errors.undecodable(rt.version, rt.kind, str(error)) from error


def read_patched(rt: ResourceType, body: Any, options: WriteOptions) -> Object:
    """Return the outcome of a patch as a fresh object of the type; faults are 422."""
    fault = _patched_kind_fault(rt, body)
    if fault:
        raise _unreadable_patch(body, fault)
    try:
        return _read(rt, body, options)
    except DecodeError as error:
        raise _unreadable_patch(body, str(error)) from error


def read_stored(schema: Object, obj: Object) -> Object:
    """Return a stored custom object in the form of a newer schema."""
    shown: Object = objects.copy_json(obj)
    structural.prune_root(shown, schema)
    structural.apply_root_defaults(shown, schema)
    return shown


def _unreadable_patch(body: Any, why: str) -> errors.StatusError:
    cause = errors.invalid_value("patch", objects.json_text(body), why)
    message = f' "" is invalid: patch: {cause.message}'
    return errors.StatusError(422, "Invalid", message, causes=[cause])


def _patched_kind_fault(rt: ResourceType, body: Any) -> str:
    """Explain why a patched object is no longer one of its type; empty if it is one."""
    if not isinstance(body, dict):
        return ""
    kind, version = body.get("kind"), body.get("apiVersion")
    if rt.is_custom:
        if not kind:
            return f"Object 'Kind' is missing in '{objects.json_text(body)}'"
        if version and version != rt.api_version:
            name = str(objects.get_path(body, "metadata", "name") or "")
            cause = errors.invalid_value("apiVersion", version, f"must be {rt.api_version}")
            raise errors.invalid(rt, name, [cause])
    elif (version or rt.api_version) != rt.api_version:
        return f'no kind "{kind}" is registered for version "{version}"'
    elif (kind or rt.kind) != rt.kind:
        return f"converting ({rt.version}.{kind}) to ({rt.kind}): unknown conversion"
    return ""


def _read(rt: ResourceType, body: Any, options: WriteOptions) -> Object:
    if not isinstance(body, dict):
        raise errors.undecodable(rt.version, rt.kind, "the body is not a JSON object")
    _check_kind(rt, body)
    decoder = Decoder()
    if rt.wire_type is not None:
        obj = decoder.decode(rt.wire_type, body)
    else:
        obj = _read_custom(rt, body, decoder)
    _report_unknown(sorted(decoder.unknown) if rt.is_custom else decoder.unknown, options)
    meta = obj.get("metadata") or {}
    metadata.drop_empty(meta)
    head = {"apiVersion": rt.api_version, "kind": rt.kind, "metadata": meta}
    return {**head, **{name: value for name, value in obj.items() if name not in head}}


def _check_kind(rt: ResourceType, body: Object) -> None:
    kind, version = body.get("kind"), body.get("apiVersion")
    if rt.is_custom:
        _check_custom_kind(rt, body)
    elif (kind or rt.kind, version or rt.api_version) != (rt.kind, rt.api_version):
        message = (
            f'{kind} in version "{version}" cannot be handled as a {rt.kind}: no kind "{kind}" is '
            f'registered for version "{version}"'
        )
        raise errors.bad_request(message)


def _check_custom_kind(rt: ResourceType, body: Object) -> None:
    kind, version = body.get("kind"), body.get("apiVersion") or ""
    if not kind:
        message = (
            f"the object provided is unrecognized (must be of type {rt.kind}): Object 'Kind' is "
            f"missing in '{objects.json_text(body)}'"
        )
        raise errors.bad_request(message)
    if version != rt.api_version:
        message = (
            f"the API version in the data ({version}) does not match the expected API version "
            f"({rt.api_version})"
        )
        raise errors.bad_request(message)
    if kind != rt.kind:
        name = objects.get_path(body, "metadata", "name") or ""
        cause = errors.invalid_value("kind", kind, f"must be {rt.kind}")
        raise errors.invalid(rt, str(name), [cause])


def _read_custom(rt: ResourceType, body: Object, decoder: Decoder) -> Object:
    obj: Object = {
        name: objects.copy_json(value) for name, value in body.items() if name != "metadata"
    }
    given = body.get("metadata")
    if given is not None:
        obj["metadata"] = decoder.decode("ObjectMeta", given, (None, "metadata"))
    schema = rt.schema
    if schema is not None:
        decoder.unknown += structural.prune_root(obj, schema)
        structural.apply_root_defaults(obj, schema)
    return obj


def _report_unknown(unknown: list[str], options: WriteOptions) -> None:
    if options.field_validation == IGNORE:
        return
    found = [f"unknown field {errors.quote(path)}" for path in unknown]
    if not found:
        return
    if options.field_validation == STRICT:
        raise DecodeError("strict decoding error: " + ", ".join(found))
    options.warnings.extend(found)

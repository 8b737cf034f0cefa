"""PATCH in its three forms: JSON (RFC 6902), merge (RFC 7386) and strategic merge, on copies.

There is no server-side apply: its content type is answered with 415.
"""

from typing import Any

from localcluster.apiserver.bodies.strategic import apply_strategic_patch
from localcluster.apiserver.model import errors
from localcluster.apiserver.model.errors import Object
from localcluster.apiserver.model.objects import copy_json
from localcluster.apiserver.model.registry import ResourceType

JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_MERGE_PATCH = "application/strategic-merge-patch+json"

MAX_OPERATIONS = 10_000


def media_name(content_type: str) -> str:
    """Return the bare media type of a Content-Type header."""
    return content_type.partition(";")[0].strip().lower()


def choose_patch_form(rt: ResourceType, content_type: str) -> str:
    """Return the media type of a patch, if objects of this type can be patched in this form."""
    form = media_name(content_type)
    known = [JSON_PATCH, MERGE_PATCH]
    if rt.wire_type is not None:
        known.append(STRATEGIC_MERGE_PATCH)
    if form not in known:
        message = "the body of the request was in an unknown format - accepted media types include"
        raise errors.unsupported_media_type(f"{message}: {', '.join(known)}")
    return form


def apply_patch(rt: ResourceType, old: Object, patch: Any, content_type: str) -> Any:
    """Return an object with a patch applied."""
    form = choose_patch_form(rt, content_type)
    if form == JSON_PATCH:
        return apply_json_patch(old, patch)
    if not isinstance(patch, dict):
        raise errors.bad_request("error decoding patch: a patch of this type is an object")
    if form == MERGE_PATCH:
        return apply_merge_patch(old, patch)
    patched = apply_strategic_patch(str(rt.wire_type), old, patch)
    # The API server patches a typed object here, which has a kind of its own.
    return {**patched, "apiVersion": rt.api_version, "kind": rt.kind}


def apply_merge_patch(target: Any, patch: Any) -> Any:
    """Return the target with a merge patch applied; other parts are shared."""
    if not isinstance(patch, dict):
        return copy_json(patch)
    merged: Object = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = apply_merge_patch(merged.get(key), value)
    return merged


def apply_json_patch(document: Object, operations: Any) -> Any:
    """Return the document with all operations applied, or none of them."""
    if not isinstance(operations, list):
        raise errors.bad_request("error decoding patch: a JSON patch is a list of operations")
    if len(operations) > MAX_OPERATIONS:
        message = (
            f"The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, "
            f"got {len(operations)}"
        )
        raise errors.too_large(message)
    root = {"": copy_json(document)}
    for operation in operations:
        _apply_operation(root, operation)
    return root[""]


def _unappliable(why: str) -> errors.StatusError:
    message = f"the server rejected our request due to an error in our request: {why}"
    return errors.StatusError(422, "Invalid", message, {})


def _apply_operation(root: Object, operation: Any) -> None:
    name, path = _read_operation(operation)
    if name in ("add", "replace", "test"):
        # An absent value is null.
        value = copy_json(operation.get("value"))
        {"add": _add, "replace": _replace, "test": _test}[name](root, path, value)
    elif name == "remove":
        _remove(root, path)
    elif name in ("move", "copy"):
        origin = operation.get("from")
        if origin is None:
            raise _unappliable(f"{name} operation does not apply: it has no from")
        if name == "move" and path.startswith(origin + "/"):
            raise _unappliable("move into itself")
        value = copy_json(_lookup(root, origin, name))
        if name == "move":
            _remove(root, origin)
        _add(root, path, value)
    else:
        raise _unappliable(f"unexpected operation kind: {name}")


def _read_operation(operation: Any) -> tuple[str, str]:
    """Return name and path of an operation."""
    if not isinstance(operation, dict):
        raise errors.bad_request("error decoding patch: an operation is an object")
    for key in ("op", "path", "from"):
        if not isinstance(operation.get(key, ""), str):
            raise errors.bad_request(f"error decoding patch: {key} of an operation is a string")
    name = operation.get("op", "")
    if "path" not in operation:
        raise _unappliable(f"{name} operation does not apply: it has no path")
    return name, operation["path"]


def _tokens(path: str) -> list[str]:
    if path and not path.startswith("/"):
        raise _unappliable(f"path does not start with a slash: {path}")
    return [token.replace("~1", "/").replace("~0", "~") for token in path.split("/")]


def _parent(root: Object, path: str, name: str) -> tuple[Any, str]:
    *parents, last = _tokens(path)
    node: Any = root
    for token in parents:
        node = _child(node, token, path, name)
    return node, last


def _child(node: Any, token: str, path: str, name: str) -> Any:
    if isinstance(node, dict) and token in node:
        return node[token]
    if isinstance(node, list):
        return node[_index(node, token, path, name)]
    raise _unappliable(f"{name} operation does not apply: doc is missing path: {path}")


def _index(node: list[Any], token: str, path: str, name: str, *, last: int = -1) -> int:
    limit = len(node) + last
    if not token.isdecimal() or int(token) > limit or (len(token) > 1 and token[0] == "0"):
        raise _unappliable(f"{name} operation does not apply: invalid array index: {path}")
    return int(token)


def _lookup(root: Object, path: str, name: str) -> Any:
    node, last = _parent(root, path, name)
    return _child(node, last, path, name)


def _add(root: Object, path: str, value: Any) -> None:
    node, last = _parent(root, path, "add")
    if isinstance(node, dict):
        node[last] = value
    elif isinstance(node, list):
        index = len(node) if last == "-" else _index(node, last, path, "add", last=0)
        node.insert(index, value)
    else:
        raise _unappliable(f"add operation does not apply: doc is missing path: {path}")


def _replace(root: Object, path: str, value: Any) -> None:
    node, last = _parent(root, path, "replace")
    if isinstance(node, dict):
        # Like the library of the API server: a replace may add a missing member.
        node[last] = value
    else:
        _child(node, last, path, "replace")
        node[int(last)] = value


def _remove(root: Object, path: str) -> None:
    _lookup(root, path, "remove")
    node, last = _parent(root, path, "remove")
    del node[last if isinstance(node, dict) else int(last)]


def _test(root: Object, path: str, value: Any) -> None:
    node, last = _parent(root, path, "test")
    if isinstance(node, dict) and last not in node:
        found = None
    else:
        found = _child(node, last, path, "test")
    if found != value or isinstance(found, bool) != isinstance(value, bool):
        raise _unappliable(f"testing value {path} failed: test failed")

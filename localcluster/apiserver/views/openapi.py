"""OpenAPI v3 documents: the index, and one for each group and version. Pure.

kubectl reads two things from them: whether PATCH takes ``fieldValidation`` (apply), and the schemas
of CRDs (explain). Built-in kinds have no schema here. Documents are cached by the types described.
"""

import hashlib
from collections.abc import Iterable
from functools import lru_cache

import msgspec

from localcluster.apiserver.model.errors import Object
from localcluster.apiserver.model.registry import ResourceType

KUBERNETES_VERSION = "v1.34.0"
"""The version that this server implements."""
EMPTY_OPENAPI_V2 = b"\n\x032.0\x12\x15\n\nKubernetes\x12\x07v1.34.0B\x00"
"""A v2 document without content, in protobuf. kubectl requests it if v3 had no answer, and an empty
one means "unknown kind"."""


def build_index(types: Iterable[ResourceType]) -> Object:
    """Return /openapi/v3: the address of each document, which changes with the content."""
    paths = {}
    for (group, version), served in _by_group_version(types).items():
        path = f"apis/{group}/{version}" if group else f"api/{version}"
        digest = hashlib.sha256(encode_document(served)).hexdigest()[:32].upper()
        paths[path] = {"serverRelativeURL": f"/openapi/v3/{path}?hash={digest}"}
    return {"paths": paths}


def find_document(types: Iterable[ResourceType], path: str) -> bytes | None:
    """Return the encoded document of ``api/VERSION`` or ``apis/GROUP/VERSION``, None if unknown."""
    group, _, version = path.partition("/")[2].rpartition("/")
    if path.startswith("apis/") != bool(group):
        return None
    served = _by_group_version(types).get((group, version))
    return None if served is None else encode_document(served)


def _by_group_version(
    types: Iterable[ResourceType],
) -> dict[tuple[str, str], tuple[ResourceType, ...]]:
    found: dict[tuple[str, str], tuple[ResourceType, ...]] = {}
    for rt in types:
        key = (rt.group, rt.version)
        found[key] = (*found.get(key, ()), rt)
    return found


@lru_cache(maxsize=64)
def encode_document(types: tuple[ResourceType, ...]) -> bytes:
    """Return the document of one group and version, encoded."""
    paths: Object = {}
    schemas: Object = {}
    for rt in types:
        path, operations = _patch_path(rt)
        paths[path] = operations
        schemas[_type_name(rt)] = _schema(rt)
    document = {
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": KUBERNETES_VERSION},
        "paths": paths,
        "components": {"schemas": schemas},
    }
    return msgspec.json.encode(document)


def _patch_path(rt: ResourceType) -> tuple[str, Object]:
    """Return the path of an object with its PATCH, which kubectl searches for."""
    base = f"/apis/{rt.group}/{rt.version}" if rt.group else f"/api/{rt.version}"
    inside = f"{base}/namespaces/{{namespace}}" if rt.namespaced else base
    options = [
        {"name": option, "in": "query", "schema": {"type": "string"}}
        for option in ("dryRun", "fieldManager", "fieldValidation", "force")
    ]
    patch = {
        "parameters": options,
        "responses": {"200": {"description": "OK"}},
        "x-kubernetes-action": "patch",
        "x-kubernetes-group-version-kind": _describe(rt),
    }
    return f"{inside}/{rt.plural}/{{name}}", {"patch": patch}


def _describe(rt: ResourceType) -> Object:
    return {"group": rt.group, "version": rt.version, "kind": rt.kind}


def _type_name(rt: ResourceType) -> str:
    return ".".join((*reversed(rt.group.split(".")), rt.version, rt.kind))


def _schema(rt: ResourceType) -> Object:
    any_object: Object = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    schema = dict(rt.schema or any_object)
    schema["properties"] = {
        "apiVersion": {"type": "string"},
        "kind": {"type": "string"},
        **(schema.get("properties") or {}),
        "metadata": {"type": "object"},
    }
    return {**schema, "x-kubernetes-group-version-kind": [_describe(rt)]}

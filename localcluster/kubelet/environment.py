"""The environment of a container. Pure.

``list_env_references`` names the ConfigMaps and Secrets to read first. Later sources win: the
machine's base, the cluster's variables, ``envFrom``, ``env``.
"""

import base64
from collections.abc import Iterator, Mapping
from typing import TypeAlias

from framework.kube.resources import CONFIGMAPS, SECRETS, Object, Resource
from localcluster.kubelet.fields import (
    FieldError,
    PodFacts,
    expand,
    resolve_field,
    resolve_resource,
)

Reference: TypeAlias = tuple[Resource, str]
Sources: TypeAlias = Mapping[Reference, Object | None]
"""Objects of the Pod's namespace; None: there is no such object."""


def list_env_references(container: Object) -> set[Reference]:
    """List the objects that a container's env refers to."""
    found: set[Reference] = set()
    for source in container.get("envFrom") or ():
        found |= {(resource, ref["name"]) for resource, ref in _list_env_from(source)}
    for variable in container.get("env") or ():
        value_from = variable.get("valueFrom") or {}
        for resource, field in ((CONFIGMAPS, "configMapKeyRef"), (SECRETS, "secretKeyRef")):
            if field in value_from:
                found.add((resource, value_from[field]["name"]))
    return found


def build_environment(
    container: Object, facts: PodFacts, sources: Sources, cluster: Mapping[str, str]
) -> dict[str, str]:
    """Build the variables of a container: those of the cluster, then those of its spec."""
    result = dict(cluster)
    for source in container.get("envFrom") or ():
        prefix = source.get("prefix") or ""
        for resource, ref in _list_env_from(source):
            entries = read_entries(sources, resource, ref)
            for key in sorted(entries):
                if "=" not in key:
                    result[prefix + key] = entries[key].decode("utf-8", "surrogateescape")
    for variable in container.get("env") or ():
        value_from = variable.get("valueFrom")
        if value_from:
            value = _resolve(value_from, container, facts, sources)
            if value is None:
                continue
        else:
            value = expand(variable.get("value") or "", result)
        result[variable["name"]] = value
    return result


def read_entries(sources: Sources, resource: Resource, ref: Object) -> dict[str, bytes]:
    """Return the keys of a ConfigMap or Secret; none if it is missing and optional."""
    obj = sources.get((resource, ref["name"]))
    if obj is None:
        if ref.get("optional"):
            return {}
        raise FieldError(f'{resource.kind.lower()} "{ref["name"]}" not found')
    if resource is SECRETS:
        return {key: base64.b64decode(value) for key, value in (obj.get("data") or {}).items()}
    entries = {key: value.encode() for key, value in (obj.get("data") or {}).items()}
    binary = obj.get("binaryData") or {}
    return entries | {key: base64.b64decode(value) for key, value in binary.items()}


def _list_env_from(source: Object) -> Iterator[tuple[Resource, Object]]:
    if "configMapRef" in source:
        yield CONFIGMAPS, source["configMapRef"]
    if "secretRef" in source:
        yield SECRETS, source["secretRef"]


def _resolve(
    value_from: Object, container: Object, facts: PodFacts, sources: Sources
) -> str | None:
    """Return the value of a ``valueFrom``; None: the variable is left out."""
    if "fieldRef" in value_from:
        return resolve_field(facts, value_from["fieldRef"]["fieldPath"])
    if "resourceFieldRef" in value_from:
        return resolve_resource(facts, value_from["resourceFieldRef"], container)
    for resource, field in ((CONFIGMAPS, "configMapKeyRef"), (SECRETS, "secretKeyRef")):
        ref = value_from.get(field)
        if ref is None:
            continue
        content = read_entries(sources, resource, ref).get(ref["key"])
        if content is not None:
            return content.decode("utf-8", "surrogateescape")
        if ref.get("optional"):
            return None
        namespace = facts.pod["metadata"]["namespace"]
        raise FieldError(
            f"couldn't find key {ref['key']} in {resource.kind} {namespace}/{ref['name']}"
        )
    raise FieldError(f"unsupported valueFrom: {', '.join(sorted(value_from))}")

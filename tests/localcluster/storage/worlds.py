"""Builders for the storage tests: a storage in manual time, small objects, a CRD."""

from datetime import UTC, datetime
from typing import Any

from framework.clock import ManualClock, SequentialUids
from localcluster.apiserver.bodies.patches import MERGE_PATCH
from localcluster.apiserver.model.errors import Object
from localcluster.apiserver.model.registry import ResourceType
from localcluster.apiserver.storage import Selector, Storage, Watch

START = datetime(2024, 1, 1, tzinfo=UTC)
NAMESPACE = "default"
GROUP = "example.com"


class World:
    """A storage with shorthands."""

    def __init__(self, *, history_limit: int = 10_000) -> None:
        self.clock = ManualClock(START)
        self.uids = SequentialUids(7)
        self.storage = Storage(self.clock, self.uids, history_limit=history_limit)

    def type(self, plural: str) -> ResourceType:
        found = [rt for rt in self.storage.registry.all() if rt.plural == plural]
        assert len(found) == 1, f"{plural}: {found}"
        return found[0]

    def create(self, plural: str, body: Object) -> Object:
        return self.storage.create(self.type(plural), NAMESPACE, body)

    def create_definition(self, body: Object) -> Object:
        return self.storage.create(self.type("customresourcedefinitions"), None, body)

    def get(self, plural: str, name: str) -> Object:
        return self.storage.get(self.type(plural), NAMESPACE, name)

    def exists(self, plural: str, name: str) -> bool:
        return name in self.names(plural)

    def names(self, plural: str, **selector: str) -> list[str]:
        rt = self.type(plural)
        namespace = NAMESPACE if rt.namespaced else None
        result = self.storage.list(rt, namespace, Selector(**selector))
        return [item["metadata"]["name"] for item in result.items]

    def merge(
        self, plural: str, name: str, patch: Object, subresource: str | None = None
    ) -> Object:
        return self.storage.patch(
            self.type(plural), NAMESPACE, name, patch, MERGE_PATCH, subresource=subresource
        )

    def bind(self, name: str, node: str = "local") -> None:
        body = {"target": {"kind": "Node", "name": node}}
        self.storage.create_subresource(self.type("pods"), NAMESPACE, name, "binding", body)

    def watch(self, plural: str, resource_version: int | None = None, **selector: str) -> Watch:
        version = self.storage.resource_version if resource_version is None else resource_version
        return self.storage.watch_from(self.type(plural), NAMESPACE, Selector(**selector), version)


def config_map(name: str, **fields: Any) -> Object:
    metadata = {"name": name, **fields.pop("metadata", {})}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, **fields}


def pod(name: str, *, metadata: Object | None = None, **spec: Any) -> Object:
    container = {"name": "main", "image": "image:1", **spec.pop("container", {})}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, **(metadata or {})},
        "spec": {"containers": [container], **spec},
    }


def owned_by(owner: Object, *, blocks: bool = True) -> Object:
    return {
        "ownerReferences": [
            {
                "apiVersion": owner["apiVersion"],
                "kind": owner["kind"],
                "name": owner["metadata"]["name"],
                "uid": owner["metadata"]["uid"],
                "blockOwnerDeletion": blocks,
                "controller": True,
            }
        ]
    }


def definition(properties: Object, **version: Any) -> Object:
    schema = {
        "type": "object",
        "properties": {
            "spec": {"type": "object", "properties": properties},
            "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        },
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"widgets.{GROUP}"},
        "spec": {
            "group": GROUP,
            "scope": "Namespaced",
            "names": {"plural": "widgets", "kind": "Widget"},
            "versions": [
                {
                    "name": "v1",
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": schema},
                    "subresources": {"status": {}},
                    **version,
                }
            ],
        },
    }


def widget(name: str, **spec: Any) -> Object:
    return {
        "apiVersion": f"{GROUP}/v1",
        "kind": "Widget",
        "metadata": {"name": name},
        "spec": spec,
    }

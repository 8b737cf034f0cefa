"""A storage in manual time, with short forms of its calls in one namespace."""

from datetime import UTC, datetime
from typing import Any

from framework.clock import ManualClock, SequentialUids
from localcluster.apiserver.bodies.patches import MERGE_PATCH
from localcluster.apiserver.model.errors import Object
from localcluster.apiserver.model.registry import ResourceType
from localcluster.apiserver.storage import DeleteOptions, Selector, Storage, Watch

START = datetime(2024, 1, 1, tzinfo=UTC)
NAMESPACE = "default"


class World:
    def __init__(self, *, history_limit: int = 10_000) -> None:
        self.storage = Storage(ManualClock(START), SequentialUids(7), history_limit=history_limit)

    def type(self, plural: str) -> ResourceType:
        (found,) = [rt for rt in self.storage.registry.all() if rt.plural == plural]
        return found

    def create(self, plural: str, body: Object) -> Object:
        rt = self.type(plural)
        return self.storage.create(rt, NAMESPACE if rt.namespaced else None, body)

    def get(self, plural: str, name: str) -> Object:
        return self.storage.get(self.type(plural), NAMESPACE, name)

    def objects(self, plural: str, **selector: str | None) -> list[Object]:
        return self.storage.list(self.type(plural), NAMESPACE, Selector(**selector)).items

    def names(self, plural: str, **selector: str) -> list[str]:
        return [item["metadata"]["name"] for item in self.objects(plural, **selector)]

    def merge(
        self, plural: str, name: str, patch: Object, subresource: str | None = None
    ) -> Object:
        rt = self.type(plural)
        return self.storage.patch(rt, NAMESPACE, name, patch, MERGE_PATCH, subresource=subresource)

    def delete(self, plural: str, name: str, **options: Any) -> Object:
        return self.storage.delete(self.type(plural), NAMESPACE, name, DeleteOptions(**options))

    def watch(self, plural: str, version: int | None = None, **selector: str | None) -> Watch:
        since = self.storage.resource_version if version is None else version
        return self.storage.watch_from(self.type(plural), NAMESPACE, Selector(**selector), since)

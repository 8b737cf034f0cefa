"""When a list is older than what was seen: a server that is behind, or a restored storage."""

# ruff: noqa: ARG002 the doubles keep the signatures of what they stand for

import asyncio
import logging
from collections.abc import AsyncGenerator

import pytest

from framework.kube.errors import GoneError, build_api_error
from framework.kube.listwatch import ListWatch
from framework.kube.resources import PODS, Object, Resource
from tests.framework.kube.following import LongestWait
from tests.support.fakes.storageclient import LoopClock, Network, StorageClient, open_storage

pytestmark = pytest.mark.looptime


class BehindClient(StorageClient):
    """A server some of whose lists are older than others."""

    def __init__(self, *versions: int) -> None:
        super().__init__(open_storage(LoopClock()), BrokenOnce())
        self._versions = list(versions)

    async def list_pages(
        self, *args: object, **kwargs: object
    ) -> AsyncGenerator[tuple[Object, bool]]:
        version = self._versions.pop(0) if len(self._versions) > 1 else self._versions[0]
        yield {"metadata": {"resourceVersion": str(version)}, "items": []}, True


class BrokenOnce(Network):
    """The first watch is told to list anew."""

    def __init__(self) -> None:
        self.is_broken = False

    def check_watch(self, resource: Resource) -> None:
        if not self.is_broken:
            self.is_broken = True
            error = build_api_error(410, b"{}", method="WATCH", path=resource.plural)
            assert isinstance(error, GoneError)
            raise error


class Sink:
    def __init__(self) -> None:
        self.lists: list[str] = []

    def replace(self, items: list[Object], resource_version: str) -> None:
        self.lists.append(resource_version)

    def apply(self, event_type: str, obj: Object) -> None:
        raise AssertionError("nothing changes here")

    def bookmark(self, resource_version: str) -> None:
        raise AssertionError("nothing is looked at for so long")


async def follow(*versions: int) -> list[str]:
    sink = Sink()
    client = BehindClient(*versions)
    watch = ListWatch(client, PODS, sink, clock=LoopClock(), random=LongestWait())
    running = asyncio.create_task(watch.run(), name="watch")
    await asyncio.sleep(15)
    running.cancel()
    return sink.lists


async def test_one_list_older_than_what_was_seen_is_not_believed(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.WARNING)
    assert await follow(50, 40, 50) == ["50", "50"]
    assert "storage was restored" not in caplog.text


async def test_second_list_older_than_what_was_seen_is_believed(
    caplog: pytest.LogCaptureFixture,
) -> None:
    assert (await follow(50, 40, 41))[:2] == ["50", "41"]
    assert "storage was restored" in caplog.text

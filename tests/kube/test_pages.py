"""Pages of lists on a real API server, which lets each page of a list have a limit of its own."""

import pytest

from framework.kube.client import PAGE_SIZE, KubeClient
from framework.kube.pages import MAX_PAGE_BYTES
from framework.kube.resources import CONFIGMAPS
from framework.kube.transport import Request, Transport

SELECTOR = "test=pages"


async def fill(kube: KubeClient, namespace: str, prefix: str, number: int, size: int) -> None:
    for index in range(number):
        body = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": f"{prefix}-{index:03}", "labels": {"test": "pages"}},
            "data": {"a": "x" * size},
        }
        await kube.create(CONFIGMAPS, namespace, body)


async def test_list_of_small_and_large_objects_is_whole_in_small_pages(
    kube: KubeClient, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    await fill(kube, namespace, "a", 160, 10)
    await fill(kube, namespace, "b", 30, 1_000_000)
    await fill(kube, namespace, "c", 20, 10)
    sizes: list[int] = []
    send = Transport.send

    async def measure(self: Transport, request: Request) -> bytes:
        sizes.append(0)
        raw = await send(self, request)
        sizes[-1] = len(raw)
        return raw

    monkeypatch.setattr(Transport, "send", measure)
    whole = await kube.list(CONFIGMAPS, namespace, label_selector=SELECTOR, limit=PAGE_SIZE)
    names = [item["metadata"]["name"] for item in whole["items"]]
    expected = [("a", 160), ("b", 30), ("c", 20)]
    assert names == [
        f"{prefix}-{index:03}" for prefix, number in expected for index in range(number)
    ]
    assert max(sizes) <= MAX_PAGE_BYTES
    assert sum(sizes) > 30_000_000
    # Answers that were given up, and asked for again.
    assert 1 <= sizes.count(0) <= 4

"""Pages of lists: few for ordinary objects, and small for large ones, whatever their order."""

import json
import tracemalloc
from collections.abc import Sequence
from urllib.parse import parse_qs, urlsplit

import pytest

from framework.clock import SequentialUids, SystemClock
from framework.kube.client import PAGE_SIZE, KubeClient
from framework.kube.config import KubeConfig
from framework.kube.errors import AnswerTooLargeError, GoneError, build_api_error
from framework.kube.listwatch import ListWatch
from framework.kube.pages import FIRST_PAGE_SIZE, MAX_PAGE_BYTES, WANTED_PAGE_BYTES, PageLimit
from framework.kube.resources import CONFIGMAPS, PODS, Object
from framework.kube.transport import Request, Transport
from localcluster.apiserver.server import ApiServer
from localcluster.apiserver.storage import Storage
from tests.framework.kube.conftest import Bench
from tests.framework.kube.following import LongestWait, Mirror
from tests.framework.kube.scripted import pod, pod_list

MIB = 2**20


class Pods:
    """Stands for a server's Pods of given sizes, and notes what was asked and read."""

    def __init__(self, sizes: Sequence[int], *, expired: Sequence[int] = ()) -> None:
        self._sizes = sizes
        # The numbers of the requests that are refused with 410.
        self._expired = expired
        self.limits: list[int | None] = []
        self.read_bytes: list[int] = []

    @property
    def names(self) -> list[str]:
        return [f"p{number:06}" for number in range(len(self._sizes))]

    async def send(self, request: Request) -> bytes:
        query = {key: values[0] for key, values in parse_qs(urlsplit(request.path).query).items()}
        limit = int(query["limit"]) if "limit" in query else None
        self.limits.append(limit)
        if len(self.limits) - 1 in self._expired:
            raise build_api_error(410, b"", method="GET", path=request.bare_path)
        start = int(query.get("continue", "0"))
        end = len(self._sizes) if limit is None else min(start + limit, len(self._sizes))
        size = sum(self._sizes[start:end])
        if request.max_answer_bytes is not None and size > request.max_answer_bytes:
            self.read_bytes.append(request.max_answer_bytes)
            raise AnswerTooLargeError("too large", method="GET", path=request.bare_path)
        self.read_bytes.append(size)
        return self._build_page(start, end)

    def _build_page(self, start: int, end: int) -> bytes:
        metadata = {"resourceVersion": "7"}
        if end < len(self._sizes):
            metadata["continue"] = str(end)
        items = ",".join(self._build_pod(number) for number in range(start, end))
        return f'{{"metadata": {json.dumps(metadata)}, "items": [{items}]}}'.encode()

    def _build_pod(self, number: int) -> str:
        meta = f'{{"name": "p{number:06}", "resourceVersion": "{number + 1}"}}'
        padding = "x" * (self._sizes[number] - len(meta) - 50)
        return f'{{"metadata": {meta}, "spec": {{"x": "{padding}"}}}}'


def connect(pods: Pods, monkeypatch: pytest.MonkeyPatch) -> KubeClient:
    async def send(_: Transport, request: Request) -> bytes:
        return await pods.send(request)

    monkeypatch.setattr(Transport, "send", send)
    return KubeClient(KubeConfig(server="http://h"), user_agent="t", clock=SystemClock())


async def list_names(client: KubeClient) -> list[str]:
    names: list[str] = []
    async for page, is_restart in client.list_pages(PODS, limit=PAGE_SIZE):
        if is_restart:
            names.clear()
        names += [item["metadata"]["name"] for item in page["items"]]
    return names


async def test_list_of_ordinary_pods_takes_few_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    pods = Pods([300] * 100_000)
    assert await list_names(connect(pods, monkeypatch)) == pods.names
    assert pods.limits[:5] == [50, 100, 200, 400, 500]
    assert len(pods.limits) == 203


MIXED = [
    pytest.param([1_400_000] * 300, id="large"),
    pytest.param([300] * 2000 + [1_400_000] * 300 + [300] * 3000, id="large between small"),
    pytest.param([1_400_000 if n % 40 == 0 else 300 for n in range(8000)], id="one of 40 is large"),
    pytest.param([9 * MIB] * 5, id="as large as an object can be"),
]


@pytest.mark.parametrize("sizes", MIXED)
async def test_page_of_large_pods_stays_small(
    sizes: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    pods = Pods(sizes)
    assert await list_names(connect(pods, monkeypatch)) == pods.names
    assert max(pods.read_bytes) <= MAX_PAGE_BYTES
    # Of what is there, not much more is read.
    assert sum(pods.read_bytes) < sum(sizes) * 1.5 + 3 * MAX_PAGE_BYTES
    assert len(pods.limits) < 10 + len(sizes) / PAGE_SIZE + 3 * sum(sizes) / WANTED_PAGE_BYTES


async def test_pages_grow_again_after_large_pods(monkeypatch: pytest.MonkeyPatch) -> None:
    pods = Pods([1_400_000] * 100 + [300] * 10_000)
    assert await list_names(connect(pods, monkeypatch)) == pods.names
    assert pods.limits[-3:] == [PAGE_SIZE] * 3


async def test_single_object_beyond_the_limit_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    pods = Pods([300, 17 * MIB])
    with pytest.raises(AnswerTooLargeError):
        await list_names(connect(pods, monkeypatch))
    assert pods.limits[-1] == 1


async def test_list_that_expires_is_begun_again_in_one_page_if_it_fits(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pods = Pods([300] * 400, expired=[2])
    assert await list_names(connect(pods, monkeypatch)) == pods.names
    assert pods.limits == [50, 100, 200, None]


async def test_large_list_that_expires_is_begun_again_in_pages(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pods = Pods([1_400_000] * 100, expired=[5])
    assert await list_names(connect(pods, monkeypatch)) == pods.names
    assert pods.limits[6:8] == [None, FIRST_PAGE_SIZE]
    assert max(pods.read_bytes) <= MAX_PAGE_BYTES


async def test_list_that_expires_twice_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    pods = Pods([1_400_000] * 100, expired=[5, 12])
    with pytest.raises(GoneError):
        await list_names(connect(pods, monkeypatch))
    assert len(pods.limits) == 13


async def test_list_in_one_piece_that_is_too_large_is_read_in_pages(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pods = Pods([1_400_000] * 30)
    client = connect(pods, monkeypatch)
    whole = await client.list(PODS)
    assert [item["metadata"]["name"] for item in whole["items"]] == pods.names
    assert pods.limits[:2] == [None, FIRST_PAGE_SIZE]


@pytest.mark.parametrize("most", [1, 3, 50])
def test_page_is_never_larger_than_the_caller_allows(most: int) -> None:
    limit = PageLimit(most)
    assert limit.value == most
    limit.note_page(most, 100)
    assert limit.value == most
    limit.ask_all()
    assert limit.shrink()
    assert limit.value == most


async def test_memory_of_a_list_is_that_of_a_page(monkeypatch: pytest.MonkeyPatch) -> None:
    def trim(obj: Object) -> Object:
        return {"metadata": obj["metadata"]}

    pods = Pods([1_000_000] * 300)
    mirror = Mirror()
    client = connect(pods, monkeypatch)
    watch = ListWatch(client, PODS, mirror, clock=SystemClock(), random=LongestWait(), trim=trim)
    tracemalloc.start()
    try:
        await watch._list()
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert list(mirror.objects) == pods.names
    # The fake builds a page in three copies; a list of all Pods would take 300 MB.
    assert peak < 5 * WANTED_PAGE_BYTES


async def test_answer_is_not_read_beyond_its_limit(bench: Bench) -> None:
    big = [pod(f"p{number}", number, big="x" * MIB) for number in range(1, 18)]
    server, client = await bench.start(
        pod_list(5, *big), pod_list(5, *big[:12], more="12"), pod_list(5, *big[12:])
    )
    whole = await client.list(PODS, limit=PAGE_SIZE)
    assert [item["metadata"]["name"] for item in whole["items"]] == [f"p{n}" for n in range(1, 18)]
    assert [seen.query["limit"] for seen in server.seen] == ["50", "12", "7"]
    # The rest of the first answer would have had to be read before its connection is used again.
    assert server.connections == 2


async def test_large_objects_of_the_local_server_are_all_listed(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes: list[int] = []
    send = Transport.send

    async def measure(self: Transport, request: Request) -> bytes:
        raw = await send(self, request)
        if "limit" in request.path:
            sizes.append(len(raw))
        return raw

    monkeypatch.setattr(Transport, "send", measure)
    clock = SystemClock()
    storage = Storage(clock=clock, uids=SequentialUids(seed))
    async with ApiServer(storage, clock=clock, tokens=["t"]) as server:
        config = KubeConfig(server=await server.start(), token="t")
        async with KubeClient(config, user_agent="test", clock=clock) as client:
            for number in range(40):
                body = {
                    "apiVersion": "v1",
                    "kind": "ConfigMap",
                    "metadata": {"name": f"c{number:02}"},
                    "data": {"a": "x" * 1_000_000},
                }
                await client.create(CONFIGMAPS, "default", body)
            whole = await client.list(CONFIGMAPS, "default", limit=PAGE_SIZE)
    names = [item["metadata"]["name"] for item in whole["items"]]
    assert [name for name in names if name.startswith("c")] == [f"c{n:02}" for n in range(40)]
    assert sum(sizes) > 40_000_000
    assert max(sizes) <= MAX_PAGE_BYTES

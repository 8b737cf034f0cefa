"""Pages of lists: few for ordinary objects, and small for large ones, in any order."""

import json
import tracemalloc
from collections.abc import Callable, Sequence
from urllib.parse import parse_qs, urlsplit

import pytest

from framework.clock import SystemClock
from framework.kube.client import PAGE_SIZE, KubeClient
from framework.kube.config import KubeConfig
from framework.kube.errors import AnswerTooLargeError, GoneError, build_api_error
from framework.kube.listwatch import ListWatch
from framework.kube.pages import FIRST_PAGE_SIZE, MAX_PAGE_BYTES, WANTED_PAGE_BYTES, PageLimit
from framework.kube.resources import PODS, Object
from framework.kube.transport import Request, Transport
from tests.framework.kube.conftest import Bench
from tests.framework.kube.following import LongestWait, Mirror
from tests.framework.kube.scripted import pod, pod_list
from tests.support.builders.cases import cases

MIB = 2**20


class Pods:
    """The Pods of a server, with given sizes; records the requests and the read bytes."""

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


Connect = Callable[[Pods], KubeClient]


@pytest.fixture
def connect(monkeypatch: pytest.MonkeyPatch) -> Connect:
    """Return a function that opens a client of these Pods' server."""

    def open_client(pods: Pods) -> KubeClient:
        async def send(_: Transport, request: Request) -> bytes:
            return await pods.send(request)

        monkeypatch.setattr(Transport, "send", send)
        return KubeClient(KubeConfig(server="http://h"), user_agent="t", clock=SystemClock())

    return open_client


async def list_names(client: KubeClient) -> list[str]:
    names: list[str] = []
    async for page, is_restart in client.list_pages(PODS, limit=PAGE_SIZE):
        if is_restart:
            names.clear()
        names += [item["metadata"]["name"] for item in page["items"]]
    return names


async def test_list_of_ordinary_pods_takes_few_pages(connect: Connect) -> None:
    pods = Pods([300] * 20_000)
    assert await list_names(connect(pods)) == pods.names
    assert pods.limits[:5] == [50, 100, 200, 400, 500]
    assert len(pods.limits) == 43


@cases(
    "sizes",
    {
        "large": [1_400_000] * 300,
        "large between small": [300] * 2000 + [1_400_000] * 300 + [300] * 3000,
        "one of 40 is large": [1_400_000 if n % 40 == 0 else 300 for n in range(8000)],
        "as large as an object can be": [9 * MIB] * 5,
    },
)
async def test_page_of_large_pods_stays_small(sizes: list[int], connect: Connect) -> None:
    pods = Pods(sizes)
    assert await list_names(connect(pods)) == pods.names
    assert max(pods.read_bytes) <= MAX_PAGE_BYTES
    # Of what is there, not much more is read.
    assert sum(pods.read_bytes) < sum(sizes) * 1.5 + 3 * MAX_PAGE_BYTES
    assert len(pods.limits) < 10 + len(sizes) / PAGE_SIZE + 3 * sum(sizes) / WANTED_PAGE_BYTES


async def test_pages_grow_again_after_large_pods(connect: Connect) -> None:
    pods = Pods([1_400_000] * 100 + [300] * 10_000)
    assert await list_names(connect(pods)) == pods.names
    assert pods.limits[-3:] == [PAGE_SIZE] * 3


async def test_single_object_beyond_the_limit_is_an_error(connect: Connect) -> None:
    pods = Pods([300, 17 * MIB])
    with pytest.raises(AnswerTooLargeError):
        await list_names(connect(pods))
    assert pods.limits[-1] == 1


async def test_list_that_expires_is_begun_again_in_one_page_if_it_fits(connect: Connect) -> None:
    pods = Pods([300] * 400, expired=[2])
    assert await list_names(connect(pods)) == pods.names
    assert pods.limits == [50, 100, 200, None]


async def test_large_list_that_expires_is_begun_again_in_pages(connect: Connect) -> None:
    pods = Pods([1_400_000] * 100, expired=[5])
    assert await list_names(connect(pods)) == pods.names
    assert pods.limits[6:8] == [None, FIRST_PAGE_SIZE]
    assert max(pods.read_bytes) <= MAX_PAGE_BYTES


async def test_list_that_expires_twice_is_given_up(connect: Connect) -> None:
    pods = Pods([1_400_000] * 100, expired=[5, 12])
    with pytest.raises(GoneError):
        await list_names(connect(pods))
    assert len(pods.limits) == 13


async def test_list_in_one_piece_that_is_too_large_is_read_in_pages(connect: Connect) -> None:
    pods = Pods([1_400_000] * 30)
    whole = await connect(pods).list(PODS)
    assert [item["metadata"]["name"] for item in whole["items"]] == pods.names
    assert pods.limits[:2] == [None, FIRST_PAGE_SIZE]


@pytest.mark.parametrize("most", [1, 3, 50])
def test_page_is_never_larger_than_the_caller_allows(most: int) -> None:
    limit = PageLimit(most)
    assert limit.value == most
    limit.record_page(most, 100)
    assert limit.value == most
    limit.ask_all()
    assert limit.shrink()
    assert limit.value == most


async def test_memory_of_a_list_is_that_of_a_page(connect: Connect) -> None:
    def trim(obj: Object) -> Object:
        return {"metadata": obj["metadata"]}

    pods = Pods([1_000_000] * 300)
    mirror = Mirror()
    watch = ListWatch(
        connect(pods), PODS, mirror, clock=SystemClock(), random=LongestWait(), trim=trim
    )
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

"""The server over real sockets: laws of the local server only."""

import asyncio
import gzip
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from typing import Any

import aiohttp
import pytest

from framework.clock import SystemClock
from framework.kube.tokenurl import url_with_token
from localcluster.apiserver.engine.history import WatchEvent
from localcluster.apiserver.model.errors import StatusError
from localcluster.apiserver.model.options import ContainerLog, LogReadOptions
from localcluster.apiserver.server import ApiServer, PortInUseError
from localcluster.apiserver.storage import Watch
from tests.contract.apiclient import JSON_PATCH, TABLE, Answer, Object, config_map, owned_by, pod
from tests.contract.definitions import define
from tests.localcluster.server.conftest import TOKEN, Running, open_server
from tests.support.waiting import HANG_SECONDS


async def test_port_in_use_names_port_and_remedy(running: Running) -> None:
    port = int(running.url.rpartition(":")[2])
    async with ApiServer(running.storage, clock=SystemClock(), tokens=["t"]) as second:
        with pytest.raises(PortInUseError, match=rf"port {port} .* choose another port"):
            await second.start(port=port)


async def test_started_again_listens_on_one_more_address(running: Running) -> None:
    second = await running.server.start("127.0.0.2")
    assert second.startswith("http://127.0.0.2:")
    running.api.url = second
    (await running.api.list("configmaps")).ok()


async def test_stopped_server_ends_its_watches_and_frees_its_port(running: Running) -> None:
    async with running.api.watch("configmaps") as watch:
        await running.server.stop()
        assert await watch.rest() == []
    with pytest.raises(aiohttp.ClientConnectionError):
        await running.api.list("configmaps")


async def test_token_in_the_path_opens_the_server(running: Running) -> None:
    async with aiohttp.ClientSession() as session:
        url = url_with_token(running.url, TOKEN) + "/api/v1/namespaces/default"
        async with session.get(url) as response:
            found = await response.json()
    assert found["metadata"]["name"] == "default"


async def test_unknown_path_is_a_status_object(running: Running) -> None:
    (await running.api.send("GET", "/none")).refused(404, "NotFound")


async def test_compressed_body_is_read(running: Running) -> None:
    body = gzip.compress(json.dumps(config_map("one", {"a": "1"})).encode())
    headers = {"Content-Encoding": "gzip", "Content-Type": "application/json"}
    url = running.url + running.api.path("configmaps")
    async with running.api.session.post(url, data=body, headers=headers) as response:
        created = await response.json()
    assert created["data"] == {"a": "1"}


async def test_garbage_is_collected_behind_a_write(running: Running) -> None:
    api = running.api
    owner = (await api.create("configmaps", config_map("owner"))).ok()
    body = pod("dependent", ownerReferences=owned_by(owner))
    (await api.create("pods", body)).ok()
    (await api.delete("configmaps", "owner")).ok()
    (await api.get("pods", "dependent")).refused(404, "NotFound")


async def test_hundred_watches_get_an_event_that_is_copied_for_none(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    api = running.api
    taken: list[Object] = []
    pop = Watch.pop

    def pop_and_record(watch: Watch) -> list[WatchEvent]:
        events = pop(watch)
        taken.extend(event.object for event in events)
        return events

    monkeypatch.setattr(Watch, "pop", pop_and_record)
    created = (await api.create("configmaps", config_map("roster", {"a": "0"}))).ok()
    since = {"resourceVersion": created["metadata"]["resourceVersion"]}
    async with AsyncExitStack() as stack:
        opened = [
            api.watch("configmaps", fieldSelector="metadata.name=roster", **since)
            for _ in range(100)
        ]
        watches = [await stack.enter_async_context(watch) for watch in opened]
        (await api.patch("configmaps", "roster", {"data": {"a": "1"}})).ok()
        events = [await watch.next() for watch in watches]
    assert {(kind, item["data"]["a"]) for kind, item in events} == {("MODIFIED", "1")}
    assert len(taken) == 100
    assert all(item is taken[0] for item in taken)


async def test_left_watch_is_closed_in_the_storage(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed = asyncio.Event()
    close = Watch.close

    def note(watch: Watch) -> None:
        close(watch)
        closed.set()

    monkeypatch.setattr(Watch, "close", note)
    async with running.api.watch("configmaps") as watch:
        assert watch.status == 200
        assert not closed.is_set()

    async with asyncio.timeout(HANG_SECONDS):
        await closed.wait()


async def test_warnings_with_quotes_survive_the_header(running: Running) -> None:
    answer = await running.api.create("configmaps", {**config_map("one"), 'a"b': 1})
    assert answer.headers["Warning"].startswith('299 - "unknown field ')
    assert "\n" not in answer.headers["Warning"]


async def test_create_of_a_deployment_warns_that_its_pods_do_not_run(running: Running) -> None:
    spec = {"selector": {"matchLabels": {"a": "b"}}, "template": {"spec": {"containers": []}}}
    answer = await running.api.create("deployments", {"metadata": {"name": "a"}, "spec": spec})
    assert (answer.status, "runs no Pods" in answer.headers["Warning"]) == (201, True)


async def test_openapi_address_changes_with_the_content(running: Running) -> None:
    async def find_address() -> Object:
        paths: Object = (await running.api.send("GET", "/openapi/v3")).ok()["paths"]
        found: Object = paths["apis/contract.example.com/v1"]
        return found

    definition = define({"type": "object"})
    name = definition["metadata"]["name"]
    (await running.api.create("customresourcedefinitions", definition)).ok()
    before = await find_address()
    path = "/spec/versions/0/schema/openAPIV3Schema/description"
    change = [{"op": "add", "path": path, "value": "New."}]
    (await running.api.patch("customresourcedefinitions", name, change, JSON_PATCH)).ok()
    assert await find_address() != before


async def test_table_with_unknown_include_object_is_invalid(running: Running) -> None:
    answer = await running.api.list("configmaps", accept=TABLE, includeObject="Some")
    assert answer.refused(422, "Invalid").fields == ["includeObject"]


class Logs:
    def __init__(self) -> None:
        self.asked: list[tuple[Any, ...]] = []

    async def stream(self, log: ContainerLog, options: LogReadOptions) -> AsyncIterator[bytes]:
        self.asked.append((log, options))
        if options.previous:
            raise StatusError(400, "BadRequest", "no previous container")
        yield b"one\n"
        yield b"two\n"


async def read_log(logs: Logs | None, **options: str | int) -> Answer:
    async with open_server(pod_logs=logs) as running:
        (await running.api.create("pods", pod("one"))).ok()
        return await running.api.send("GET", running.api.path("pods", "one", "log"), **options)


async def test_log_is_streamed_with_its_options() -> None:
    logs = Logs()
    answer = await read_log(
        logs, follow="true", tailLines=5, limitBytes=9, sinceTime="2026-01-02T03:04:05Z"
    )
    assert answer.body == "one\ntwo\n"
    options = LogReadOptions(
        follow=True,
        previous=False,
        timestamps=False,
        tail_lines=5,
        since_seconds=None,
        since_time=datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC),
        limit_bytes=9,
    )
    assert logs.asked == [(ContainerLog("default", "one", "main"), options)]


async def test_log_with_an_invalid_time_is_refused() -> None:
    for wrong in ("2026-01-02", "0001-01-01T00:00:00+05:00"):
        (await read_log(Logs(), sinceTime=wrong)).refused(400, "BadRequest")
    both: dict[str, str | int] = {"sinceTime": "2026-01-02T03:04:05Z", "sinceSeconds": 5}
    (await read_log(Logs(), **both)).refused(422, "Invalid")


async def test_log_that_fails_at_its_start_is_a_status() -> None:
    (await read_log(Logs(), previous="true")).refused(400, "BadRequest")


async def test_log_without_a_kubelet_is_not_implemented() -> None:
    (await read_log(None)).refused(501, "NotImplemented")


async def test_fault_of_the_server_is_a_status_and_is_logged(
    running: Running, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_arguments: object, **_options: object) -> Object:
        raise ZeroDivisionError("of the test")

    monkeypatch.setattr(running.storage, "get", fail)

    answer = await running.api.get("configmaps", "one")

    message = answer.refused(500, "InternalError").body["message"]
    assert message == "Internal error occurred: ZeroDivisionError('of the test')"
    failed = [r for r in caplog.records if r.name.startswith("localcluster.") and r.exc_info]
    assert [record.message for record in failed] == ["request failed"]


async def test_watch_from_a_version_to_come_begins_with_that_version(running: Running) -> None:
    reached = int(await running.api.version("configmaps")) + 2
    async with running.api.watch("configmaps", resourceVersion=reached) as watch:
        for name in ("one", "two", "three"):
            (await running.api.create("configmaps", config_map(name))).ok()
        event = await watch.next()
    assert event[1]["metadata"]["name"] == "three"

import asyncio
import json
import socket
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from framework.kube import errors
from framework.kube.client import KubeClient, PatchContent
from framework.kube.config import KubeConfig
from framework.kube.errors import UnreachableError
from framework.kube.resources import FRAMEWORKS, PODS
from tests.framework.kube.conftest import Bench
from tests.framework.kube.scripted import Reply, Seen, answer, pod, pod_list, refusal
from tests.support.builders.cases import cases
from tests.support.waiting import HANG_SECONDS

Call = Callable[[KubeClient], Awaitable[object]]
PODS_PATH = "/api/v1/namespaces/a/pods"
POD_PATH = f"{PODS_PATH}/b"
BODY = {"x": None}
OPERATIONS = [{"op": "test"}]


VERBS: dict[str, Call] = {
    "get": lambda c: c.get(PODS, "a", "b", timeout_seconds=HANG_SECONDS),
    "create": lambda c: c.create(PODS, "a", pod("b", 1), timeout_seconds=HANG_SECONDS),
    "replace": lambda c: c.replace(PODS, "a", "b", pod("b", 1), timeout_seconds=HANG_SECONDS),
    "delete": lambda c: c.delete(PODS, "a", "b", uid="u", timeout_seconds=HANG_SECONDS),
}
EVERY_VERB = cases("call", VERBS)
get_pod, create_pod = VERBS["get"], VERBS["create"]


async def test_get_sends_one_request_with_token_and_user_agent(bench: Bench) -> None:
    server = await bench.serve(answer(pod("b", 7, unknownField={"kept": [1, None]})))
    client = await bench.connect(server, token="t0ken")
    obj = await client.get(PODS, "a", "b")
    assert obj == pod("b", 7, unknownField={"kept": [1, None]})
    [seen] = server.seen
    assert (seen.method, seen.target) == ("GET", POD_PATH)
    assert seen.headers["Authorization"] == "Bearer t0ken"
    assert seen.headers["User-Agent"] == "test/1"
    assert seen.headers["Accept"] == "application/json"


@cases(
    "call request_line content_type body",
    {
        "create": (lambda c: c.create(PODS, "a", BODY), f"POST {PODS_PATH}", "json", BODY),
        "replace status": (
            lambda c: c.replace(PODS, "a", "b", BODY, subresource="status"),
            f"PUT {POD_PATH}/status",
            "json",
            BODY,
        ),
        "merge patch keeps null": (
            lambda c: c.patch(PODS, "a", "b", BODY),
            f"PATCH {POD_PATH}",
            "merge-patch+json",
            BODY,
        ),
        "json patch": (
            lambda c: c.patch(
                PODS, "a", "b", OPERATIONS, content=PatchContent.JSON, subresource="status"
            ),
            f"PATCH {POD_PATH}/status",
            "json-patch+json",
            OPERATIONS,
        ),
        "delete of one version": (
            lambda c: c.delete(PODS, "a", "b", resource_version="7"),
            f"DELETE {POD_PATH}",
            "json",
            {
                "apiVersion": "v1",
                "kind": "DeleteOptions",
                "preconditions": {"resourceVersion": "7"},
            },
        ),
        "delete": (
            lambda c: c.delete(PODS, "a", "b", uid="u", grace_seconds=0, propagation="Foreground"),
            f"DELETE {POD_PATH}",
            "json",
            {
                "apiVersion": "v1",
                "kind": "DeleteOptions",
                "preconditions": {"uid": "u"},
                "gracePeriodSeconds": 0,
                "propagationPolicy": "Foreground",
            },
        ),
    },
)
async def test_write_sends_its_body_and_content_type(
    call: Call, request_line: str, content_type: str, body: object, bench: Bench
) -> None:
    server, client = await bench.start(answer({"kind": "Pod"}, 201))
    assert await call(client) == {"kind": "Pod"}
    [seen] = server.seen
    assert f"{seen.method} {seen.target}" == request_line
    assert seen.headers["Content-Type"] == f"application/{content_type}"
    assert json.loads(seen.body) == body


async def test_delete_answered_by_a_status_returns_none(bench: Bench) -> None:
    _, client = await bench.start(answer({"kind": "Status", "status": "Success"}))
    assert await client.delete(FRAMEWORKS, "a", "b") is None


async def test_large_bodies_and_selectors_arrive_whole(bench: Bench) -> None:
    server, client = await bench.start(answer({}), pod_list(1))
    body = {"text": "größe" * 300_000}
    await client.create(FRAMEWORKS, "a", body)
    await client.list(PODS, label_selector="a in (b,c),!d", field_selector="spec.nodeName=n+1")
    created, listed = server.seen
    assert json.loads(created.body) == body
    assert " " not in listed.target
    assert listed.query == {
        "labelSelector": "a in (b,c),!d",
        "fieldSelector": "spec.nodeName=n+1",
    }


async def test_get_raw_returns_bytes_of_any_type(bench: Bench) -> None:
    server, client = await bench.start(Reply(body=b"\x00log", headers={}))
    assert await client.get_raw(f"{PODS_PATH}/b/log?container=c") == b"\x00log"
    assert server.seen[0].target == f"{PODS_PATH}/b/log?container=c"
    assert server.seen[0].headers["Accept"] == "*/*"


async def test_requests_share_connections(bench: Bench) -> None:
    server, client = await bench.start(answer({}), answer({}), refusal(404, "NotFound"), answer({}))
    for _ in range(2):
        await get_pod(client)
    with pytest.raises(errors.NotFoundError):
        await get_pod(client)
    await get_pod(client)
    assert server.connections == 1


async def test_environment_proxy_and_netrc_are_not_consulted(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "netrc").write_text("machine 127.0.0.1 login a password b\n")
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    server, client = await bench.start(answer({}))
    await get_pod(client)
    assert "Authorization" not in server.seen[0].headers


async def test_redirect_is_refused_and_not_followed(bench: Bench) -> None:
    server, client = await bench.start(Reply(307, b"", {"Location": "/elsewhere"}))
    with pytest.raises(errors.ApiError, match="307"):
        await get_pod(client)
    assert len(server.seen) == 1


async def test_client_that_is_not_opened_raises(bench: Bench) -> None:
    client = KubeClient(KubeConfig(server="http://h"), user_agent="t", clock=bench.clock)
    with pytest.raises(RuntimeError, match="async with"):
        await get_pod(client)


async def test_list_follows_pages_and_joins_items(bench: Bench) -> None:
    server, client = await bench.start(
        pod_list(5, pod("a", 1), more="t/1"), pod_list(5, pod("b", 2), more="t/2"), pod_list(5)
    )
    whole = await client.list(PODS, "a", limit=1)
    assert [item["metadata"]["name"] for item in whole["items"]] == ["a", "b"]
    assert whole["metadata"] == {"resourceVersion": "5"}
    assert [seen.query for seen in server.seen] == [
        {"limit": "1"},
        {"limit": "1", "continue": "t/1"},
        {"limit": "1", "continue": "t/2"},
    ]


async def test_list_refused_as_gone_at_its_first_page_raises(bench: Bench) -> None:
    server, client = await bench.start(refusal(410, "Expired"))
    with pytest.raises(errors.GoneError):
        await client.list(PODS)
    assert len(server.seen) == 1


async def test_list_without_items_is_empty_and_other_answers_are_unreachable(bench: Bench) -> None:
    bodies = ({"items": 5}, {"items": [1]}, {"metadata": "x"})
    empty = {"metadata": {"resourceVersion": "1"}, "items": None}
    _, client = await bench.start(answer(empty), *map(answer, bodies))
    assert (await client.list(PODS))["items"] == []
    for _ in bodies:
        with pytest.raises(UnreachableError, match="not a list"):
            await client.list(PODS)


@EVERY_VERB
@pytest.mark.parametrize("status", [429, 500, 503, 504, 409, 404])
async def test_refused_request_is_sent_once_and_keeps_the_message(
    status: int, call: Call, bench: Bench
) -> None:
    server, client = await bench.start(refusal(status, "Why", "because", Retry_After="7"))
    with pytest.raises(errors.ApiError) as caught:
        await call(client)
    assert len(server.seen) == 1
    error = caught.value
    assert (error.status, error.reason, error.message) == (status, "Why", "because")
    assert error.retry_after_seconds == 7
    assert error.method == server.seen[0].method
    assert error.path == server.seen[0].path


@EVERY_VERB
@cases(
    "reply",
    {
        "cut inside body": Reply(body=b'{"a": 1', ending="cut"),
        "cut before body": Reply(body=b"", ending="cut"),
        "reset inside body": Reply(body=b'{"a": 1', ending="reset"),
        "chunked without end": Reply(chunks=[b'{"a":', b" 1}"], ending="cut"),
        "whole but half JSON": Reply(body=b'{"a": 1'),
        "html": Reply(body=b"<html>"),
        "empty": Reply(body=b""),
        "no object": Reply(body=b"[]"),
        "error cut": Reply(503, b'{"kind": "Sta', ending="cut"),
    },
)
async def test_broken_answer_is_unknown_and_the_request_not_repeated(
    reply: Reply, call: Call, bench: Bench
) -> None:
    server, client = await bench.start(reply, answer({}))
    with pytest.raises(UnreachableError) as caught:
        await call(client)
    assert caught.value.maybe_applied
    assert len(server.seen) == 1


@EVERY_VERB
async def test_connection_closed_instead_of_an_answer_is_not_repeated(
    call: Call, bench: Bench
) -> None:
    """A kept connection that breaks is where HTTP libraries quietly send again."""

    async def hang_up(_: Seen) -> None:
        raise ConnectionResetError

    server, client = await bench.start(answer({}), Reply(before=hang_up), answer({}))
    await get_pod(client)
    with pytest.raises(UnreachableError) as caught:
        await call(client)
    assert caught.value.maybe_applied
    assert len(server.seen) == 2


@EVERY_VERB
async def test_refused_connection_cannot_have_been_applied(call: Call, bench: Bench) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        client = await bench.connect(f"http://127.0.0.1:{unused.getsockname()[1]}")
        with pytest.raises(UnreachableError) as caught:
            await call(client)
    assert not caught.value.maybe_applied


@cases("replies", {"no byte": (), "inside body": (Reply(body=b'{"a"', ending="silent"),)})
async def test_silent_server_ends_at_the_deadline(replies: tuple[Reply, ...], bench: Bench) -> None:
    server, client = await bench.start(*replies)
    create = client.create(PODS, "a", {}, timeout_seconds=HANG_SECONDS)
    creation = asyncio.create_task(create, name="create")
    await server.wait_for_requests(1)
    bench.let_pass(2 * HANG_SECONDS)
    with pytest.raises(UnreachableError, match=r"(?i)time") as caught:
        await creation
    assert caught.value.maybe_applied
    assert len(server.seen) == 1


@pytest.fixture
def token_file(tmp_path: Path) -> Path:
    path = tmp_path / "token"
    path.write_text("t0ken")
    return path


def reject_and_rotate(token_file: Path) -> Reply:
    """Reject the token, and have the next one in the file."""

    def rotate(_: Seen) -> Awaitable[None]:
        token_file.write_text(token_file.read_text() + "1")
        return asyncio.sleep(0)

    return Reply(401, b"{}", before=rotate)


async def test_rejected_token_is_read_again_and_the_request_sent_again(
    bench: Bench, token_file: Path
) -> None:
    rejection = reject_and_rotate(token_file)
    server = await bench.serve(rejection, answer(pod("b", 1), 201), answer({}))
    client = await bench.connect(server, token_file=str(token_file))
    assert await create_pod(client) == pod("b", 1)
    await get_pod(client)
    sent = [seen.headers["Authorization"] for seen in server.seen]
    assert sent == ["Bearer t0ken", "Bearer t0ken1", "Bearer t0ken1"]
    assert server.seen[0].body == server.seen[1].body


async def test_rejected_token_without_a_newer_one_is_sent_once(
    bench: Bench, token_file: Path
) -> None:
    server = await bench.serve(refusal(401, "Unauthorized"))
    client = await bench.connect(server, token_file=str(token_file))
    with pytest.raises(errors.UnauthorizedError) as caught:
        await get_pod(client)
    assert len(server.seen) == 1
    assert "t0ken" not in str(caught.value)


async def test_second_rejection_is_final(bench: Bench, token_file: Path) -> None:
    server = await bench.serve(*[reject_and_rotate(token_file)] * 3)
    client = await bench.connect(server, token_file=str(token_file))
    with pytest.raises(errors.UnauthorizedError):
        await get_pod(client)
    assert len(server.seen) == 2


async def test_missing_token_file_sends_nothing(bench: Bench, tmp_path: Path) -> None:
    server = await bench.serve(answer({}))
    client = await bench.connect(server, token_file=str(tmp_path / "none"))
    with pytest.raises(UnreachableError, match="token file") as caught:
        await get_pod(client)
    assert not caught.value.maybe_applied
    assert server.seen == []


async def test_tokens_are_never_logged(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(0)
    server = await bench.serve(refusal(401, "Unauthorized"), answer({}))
    client = await bench.connect(server, token="s3cret")
    with pytest.raises(errors.UnauthorizedError):
        await get_pod(client)
    await get_pod(client)
    assert "s3cret" not in caplog.text


@pytest.mark.looptime
async def test_rate_is_waited_for_outside_the_deadline(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = KubeClient(
        KubeConfig(server="http://h"), user_agent="t", clock=bench.clock, qps=1, burst=2
    )
    sent_at: list[float] = []
    loop = asyncio.get_running_loop()
    begin = loop.time()

    async def send(_: object) -> bytes:
        sent_at.append(loop.time() - begin)
        return b"{}"

    monkeypatch.setattr(client._transport, "send", send)
    await asyncio.gather(*(get_pod(client) for _ in range(12)))
    assert [round(at, 3) for at in sent_at] == [0, 0, *range(1, 11)]

"""Without Frameworks, or without their /status, the controller must not act."""

import asyncio
import json
import logging
from typing import Any, cast

import pytest

from controller.gate.crd_check import CrdError, CrdGuard, check_crd, find_problem
from framework.kube.client import KubeClient
from framework.kube.errors import KubeError, UnreachableError, build_api_error

pytestmark = pytest.mark.looptime

GOOD = ("frameworks", "frameworks/status")
REMEDY = "kubectl apply --server-side --force-conflicts -f crd.yaml"


class Server:
    """Gives its answers to discovery in order; the last one stays."""

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)
        self.asked: list[str] = []
        self.times: list[float] = []

    async def get_raw(self, path: str, **_: float) -> bytes:
        self.asked.append(path)
        self.times.append(asyncio.get_running_loop().time())
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, KubeError):
            raise answer
        if isinstance(answer, bytes):
            return answer
        return json.dumps({"resources": [{"name": name} for name in answer]}).encode()


def error(code: int) -> KubeError:
    return build_api_error(code, b"", method="GET", path="/apis")


def unreachable() -> KubeError:
    return UnreachableError("reset", method="GET", path="/apis")


def as_client(server: Server) -> KubeClient:
    return cast("KubeClient", server)  # only get_raw is needed


async def check(server: Server, seconds: float = 10) -> None:
    await check_crd(as_client(server), seconds)


async def test_server_with_frameworks_and_status_passes() -> None:
    server = Server(GOOD)
    await check(server)
    assert server.asked == ["/apis/frameworkcontroller.microsoft.com/v1"]


async def test_server_without_status_is_refused_soon_with_the_remedy() -> None:
    started = asyncio.get_running_loop().time()
    with pytest.raises(CrdError, match=r"no status subresource.*apply deploy/base/crd.yaml"):
        await check(Server(("frameworks",)), 60)
    assert asyncio.get_running_loop().time() - started == pytest.approx(5)


async def test_status_that_was_just_added_is_waited_for() -> None:
    await check(Server(("frameworks",), ("frameworks",), GOOD), 60)


async def test_status_is_waited_for_after_the_crd_was_long_missing() -> None:
    await check(Server(*[error(404)] * 60, ("frameworks",), ("frameworks",), GOOD), 60)


async def test_missing_crd_is_waited_for_then_refused() -> None:
    await check(Server(error(404), (), GOOD))
    started = asyncio.get_running_loop().time()
    with pytest.raises(CrdError, match="not installed"):
        await check(Server(error(404)), 5)
    assert asyncio.get_running_loop().time() - started == pytest.approx(5)


@pytest.mark.parametrize(
    ("interval", "expected"), [(20, [0, 20, 40, 60]), (45, [0, 45, 60]), (10**18, [0, 60])]
)
async def test_missing_crd_is_looked_for_at_the_interval_and_at_the_end(
    interval: int, expected: list[int]
) -> None:
    server = Server(error(404))
    started = asyncio.get_running_loop().time()
    with pytest.raises(CrdError):
        await check_crd(as_client(server), 60, interval)
    assert [time - started for time in server.times] == pytest.approx(expected)


async def test_missing_crd_is_logged_once_until_it_changes(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.WARNING)
    await check(Server(*[error(404)] * 5, *[()] * 2, GOOD), 60)
    missing, other = [str(vars(record)["problem"]) for record in caplog.records]
    assert "is not installed" in missing
    assert REMEDY in missing
    assert "does not serve v1" in other


@pytest.mark.parametrize("served", [("frameworks",), ()])
async def test_remedy_overrides_the_fields_of_other_managers(served: tuple[str, ...]) -> None:
    with pytest.raises(CrdError) as refused:
        await check(Server(served), 1)
    assert REMEDY in str(refused.value)
    lacks_status = "frameworks" in served
    assert ("stop the controller that installed its own CRD" in str(refused.value)) is lacks_status


async def test_unreachable_server_is_waited_for_without_end() -> None:
    await check(Server(*[unreachable()] * 500, error(503), GOOD), 5)


async def test_server_that_refuses_discovery_is_trusted() -> None:
    assert await find_problem(as_client(Server(error(403)))) == ""


@pytest.mark.parametrize("answer", [b"no json", b"[]", b'{"resources": [1, null]}', b"{}"])
async def test_unreadable_discovery_names_nothing(answer: bytes) -> None:
    problem = await find_problem(as_client(Server(answer)))
    assert "does not serve" in problem


async def test_guard_stops_acting_and_begins_again() -> None:
    recovered: list[bool] = []
    server = Server(("frameworks",), ("frameworks",), GOOD)
    guard = CrdGuard(as_client(server), lambda: recovered.append(True))
    task = asyncio.create_task(guard.run())
    assert guard.may_write()
    guard.suspect()
    await asyncio.sleep(0.5)
    assert not guard.may_write()
    assert "status" in guard.problem
    assert REMEDY in guard.problem
    await asyncio.sleep(3)
    assert guard.may_write()
    assert recovered == [True]
    task.cancel()


async def test_guard_checks_periodically_and_ignores_an_unreachable_server() -> None:
    server = Server(unreachable(), ("frameworks",))
    guard = CrdGuard(as_client(server), lambda: None)
    task = asyncio.create_task(guard.run())
    await asyncio.sleep(61)
    assert guard.may_write()
    await asyncio.sleep(61)
    assert not guard.may_write()
    task.cancel()

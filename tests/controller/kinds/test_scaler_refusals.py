"""Scalers whose steps the API server refuses: they fail at once, and say why."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from framework.api import constants
from framework.kube.resources import CONFIGMAPS, FRAMEWORKS, SCALE_OUTS, SERVICES, Object
from localcluster.apiserver.model.errors import StatusError
from tests.controller.kinds.scalerworlds import ScaledJob, open_scaled_job
from tests.controller.kinds.test_scalers import check_calm, start
from tests.support.builders import NAMESPACE
from tests.support.fakes.storageclient import Fate, Request

pytestmark = pytest.mark.looptime

TOO_LONG = StatusError(422, "Invalid", 'ConfigMap "c" is invalid: []: Too long: may not be more')
TOO_LARGE = StatusError(413, "RequestEntityTooLarge", "Request entity too large: limit is 3145728")
DENIED = StatusError(403, "Forbidden", "admission webhook denied the request: no owner")
SOON = 10
"""Seconds, much shorter than the timeout of the scalers."""


def refuse(scaled: ScaledJob, error: StatusError, is_refused: Callable[[Request], bool]) -> None:
    """Refuse these requests of the controller."""
    (program,) = scaled.jobs.world.programs
    program.link.draw = lambda request: Fate(error=error if is_refused(request) else None)


def is_request_for_the_agent(request: Request) -> bool:
    is_patch = request.verb == "patch" and request.resource is CONFIGMAPS
    return is_patch and bool((request.body.get("binaryData") or {}).get(constants.SCALER_KEY))


def is_change_of_the_framework(request: Request) -> bool:
    return (request.verb, request.resource, request.subresource) == ("replace", FRAMEWORKS, None)


def is_for(name: str, verb: str) -> Callable[[Request], bool]:
    return lambda request: (request.verb, request.name) == (verb, name)


@pytest.mark.parametrize(
    ("error", "is_refused"),
    [(TOO_LONG, is_request_for_the_agent), (TOO_LARGE, is_change_of_the_framework)],
    ids=["request", "framework"],
)
@pytest.mark.parametrize("kind", ["ScaleIn", "ScaleOut"])
async def test_refused_step_ends_the_scaler_with_the_message_of_the_server(
    kind: str, error: StatusError, is_refused: Callable[[Request], bool]
) -> None:
    async with open_scaled_job() as scaled:
        await start(scaled)
        refuse(scaled, error, lambda request: is_refused(request) and not scaled.agent.scripts)
        await scaled.create(kind, "one", script="/s.sh")
        assert await scaled.wait_for_end(kind, "one", seconds=SOON) == "ScaleFailed"
        _, reason, message = scaled.read_end(kind, "one")
        assert reason == "Refused"
        assert error.message in message
        assert "tried again" not in message
        assert scaled.agent.scripts == []
        await check_calm(scaled, [0, 1])
        assert "Blocked" not in scaled.jobs.read_conditions()


async def test_service_of_another_owner_ends_the_scale_out_that_needs_its_name() -> None:
    async with open_scaled_job() as scaled:
        await start(scaled)
        body: Object = {"apiVersion": "v1", "kind": "Service", "spec": {"clusterIP": "None"}}
        body["metadata"] = {"name": "elastic-worker-2"}
        await scaled.jobs.world.user.create(SERVICES, NAMESPACE, body)
        await scaled.create("ScaleOut", "one")
        assert await scaled.wait_for_end("ScaleOut", "one", seconds=SOON) == "ScaleFailed"
        _, reason, message = scaled.read_end("ScaleOut", "one")
        assert reason == "NameTaken"
        assert message.startswith("the Service elastic-worker-2 exists and does not belong")
        await scaled.jobs.world.user.delete(SERVICES, NAMESPACE, "elastic-worker-2")
        await check_calm(scaled, [0, 1])
        assert "Blocked" not in scaled.jobs.read_conditions()


async def test_workers_that_cannot_be_put_back_are_tried_again() -> None:
    async with open_scaled_job() as scaled:
        scaled.agent.code = 3
        await start(scaled)
        is_healed = False
        refuse(
            scaled,
            TOO_LARGE,
            lambda request: (
                is_change_of_the_framework(request) and bool(scaled.agent.scripts) and not is_healed
            ),
        )
        await scaled.create("ScaleOut", "one", script="/s.sh")
        await scaled.jobs.world.wait_for(
            "a blocked job", lambda: "Blocked" in scaled.jobs.read_conditions()
        )
        await asyncio.sleep(60)
        assert scaled.read_conditions("ScaleOut", "one")[-1] == "Scaling"
        assert scaled.list_workers() == [0, 1, 2]
        is_healed = True
        assert await scaled.wait_for_end("ScaleOut", "one") == "ScaleFailed"
        assert scaled.read_end("ScaleOut", "one")[1] == "ScriptFailed"
        await check_calm(scaled, [0, 1])


@pytest.mark.parametrize(
    ("verb", "end"),
    [("patch", ["ScaleFailed"]), ("replace", [])],
    ids=["owner", "status"],
)
async def test_refused_scaler_does_not_hold_up_the_next_one(verb: str, end: list[str]) -> None:
    async with open_scaled_job() as scaled:
        await start(scaled)
        refuse(scaled, DENIED, is_for("first", verb))
        await scaled.create("ScaleOut", "first")
        await scaled.create("ScaleOut", "second")
        assert await scaled.wait_for_end("ScaleOut", "second") == "ScaleSucceeded"
        assert scaled.read_conditions("ScaleOut", "first") == end
        if end:
            _, reason, message = scaled.read_end("ScaleOut", "first")
            assert (reason, DENIED.message in message) == ("Refused", True)
        await check_calm(scaled, [0, 1, 2])


async def test_conflicts_and_faults_of_the_server_are_no_refusal() -> None:
    async with open_scaled_job() as scaled:
        await start(scaled)
        answers: Any = iter([409, 404, 500, 429, 401, 503])

        def draw(request: Request) -> Fate:
            is_asked = is_request_for_the_agent(request) or is_change_of_the_framework(request)
            code = next(answers, None) if is_asked else None
            return Fate(error=None if code is None else StatusError(code, "", "later"))

        scaled.jobs.world.programs[0].link.draw = draw
        await scaled.create("ScaleIn", "one", script="/s.sh")
        assert await scaled.wait_for_end("ScaleIn", "one") == "ScaleSucceeded"
        assert next(answers, None) is None
        await check_calm(scaled, [0])


@pytest.mark.parametrize("answer_seconds", [0.001, 0.5])
async def test_scaler_that_is_deleted_while_it_is_written_does_not_hold_up_the_next_one(
    answer_seconds: float,
) -> None:
    async with open_scaled_job() as scaled:
        await start(scaled)

        def draw(request: Request) -> Fate:
            is_slow = is_for("ghost", "replace")(request)
            return Fate(0.001, answer_seconds if is_slow else 0.001)

        scaled.jobs.world.programs[0].link.draw = draw
        await scaled.create("ScaleOut", "ghost")
        await scaled.jobs.world.wait_for(
            "Created", lambda: "Created" in scaled.read_conditions("ScaleOut", "ghost")
        )
        await scaled.jobs.world.user.delete(SCALE_OUTS, NAMESPACE, "ghost")
        await asyncio.sleep(3)
        await scaled.create("ScaleOut", "next")
        assert await scaled.wait_for_end("ScaleOut", "next") == "ScaleSucceeded"
        await check_calm(scaled, [0, 1, 2])


@pytest.mark.parametrize("kind", ["ScaleIn", "ScaleOut"])
async def test_agent_that_may_not_report_runs_no_script(kind: str) -> None:
    async with open_scaled_job() as scaled:
        scaled.agent.can_report = False
        await start(scaled)
        await scaled.create(kind, "one", script="/s.sh")
        assert await scaled.wait_for_end(kind, "one") == "ScaleFailed"
        assert scaled.read_end(kind, "one")[1] == "NoAgent"
        assert scaled.agent.scripts == []
        await check_calm(scaled, [0, 1])

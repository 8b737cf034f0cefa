"""Refused requests are named in the answer; the newest Event is found."""

import asyncio
from typing import Any

import pytest

from cli.why.commands import Commands
from cli.why.gathering import Gatherer
from cli.why.observation import parse_events
from framework.kube.errors import KubeError, build_api_error
from framework.kube.resources import FRAMEWORKS, Object, Resource
from tests.cli.why.builders import observe
from tests.support.builders import FRAMEWORK, NAMESPACE, at


class OneRightClient:
    """A client of a user who may read Frameworks only; refuses each plural after its own delay."""

    def __init__(self, slowest: str) -> None:
        self._slowest = slowest

    async def get(self, resource: Resource, *_: Any, **__: Any) -> Object:
        if resource is FRAMEWORKS:
            return observe().framework
        raise await self._refuse(resource)

    async def list(self, resource: Resource, *_: Any, **__: Any) -> Object:
        raise await self._refuse(resource)

    async def _refuse(self, resource: Resource) -> KubeError:
        for _ in range(5 if resource.plural == self._slowest else 1):
            await asyncio.sleep(0)
        return build_api_error(403, b"", method="GET", path="/")


@pytest.mark.parametrize("slowest", ["pods", "configmaps", "events"])
async def test_rights_have_one_order_whichever_request_is_answered_last(slowest: str) -> None:
    gatherer = Gatherer(OneRightClient(slowest), NAMESPACE, FRAMEWORK)  # type: ignore[arg-type]  # a fake client
    observation = await gatherer.gather(Commands(FRAMEWORK), at(0), is_local=False)
    assert observation.missing_rights == ("get configmaps", "list events", "list pods")
    assert observation.unseen == ("Events", "Pods", "the ConfigMap of the attempt")


@pytest.mark.parametrize("step", [1, -1])
def test_newest_event_of_one_second_is_the_last_one_stored(step: int) -> None:
    at_one_time = "2026-01-01T00:00:00Z"
    bodies: list[Object] = [
        {"metadata": {"resourceVersion": version}, "message": text, "lastTimestamp": at_one_time}
        for version, text in (("99", "first"), ("100", "second"))
    ]
    events = parse_events(bodies[::step])
    assert [event.message for event in events] == ["second", "first"]

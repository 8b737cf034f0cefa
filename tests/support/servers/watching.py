"""Waits for what a watch on an API server shows."""

import asyncio
import contextlib
import math
import time
from collections.abc import Callable
from typing import TypeVar

from framework.kube.client import KubeClient
from framework.kube.errors import TooManyRequestsError
from framework.kube.resources import EVENTS, FRAMEWORKS, Object, Resource
from tests.support.waiting import HANG_SECONDS, PAUSE_SECONDS

T = TypeVar("T")


async def watch_until(
    kube: KubeClient,
    resource: Resource,
    namespace: str,
    find: Callable[[str, Object], T | None],
    **selectors: str | None,
) -> T:
    """Watch until ``find`` returns something for an event (type, object); return that.

    A busy server may refuse a watch, also while it prepares the storage of a changed kind, or end
    it early: the next watch begins with all objects again.
    """
    last: Object = {}
    deadline = time.monotonic() + HANG_SECONDS
    while (left := deadline - time.monotonic()) > 0:
        events = kube.watch(
            resource,
            namespace,
            timeout_seconds=math.ceil(left),
            read_deadline_seconds=2 * HANG_SECONDS,
            **selectors,  # type: ignore[arg-type]  # selectors and a version are strings
        )
        try:
            async with contextlib.aclosing(events):
                async for event, last in events:  # the last object explains a failure
                    if found := find(event, last):
                        return found
        except TooManyRequestsError:
            await asyncio.sleep(PAUSE_SECONDS)
    raise AssertionError(f"not within {HANG_SECONDS} s, after {last}")


async def wait_until_completed(kube: KubeClient, namespace: str, name: str = "gang") -> Object:
    """Wait until the Framework that has the name now, or will have it, is Completed; return it."""

    def find(_: str, body: Object) -> Object | None:
        return body if (body.get("status") or {}).get("state") == "Completed" else None

    return await watch_until(
        kube, FRAMEWORKS, namespace, find, field_selector=f"metadata.name={name}"
    )


async def wait_for_event(kube: KubeClient, namespace: str, reason: str) -> Object:
    """Wait for an Event of this reason, which comes after the status; return it."""

    def find(_: str, event: Object) -> Object | None:
        return event if event["reason"] == reason else None

    return await watch_until(kube, EVENTS, namespace, find)

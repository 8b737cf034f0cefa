"""Waits for an event of a watch on an API server."""

import contextlib
import math
import time
from collections.abc import Callable
from typing import TypeVar

from framework.kube.client import KubeClient
from framework.kube.resources import Object, Resource
from tests.support.waiting import HANG_SECONDS

T = TypeVar("T")


async def watch_until(
    kube: KubeClient,
    resource: Resource,
    namespace: str,
    find: Callable[[str, Object], T | None],
    **selectors: str | None,
) -> T:
    """Watch until ``find`` returns something for an event (type, object); return that.

    A busy server may end a watch early: the next one begins with all objects again.
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
        async with contextlib.aclosing(events):
            async for event, last in events:  # the last object explains a failure
                if found := find(event, last):
                    return found
    raise AssertionError(f"not within {HANG_SECONDS} s, after {last}")

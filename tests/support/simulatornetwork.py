"""The network of a simulation: it loses, delays, repeats and refuses, as it is drawn.

Called by the simulator.
"""

import asyncio
import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from framework.kube.client import WatchEvent
from framework.kube.resources import Resource
from localcluster.apiserver.model.errors import StatusError
from tests.support.storageclient import Fate, Network, Request


class FaultyNetwork(Network):
    """Draws the fate of every request; kind once ``rate`` is 0."""

    def __init__(self, draw: random.Random, trace: Callable[[str], None]) -> None:
        self.rate = 0.0
        self.held: dict[str, float] = {}
        """Resources whose watches are held back, and until when."""
        self.broken: dict[str, Exception] = {}
        """Resources whose next watch event comes as this error."""
        self.crash_after: int | None = None
        """So many more writes of the controller are sent; then it is killed."""
        self.on_crash: Callable[[], None] = lambda: None
        self.on_send: Callable[[Request], None] = lambda _: None
        self._draw = draw
        self._trace = trace

    def draw_fate(self, request: Request) -> Fate:
        self.on_send(request)
        if request.resource.plural == "events":
            return Fate()
        delay = 0.002
        if self._draw.random() < self.rate:
            delay = self._draw.choice((0.0, 0.01, 0.3, 2.0, 12.0))
        fate = Fate(delay / 2, delay / 2)
        if self._draw.random() < self.rate:
            fate = replace(fate, **self._draw_fault())
        self._count_write(request)
        return fate

    def _draw_fault(self) -> dict[str, Any]:
        kind = self._draw.choice(("lost", "answer", "error", "applied_error", "silence"))
        if kind == "lost":
            return {"is_lost": True}
        if kind == "answer":
            return {"is_answer_lost": True}
        if kind == "silence":
            return {"downlink_seconds": 100.0}
        codes = (429, 500, 503, 409) if kind == "error" else (500, 504)
        return {
            "error": _build_error(self._draw.choice(codes)),
            "is_answer_lost": kind == "applied_error",
        }

    def _count_write(self, request: Request) -> None:
        if self.crash_after is None or request.verb in {"get", "list"}:
            return
        self.crash_after -= 1
        if self.crash_after <= 0:
            self.crash_after = None
            asyncio.get_running_loop().call_soon(self.on_crash)

    def draw_watch_delay(self, resource: Resource) -> float:
        now = asyncio.get_running_loop().time()
        held = max(0.0, self.held.get(resource.plural, 0.0) - now)
        if self._draw.random() < self.rate:
            held += self._draw.choice((0.01, 0.2, 1.0, 4.0))
        return held

    def draw_repetition(self, told: Sequence[WatchEvent]) -> WatchEvent | None:
        if self._draw.random() >= self.rate / 2:
            return None
        return self._draw.choice(told)

    def check_watch(self, resource: Resource) -> None:
        error = self.broken.pop(resource.plural, None)
        if error is not None:
            raise error

    def note(self, request: Request, outcome: str) -> None:
        if request.resource.plural != "events":
            self._trace(f"  {request}: {outcome}")


def _build_error(code: int) -> StatusError:
    reasons = {429: "TooManyRequests", 503: "ServiceUnavailable", 504: "Timeout", 409: "Conflict"}
    error = StatusError(code, reasons.get(code, "InternalError"), "injected")
    error.retry_after = 1 if code == 429 else None
    return error

"""The network of a simulation: it loses, delays, repeats and refuses, as the generator draws."""

import asyncio
import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from framework.api.pods import PodView, parse_pod
from framework.kube.resources import PODS, Resource
from localcluster.apiserver.model.errors import StatusError
from tests.support.fakes.storageclient import Fate, Network, Request

_REASONS = {
    400: "BadRequest",
    401: "Unauthorized",
    403: "Forbidden",
    409: "Conflict",
    413: "RequestEntityTooLarge",
    422: "Invalid",
    429: "TooManyRequests",
    503: "ServiceUnavailable",
    504: "Timeout",
}


class FaultyNetwork(Network):
    """Draws the fate of each request; without faults while ``rate`` is 0."""

    def __init__(self, draw: random.Random, trace: Callable[[str], None]) -> None:
        self.rate = 0.0
        self.held: dict[str, float] = {}
        """By resource: the time until which its watch events are delayed."""
        self.broken: dict[str, Exception] = {}
        """By resource: the error that replaces its next watch event."""
        self.crash_after: int | None = None
        """Number of writes after which a controller is killed."""
        self.on_crash: Callable[[], None] = lambda: None
        self.on_send: Callable[[Request], None] = lambda _: None
        self.on_refusal: Callable[[PodView, int], None] = lambda _, __: None
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
            fate = replace(fate, **self._draw_fault(request))
        self._count_write(request)
        return fate

    def _draw_fault(self, request: Request) -> dict[str, Any]:
        kinds = ("lost", "answer", "error", "applied_error", "silence", "refusal")
        kind = self._draw.choice(kinds)
        if kind == "lost":
            return {"is_lost": True}
        if kind == "answer":
            return {"is_answer_lost": True}
        if kind == "silence":
            return {"downlink_seconds": 100.0}
        if kind == "refusal" and (request.verb, request.resource) == ("create", PODS):
            return {"error": self._refuse(request)}
        codes = (401, 409, 429, 500, 503) if kind in ("error", "refusal") else (500, 504)
        return {
            "error": _build_error(self._draw.choice(codes)),
            "is_answer_lost": kind == "applied_error",
        }

    def _refuse(self, request: Request) -> StatusError:
        """Refuse a Pod: for good, or temporarily because of a quota."""
        code = self._draw.choice((400, 403, 413, 422, 403))
        is_quota = code == 403 and self._draw.random() < 0.5
        if not is_quota:
            self.on_refusal(parse_pod(request.body), code)
        return _build_error(code, "exceeded quota: pods" if is_quota else "injected")

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

    def draw_repetition(self, sent: Sequence[bytes]) -> bytes | None:
        if self._draw.random() >= self.rate / 2:
            return None
        return self._draw.choice(sent)

    def check_watch(self, resource: Resource) -> None:
        error = self.broken.pop(resource.plural, None)
        if error is not None:
            raise error

    def note(self, request: Request, outcome: str) -> None:
        if request.resource.plural != "events":
            self._trace(f"  {request}: {outcome}")


def _build_error(code: int, message: str = "injected") -> StatusError:
    error = StatusError(code, _REASONS.get(code, "InternalError"), message)
    error.retry_after = 1 if code == 429 else None
    return error

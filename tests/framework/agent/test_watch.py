"""The watch of one object, on a scripted connection and in virtual time."""

import itertools
import json
from typing import Any

from framework.agent.access import Access
from framework.agent.connection import Head, UnreachableError
from framework.agent.health import Health
from framework.agent.watch import READ_DEADLINE_SECONDS, Change, ObjectWatch
from tests.support.builders.cases import cases
from tests.support.fakes.agentclock import VirtualClock

OK = Head(200, {})


class ScriptedConnection:
    """Each start takes the next head, each read the next part: bytes, None, or an error."""

    def __init__(self, clock: VirtualClock, heads: list[Any], parts: list[Any]) -> None:
        self._clock = clock
        self._heads = heads
        self._parts = parts
        self.paths: list[str] = []
        self.started_at: list[float] = []

    def start(self, _method: str, path: str) -> Head:
        self.paths.append(path)
        self.started_at.append(self._clock.now)
        head: Head | Exception = self._heads.pop(0)
        if isinstance(head, Exception):
            raise head
        return head

    def read_some(self, timeout_seconds: float) -> bytes | None:
        part = self._parts.pop(0) if self._parts else None
        if isinstance(part, Exception):
            raise part
        if part is None:
            self._clock.now += timeout_seconds
        assert part is None or isinstance(part, bytes)
        return part

    def read_rest(self, _deadline: float) -> bytes:
        return b'{"message": "no"}'

    def close(self) -> None:
        pass


def make_event(kind: str, version: int, **metadata: Any) -> bytes:
    body = {"metadata": {"resourceVersion": str(version), **metadata}}
    text = json.dumps({"type": kind, "object": body}, ensure_ascii=False)
    return text.encode() + b"\n"


def make_error(code: int) -> bytes:
    status = {"kind": "Status", "code": code, "message": "why"}
    return json.dumps({"type": "ERROR", "object": status}).encode() + b"\n"


class Watched:
    """A watch with its scripted surroundings."""

    def __init__(self, heads: list[Any], parts: list[Any]) -> None:
        self.clock = VirtualClock()
        self.watch = ObjectWatch(Access("x", 1, tls=False), self.clock, "/objects", "o")
        self.connection = ScriptedConnection(self.clock, heads, parts)
        self.watch._connection = self.connection  # type: ignore[assignment]  # scripted

    def poll(self, times: int, seconds: float = 10.0) -> list[Change]:
        return [change for _ in range(times) for change in self.watch.poll(seconds)]

    @property
    def versions(self) -> list[str]:
        return [p.split("resourceVersion=")[1].split("&")[0] for p in self.connection.paths]


def get_versions(changes: list[Change]) -> list[str | None]:
    return [None if c.body is None else c.body["metadata"]["resourceVersion"] for c in changes]


def test_poll_events_cut_anywhere_are_joined() -> None:
    wire = make_event("ADDED", 1, name="Grüße") + make_event("MODIFIED", 2)
    for cut in (1, 40, wire.index("ü".encode()) + 1, len(wire) - 1):
        watched = Watched([OK], [wire[:cut], wire[cut:]])
        assert get_versions(watched.poll(2)) == ["1", "2"]


ADDED = make_event("ADDED", 5)


@cases(
    "heads parts changes versions",
    {
        "a bookmark moves the version": ([OK, OK], [make_event("BOOKMARK", 9), b""], [], "0 9"),
        "a deletion is a change": (
            [OK],
            [ADDED + make_event("DELETED", 6)],
            ["5", None],
            "0",
        ),
        "an event of 410 starts over": ([OK, OK], [ADDED + make_error(410)], ["5"], "0 0"),
        "an answer of 410 starts over": ([OK, Head(410, {}), OK], [ADDED, b""], ["5"], "0 5 0"),
        "a broken line starts over": (
            [OK, OK, OK],
            [ADDED, b'{"type":"MOD\n', b"[]\n"],
            ["5"],
            "0 0 0",
        ),
        "a cut in a chunk resumes": ([OK, OK], [ADDED, UnreachableError("cut")], ["5"], "0 5"),
    },
)
def test_poll_resumes_after_the_last_version_or_starts_over(
    heads: list[Any], parts: list[Any], changes: list[str | None], versions: str
) -> None:
    watched = Watched(heads, parts)
    assert get_versions(watched.poll(6)) == changes
    assert " ".join(watched.versions) == versions
    assert watched.watch.health is Health.HEALTHY


def test_poll_silence_longer_than_the_deadline_reconnects() -> None:
    watched = Watched([OK, OK], [make_event("ADDED", 5)])
    watched.poll(12, seconds=10.0)
    assert watched.versions == ["0", "5"]
    assert READ_DEADLINE_SECONDS <= watched.connection.started_at[1] < READ_DEADLINE_SECONDS + 11


def test_poll_unreachable_backs_off_to_5_seconds_until_a_success() -> None:
    failures = [UnreachableError("refused")] * 7
    watched = Watched([*failures, OK, OK, *failures], [make_event("ADDED", 1), b""])
    watched.poll(18, seconds=60.0)
    gaps = [round(b - a, 1) for a, b in itertools.pairwise(watched.connection.started_at)]
    assert gaps[:8] == [0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0, 0.2]
    watched.poll(4, seconds=60.0)
    assert watched.watch.health is Health.UNREACHABLE
    assert watched.watch.message == "refused"


def test_poll_retry_after_is_kept() -> None:
    watched = Watched([Head(429, {"retry-after": "7"}), OK], [])
    watched.poll(4, seconds=10.0)
    assert watched.connection.started_at[1] >= 7.0


def test_poll_statuses_become_health() -> None:
    for status, health in (
        (401, Health.UNAUTHORIZED),
        (403, Health.FORBIDDEN),
        (404, Health.NOT_FOUND),
        (500, Health.UNREACHABLE),
    ):
        watched = Watched([Head(status, {})], [])
        watched.poll(1)
        assert watched.watch.health is health
        assert watched.watch.message == f"HTTP {status}: no"


def test_poll_watch_starts_by_name_with_bookmarks() -> None:
    watched = Watched([OK], [])
    watched.poll(1)
    path = watched.connection.paths[0]
    assert path.startswith("/objects?watch=true&fieldSelector=metadata.name%3Do&")
    assert "allowWatchBookmarks=true" in path
    assert 300 <= int(path.split("timeoutSeconds=")[1].split("&")[0]) <= 600

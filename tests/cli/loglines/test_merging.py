"""Logs of several Tasks are merged by the times of their lines."""

import random
from collections.abc import AsyncGenerator, Sequence
from datetime import UTC, datetime
from urllib.parse import parse_qs

import pytest

from cli.loglines.containeroutput import MAX_LINE_BYTES
from cli.loglines.merging import merge_logs
from cli.loglines.query import LogQuery, round_since
from cli.loglines.timestamps import read_timed_lines
from tests.support.builders import build_pod_wire


async def give(*chunks: bytes) -> AsyncGenerator[bytes]:
    for chunk in chunks:
        yield chunk


async def merge(*logs: Sequence[bytes]) -> list[tuple[int, bytes]]:
    merged = merge_logs([read_timed_lines(give(*chunks)) for chunks in logs])
    return [(number, line.text) async for number, line in merged]


def stamp(seconds: float) -> bytes:
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S.%f}Z ".encode()


async def test_lines_are_in_the_order_of_their_times() -> None:
    first = [b"2026-01-01T00:00:00.1Z a\n2026-01-01T00:00:02Z c\n"]
    second = [b"2026-01-01T00:00:00.12Z b\n2026-01-01T01:00:02.5+01:00 d\n"]
    assert await merge(first, second) == [(0, b"a\n"), (1, b"b\n"), (0, b"c\n"), (1, b"d\n")]


async def test_line_without_a_time_stays_behind_the_one_before() -> None:
    first = [b"2026-01-01T00:00:01Z a\n  traceback\n9999-99-99T00:00:00Z odd\n"]
    second = [b"2026-01-01T00:00:00Z b\n2026-01-01T00:00:03Z c\n"]
    assert [text for _, text in await merge(first, second)] == [
        b"b\n", b"a\n", b"  traceback\n", b"9999-99-99T00:00:00Z odd\n", b"c\n"
    ]  # fmt: skip


async def test_empty_logs_and_a_last_line_without_an_end() -> None:
    assert await merge([], [b"2026-01-01T00:00:00Z a"], [b""]) == [(1, b"a")]


async def test_random_logs_cut_at_random_places_are_merged(seed: int) -> None:
    draw = random.Random(seed)
    expected, logs = [], []
    for number in range(7):
        times = sorted(draw.randrange(10**9) / 10**6 for _ in range(draw.randrange(40)))
        lines = [(at, number, f"{number} {at}\n".encode()) for at in times]
        expected += lines
        raw = b"".join(stamp(at) + text for at, _, text in lines)
        cuts = sorted(draw.randrange(len(raw) + 1) for _ in range(9))
        logs.append([raw[a:b] for a, b in zip([0, *cuts], [*cuts, len(raw)], strict=True)])
    assert [text for _, text in await merge(*logs)] == [text for *_, text in sorted(expected)]


async def test_line_without_an_end_does_not_fill_the_memory() -> None:
    long = [stamp(1.0), *[b"x" * 10_000] * 50]
    parts = await merge(long)
    assert max(len(text) for _, text in parts) <= MAX_LINE_BYTES + 10_000
    assert b"".join(text for _, text in parts) == b"x" * 500_000


@pytest.mark.parametrize(("since", "seconds"), [(None, None), (90.0, 90), (0.2, 1), (5.5, 6)])
def test_since_is_whole_seconds(since: float | None, seconds: int | None) -> None:
    assert round_since(since) == seconds


def test_time_since_when_is_sent_as_it_is() -> None:
    moment = datetime.fromisoformat("2026-01-02T05:04:05.25+02:00")
    path = LogQuery(since_time=moment).build_path(build_pod_wire("worker", 0), "main")
    assert parse_qs(path)["sinceTime"] == ["2026-01-02T03:04:05.250000Z"]
    assert "sinceSeconds" not in path


def test_path_has_the_options_that_were_given() -> None:
    pod = build_pod_wire("worker", 0)
    assert LogQuery().build_path(pod, "main").endswith("/log?container=main")
    query = LogQuery(previous=True, tail_lines=5, since_seconds=9, timestamps=True)
    assert query.build_path(pod, "main", follow=True).endswith(
        "container=main&follow=true&previous=true&tailLines=5&sinceSeconds=9&timestamps=true"
    )

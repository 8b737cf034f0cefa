from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from framework.clock import ManualClock
from framework.kube.resources import Object
from localcluster.apiserver.model.errors import StatusError
from localcluster.apiserver.model.options import ContainerLog, LogReadOptions
from localcluster.kubelet.logs import LogStore

START = datetime(2030, 1, 1, tzinfo=UTC)


def build_pod(uid: str = "u1", **labels: str) -> Object:
    return {"metadata": {"namespace": "ns", "name": "p", "uid": uid, "labels": labels}}


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(START)


@pytest.fixture
def store(tmp_path: Path, clock: ManualClock) -> LogStore:
    return LogStore(tmp_path, clock)


def write(store: LogStore, pod: Object, *lines: str, container: str = "main") -> Path:
    store.register_pod(pod)
    path = store.open_log(pod, container)
    path.write_text(
        "".join(f"2030-01-01T00:00:{i:02}.5Z stdout F {x}\n" for i, x in enumerate(lines))
    )
    return path


async def read(
    store: LogStore, container: str = "main", uid: str | None = None, **options: Any
) -> str:
    stream = store.stream(ContainerLog("ns", "p", container, uid), LogReadOptions(**options))
    return b"".join([piece async for piece in stream]).decode()


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, "a\nb\nc\n"),
        ({"tail_lines": 2}, "b\nc\n"),
        ({"tail_lines": 0}, ""),
        ({"tail_lines": 9}, "a\nb\nc\n"),
        ({"limit_bytes": 3}, "a\nb"),
        ({"limit_bytes": 0}, ""),
        ({"timestamps": True, "tail_lines": 1}, "2030-01-01T00:00:02.5Z c\n"),
        ({"since_seconds": 8}, "c\n"),
        ({"since_time": datetime.fromisoformat("2030-01-01T01:00:02.25+01:00")}, "c\n"),
    ],
)
async def test_stream_options_choose_what_is_read(
    store: LogStore, clock: ManualClock, options: dict[str, Any], expected: str
) -> None:
    write(store, build_pod(), "a", "b", "c")
    clock.advance(10)
    assert await read(store, **options) == expected


async def test_stream_large_log_is_read_whole_and_from_its_tail(store: LogStore) -> None:
    lines = [f"{i} {'x' * 100}" for i in range(6000)]
    path = write(store, build_pod())
    path.write_text("".join(f"T stdout F {line}\n" for line in lines))
    assert await read(store) == "".join(f"{line}\n" for line in lines)
    assert await read(store, tail_lines=5000) == "".join(f"{line}\n" for line in lines[1000:])


async def test_stream_partial_lines_are_joined(store: LogStore) -> None:
    path = write(store, build_pod())
    path.write_text("T stdout P half \nT stdout F done\nT stderr P end\n")
    assert await read(store) == "half done\nend"


async def test_stream_follow_ends_with_the_container(store: LogStore) -> None:
    path = write(store, build_pod(), "a")
    stream = store.stream(ContainerLog("ns", "p", "main"), LogReadOptions(follow=True))
    first = await anext(stream)
    with path.open("a") as file:
        file.write("T stdout F b\n")
    store.close_log(path)
    assert [first, *[piece async for piece in stream]] == [b"a\n", b"b\n"]


async def test_stream_restarted_container_keeps_the_previous_log(store: LogStore) -> None:
    pod = build_pod()
    write(store, pod, "first")
    write(store, pod, "second")
    assert await read(store) == "second\n"
    assert await read(store, previous=True) == "first\n"


async def test_stream_newest_pod_of_the_name_wins(store: LogStore, clock: ManualClock) -> None:
    write(store, build_pod("z-old"), "old")
    clock.advance(1)
    write(store, build_pod("a-new"), "new")
    assert await read(store) == "new\n"
    assert await read(store, uid="z-old") == "old\n"


async def test_stream_unknown_pod_container_or_run_raises(store: LogStore) -> None:
    with pytest.raises(StatusError, match="no log of pod"):
        await read(store)
    write(store, build_pod(), "a")
    with pytest.raises(StatusError, match="waiting to start"):
        await read(store, "other")
    with pytest.raises(StatusError, match="previous terminated container"):
        await read(store, previous=True)


def test_list_kept_labels_select_pods_oldest_first(store: LogStore, clock: ManualClock) -> None:
    write(store, build_pod("u1", job="a"), "x")
    clock.advance(1)
    write(store, build_pod("u0", job="a"), "x", container="init")
    write(store, build_pod("u2", job="b"), "x")
    kept = store.list_kept("ns", {"job": "a"})
    assert [(log.uid, log.container) for log in kept] == [("u1", "main"), ("u0", "init")]
    assert store.list_kept("other", {}) == []


def test_read_tail_is_cut_to_lines_and_bytes(store: LogStore) -> None:
    path = write(store, build_pod(), *[f"line {i}" for i in range(100)])
    assert store.read_tail(path).splitlines() == [f"line {i}" for i in range(20, 100)]
    path.write_text(f"T stdout F {'x' * 5000}\n")
    assert len(store.read_tail(path)) == 2048
    assert store.read_tail(path.with_name("none")) == ""

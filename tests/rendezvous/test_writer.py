"""The writer: whatever kills it, and whenever, a reader finds one whole generation."""

import fcntl
import os
import re
import shutil
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from framework.agent.gang import SOURCE_CONFIGMAP
from rendezvous.core.notifying.notification import Notified
from rendezvous.core.scaling import Record
from rendezvous.core.selection import Generation
from rendezvous.renderers.rendered import EXECUTABLE, RenderedFile
from rendezvous.volume.records import Records
from rendezvous.volume.writer import Writer
from tests.rendezvous.gangs import build_gang
from tests.support.slow import keep_first

# Every way in which the writer and what it calls touch the volume.
CALLS = (
    "mkdir", "open", "write", "fchmod", "fsync", "close", "chmod", "rename", "symlink", "unlink",
    "rmdir", "readlink", "listdir", "scandir", "lstat",
)  # fmt: skip
SIZE = 20000


def build_generation(number: int) -> Generation:
    return Generation(build_gang(2)._replace(generation=number), SOURCE_CONFIGMAP, number)


def build_files(number: int) -> dict[str, RenderedFile]:
    """Files whose bytes name the generation."""
    return {name: RenderedFile(b"%d" % (number % 10) * SIZE) for name in ("a", "b", ".env")}


FIXED = {"script.sh": RenderedFile(b"#!/bin/sh\n" * 100, EXECUTABLE)}


def write(volume: Path, number: int) -> None:
    writer = Writer(str(volume))
    writer.write(build_generation(number), build_files(number), FIXED)
    writer.settle()


def test_settle_removes_files_of_killed_writers_and_of_no_other_program(tmp_path: Path) -> None:
    ours = [".new-0123456789ab", ".link-0123456789ab", ".notified.0123456789ab.tmp"]
    others = [
        "injector.sh.0123456789ab.tmp", "framework.json.0123456789ab.tmp",
        "FB_WORKER_IPS.0123456789ab.tmp", ".running.0123456789ab.tmp", "model.tmp",
    ]  # fmt: skip
    for name in ours + others:
        (tmp_path / name).touch()
    write(tmp_path, 1)
    assert {path.name for path in tmp_path.iterdir()} == {"current", "gen-1", "script.sh", *others}


RECORDS: dict[str, Callable[[Records], None]] = {
    ".notified": lambda records: records.write_notified(Notified(7)),
    "failed.json": lambda records: records.write_failures(b"{}"),
    "leaving.json": lambda records: records.write_departures(b"{}"),
    ".scaler": lambda records: records.write_scaler(Record("uid")),
}


@pytest.mark.parametrize("name", RECORDS)
def test_no_other_agent_tidies_up_while_a_record_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """It would remove the temporary file as one of a killed agent, and the write would fail."""
    real = os.rename

    def rename_while_locked(source: str, target: str) -> None:
        descriptor = os.open(tmp_path, os.O_RDONLY)
        with pytest.raises(BlockingIOError):
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.close(descriptor)
        real(source, target)

    monkeypatch.setattr(os, "rename", rename_while_locked)
    RECORDS[name](Records(str(tmp_path)))
    assert (tmp_path / name).exists()


@pytest.mark.parametrize(
    ("module", "name"), [(os, "readlink"), (os.path, "isdir")], ids=["link", "folder"]
)
def test_reader_whose_generation_is_removed_just_now_finds_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, module: Any, name: str
) -> None:
    """Between two steps of the reader, two newer generations become current."""
    write(tmp_path, 1)
    real = getattr(module, name)

    def look_and_fall_behind(path: str) -> Any:
        found = real(path)
        monkeypatch.setattr(module, name, real)
        write(tmp_path, 2)
        write(tmp_path, 3)
        return found

    monkeypatch.setattr(module, name, look_and_fall_behind)
    writer = Writer(str(tmp_path))
    if name == "readlink":
        assert writer.find_last_number() == 3
    else:
        assert writer.read_current() == build_generation(3)


def test_agent_that_starts_while_another_one_cleans_finds_the_volume_writable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.mkdir

    def clean_behind(path: str, *mode: int) -> None:
        real(path, *mode)
        shutil.rmtree(path)

    monkeypatch.setattr(os, "mkdir", clean_behind)
    Writer(str(tmp_path)).prepare()


def test_link_to_a_generation_that_is_gone_counts_as_none(tmp_path: Path) -> None:
    write(tmp_path, 1)
    shutil.rmtree(tmp_path / "gen-1")
    assert Writer(str(tmp_path)).find_last_number() == 0
    assert Writer(str(tmp_path)).read_current() is None


def read_whole(volume: Path) -> int:
    """Read the current generation; fail if it is not whole. 0: there is none."""
    current = volume / "current"
    if not current.is_symlink():
        return 0
    number = int(current.readlink().name.removeprefix("gen-"))
    for name, file in build_files(number).items():
        assert (current / name).read_bytes() == file.content, name
        assert (current / name).stat().st_mode & 0o777 == 0o444
    script = volume / "script.sh"
    assert script.read_bytes() == FIXED["script.sh"].content
    assert script.stat().st_mode & 0o777 == 0o555
    generation = Writer(str(volume)).read_current()
    assert generation == build_generation(number)
    return number


def kill_at(step: int) -> Callable[[], None]:
    """Have this program killed at its n-th call of the file system, before it is carried out."""
    left = [step]

    def build(real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            left[0] -= 1
            if left[0] == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            return real(*arguments, **options)

        return call

    def arm() -> None:
        for name in CALLS:
            setattr(os, name, build(getattr(os, name)))

    return arm


def run_killed(volume: Path, number: int, step: int) -> bool:
    """Write in a child that is killed at its n-th call; return whether it was."""
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            arm = kill_at(step)
            arm()
            write(volume, number)
            code = 0
        finally:
            os._exit(code)
    _, status = os.waitpid(pid, 0)
    assert os.WIFSIGNALED(status) or os.WEXITSTATUS(status) == 0
    return os.WIFSIGNALED(status)


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
@pytest.mark.parametrize("last", keep_first([3, 0]), ids=["after_others", "first"])
def test_writer_killed_at_any_call_leaves_a_whole_generation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, last: int
) -> None:
    # The writer is killed, the machine is not: nothing has to reach the disk.
    monkeypatch.setattr(os, "fsync", lambda _: None)
    before = tmp_path / "before"
    before.mkdir()
    for number in range(1, last + 1):
        write(before, number)
    step, seen, was_killed = 0, set(), True
    while was_killed:
        step += 1
        volume = shutil.copytree(before, tmp_path / str(step), symlinks=True)
        was_killed = run_killed(volume, last + 1, step)
        found = read_whole(volume)
        seen.add(found)
        assert found in {last, last + 1}, f"step {step}"
        # The next one writes as usual, and removes what was left.
        write(volume, found + 1)
        assert read_whole(volume) == found + 1
        names = {path.name for path in volume.iterdir()} - {"current", "script.sh"}
        kept = [f"gen-{found}"] if found else []
        assert sorted(names) == [*kept, f"gen-{found + 1}"], f"step {step}"
    assert seen == {last, last + 1}
    assert step > 40, "too few calls were seen"


def test_writer_keeps_the_generation_before_and_the_notified_one(tmp_path: Path) -> None:
    writer = Writer(str(tmp_path))
    for number in (1, 2):
        write(tmp_path, number)
    writer.records.write_notified(Notified(2))
    for number in (3, 4, 5):
        write(tmp_path, number)
    kept = sorted(path.name for path in tmp_path.glob("gen-*"))
    assert kept == ["gen-2", "gen-4", "gen-5"]
    assert writer.records.read_notified() == Notified(2)
    notified = writer.read_generation(2)
    assert notified is not None
    assert notified.number == 2


def test_writer_that_fails_leaves_the_last_good_in_force(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, 1)
    before = sorted(path.name for path in tmp_path.iterdir())

    def fail(_descriptor: int, _content: bytes) -> int:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(os, "write", fail)
        with pytest.raises(OSError, match="No space left"):
            write(tmp_path, 2)
    assert read_whole(tmp_path) == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == before


def test_writer_ignores_the_umask(tmp_path: Path) -> None:
    old = os.umask(0o077)
    try:
        write(tmp_path, 1)
    finally:
        os.umask(old)
    assert (tmp_path / "gen-1").stat().st_mode & 0o777 == 0o755
    assert read_whole(tmp_path) == 1


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b".+", b""),
        (b".+", b"{"),
        (b".+", b"[]"),
        (b".+", b"\xff"),
        (b".+", b"[" * 100_000),
        (b".+", b'{"roster": "x", "source": "s", "sourceGeneration": 1}'),
        (b'"sourceGeneration": 7', b'"sourceGeneration": Infinity'),
        (b'"sourceGeneration": 7', b'"sourceGeneration": null'),
    ],
    ids=["empty", "half", "list", "no text", "too deep", "no roster", "endless", "no number"],
)
def test_writer_takes_a_foreign_state_for_none(tmp_path: Path, before: bytes, after: bytes) -> None:
    write(tmp_path, 7)
    state = tmp_path / "gen-7" / ".agent.json"
    content, count = re.subn(before, after, state.read_bytes())
    assert count == 1
    state.unlink()
    state.write_bytes(content)
    writer = Writer(str(tmp_path))
    assert writer.read_current() is None
    assert writer.find_last_number() == 7


def test_writer_follows_no_link_in_the_volume(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.write_text("untouched")
    volume = tmp_path / "volume"
    volume.mkdir()
    (volume / "script.sh").symlink_to(outside)
    (volume / ".notified").symlink_to(outside)
    (volume / "gen-1").symlink_to(tmp_path)
    write(volume, 1)
    Records(str(volume)).write_notified(Notified(1))
    assert outside.read_text() == "untouched"
    assert read_whole(volume) == 1


@pytest.mark.parametrize(
    "notified",
    [
        Notified(),
        Notified(7, "2026-01-02T03:04:05Z"),
        Notified(10**17, completing=True),
        Notified(7, failed=9),
        Notified(7, failed=9, peers_leaving=8),
    ],
)
def test_writer_reads_back_what_was_notified(tmp_path: Path, notified: Notified) -> None:
    Records(str(tmp_path)).write_notified(notified)
    assert Records(str(tmp_path)).read_notified() == notified


@pytest.mark.parametrize(
    "text", ["", "7", "x leaving= completing=0\n", "7 leaving=\ncompleting=0\n"]
)
def test_writer_takes_a_foreign_note_for_none(tmp_path: Path, text: str) -> None:
    (tmp_path / ".notified").write_text(text)
    assert Records(str(tmp_path)).read_notified() == Notified()

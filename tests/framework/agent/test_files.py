import json
import os
from pathlib import Path

import pytest

from framework.agent.exitcodes import ExitCode
from framework.agent.files import PreparedFile, write_atomically
from framework.agent.termination import render_termination_message, write_termination_message


def list_names(directory: Path) -> list[str]:
    return [entry.name for entry in directory.iterdir()]


def test_write_atomically_replaces_with_the_mode(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_text("old")
    old_umask = os.umask(0o077)
    try:
        write_atomically(str(path), b"new", 0o755)
    finally:
        os.umask(old_umask)
    assert path.read_bytes() == b"new"
    assert path.stat().st_mode & 0o7777 == 0o755
    assert list_names(tmp_path) == ["f"]


def test_write_atomically_planted_link_is_replaced_not_followed(tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.write_text("precious")
    (tmp_path / "f").symlink_to(target)
    write_atomically(str(tmp_path / "f"), b"new", 0o644)
    assert target.read_text() == "precious"
    assert not (tmp_path / "f").is_symlink()


@pytest.mark.parametrize("is_link", [True, False])
def test_write_atomically_file_planted_at_the_temporary_name_is_not_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, is_link: bool
) -> None:
    target = tmp_path / "target"
    target.write_text("precious")
    monkeypatch.setattr(os, "urandom", bytes)
    planted = tmp_path / f"f.{bytes(6).hex()}.tmp"
    if is_link:
        planted.symlink_to(target)
    else:
        planted.hardlink_to(target)
    with pytest.raises(FileExistsError):
        write_atomically(str(tmp_path / "f"), b"new", 0o644)
    assert target.read_text() == "precious"
    assert not (tmp_path / "f").exists()


def test_write_atomically_follows_no_link_where_exclusive_creates_are_not_honoured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some network file systems ignore O_EXCL."""
    opened = os.open
    monkeypatch.setattr(os, "urandom", bytes)
    monkeypatch.setattr(
        os, "open", lambda path, flags, mode: opened(path, flags & ~os.O_EXCL, mode)
    )
    target = tmp_path / "target"
    target.write_text("precious")
    (tmp_path / f"f.{bytes(6).hex()}.tmp").symlink_to(target)
    with pytest.raises(OSError, match="symbolic links"):
        write_atomically(str(tmp_path / "f"), b"new", 0o644)
    assert target.read_text() == "precious"


class StopNowError(BaseException):
    """Stands for SIGTERM's exception."""


@pytest.mark.parametrize("step", ["write", "fchmod", "rename"])
def test_write_atomically_interrupted_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    def interrupt(*_args: object) -> None:
        raise StopNowError

    (tmp_path / "f").write_text("old")
    monkeypatch.setattr(os, step, interrupt)
    with pytest.raises(StopNowError):
        write_atomically(str(tmp_path / "f"), b"new", 0o644)
    monkeypatch.undo()
    assert list_names(tmp_path) == ["f"]
    assert (tmp_path / "f").read_text() == "old"


@pytest.mark.parametrize("is_filled", [True, False])
def test_prepared_file_appears_only_when_it_is_filled(tmp_path: Path, *, is_filled: bool) -> None:
    path = tmp_path / "f"
    path.write_text("old")
    prepared = PreparedFile(str(path), 0o755)
    if is_filled:
        prepared.fill(b"new")
        assert path.stat().st_mode & 0o7777 == 0o755
    prepared.discard()
    prepared.discard()
    assert path.read_text() == ("new" if is_filled else "old")
    assert list_names(tmp_path) == ["f"]


def test_render_termination_message_is_bounded_json() -> None:
    missing = [{"role": "worker", "index": i, "reason": "\u2028" * 200} for i in range(10)]
    fields = {"exitCode": 201, "message": "é" * 9000, "missing": missing}
    rendered = render_termination_message(fields)
    assert len(rendered) <= 4096
    assert json.loads(rendered)["exitCode"] == 201


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "log"


def test_write_termination_message_absent_file_is_not_made(log: Path) -> None:
    assert not write_termination_message(str(log), {"a": 1})
    assert not log.exists()
    log.write_text("something much longer than before")
    assert write_termination_message(str(log), {"a": 1})
    assert json.loads(log.read_text()) == {"a": 1}


def test_write_termination_message_empty_file_is_not_cut(
    log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """ext4 sends a file that was cut to the disk when it is closed: much of a gang's release."""
    log.touch()
    opened_with: list[int] = []
    real_open = os.open

    def note_flags(path: str, flags: int) -> int:
        opened_with.append(flags)
        return real_open(path, flags)

    monkeypatch.setattr(os, "open", note_flags)
    monkeypatch.delattr(os, "ftruncate")
    assert write_termination_message(str(log), {"a": 1})
    assert [flags & os.O_TRUNC for flags in opened_with] == [0]
    assert json.loads(log.read_text()) == {"a": 1}


def test_exit_codes_all_have_a_consequence() -> None:
    described = {code.value: code.describe() for code in ExitCode}
    assert set(described) == {0, 1, 200, 201, 202, 210}
    assert described[210] == "exit 210: permanent failure, so the controller does not retry"
    assert described[202] == (
        "exit 202 (hang): an unknown failure, retried only within maxRetryCount"
    )
    assert len(ExitCode) == 6

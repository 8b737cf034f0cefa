"""On a machine that cannot run a node, `make test-node` prints the reason in one line.

It succeeds then, but in CI it fails.
"""

from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from tests.support.machine import nodeimages, realnode
from tests.support.machine.prerequisites import MissingPrerequisiteError
from tests.support.machine.realnode import PACKAGES, install_node_programs
from tools.images import Tool

Captured = pytest.CaptureFixture[str]
SetPath = Callable[[Iterable[str]], None]


@pytest.fixture(autouse=True)
def set_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SetPath:
    """Build no CI, no apt-get, and the CNI plugins; the result makes programs the whole PATH."""
    monkeypatch.delenv("CI", raising=False)
    monkeypatch.delenv("CONTAINER_TOOL", raising=False)
    monkeypatch.setattr(realnode, "CNI_FOLDER", tmp_path)

    def set_path(names: Iterable[str]) -> None:
        folder = tmp_path / "bin"
        folder.mkdir()
        for name in names:
            (folder / name).write_text("#!/bin/sh\nexit 1\n")
            (folder / name).chmod(0o755)
        monkeypatch.setenv("PATH", str(folder))

    return set_path


@pytest.mark.parametrize(
    ("lacking", "package"),
    [("containerd", "containerd"), ("runc", "runc"), ("ip", "iproute2"), ("nsenter", "util-linux")],
)
def test_install_node_programs_names_the_package_of_a_missing_program(
    lacking: str, package: str, set_path: SetPath
) -> None:
    set_path(set(PACKAGES) - {lacking})
    with pytest.raises(MissingPrerequisiteError, match=f"^install the packages {package}$"):
        install_node_programs()


def run_and_read(capsys: Captured, expected_code: int = 0) -> str:
    """Run the harness as `make test-node` does; return its only line."""
    code = realnode.run(["false"])
    out, err = capsys.readouterr()
    (line,) = out.splitlines()
    assert (code, err) == (expected_code, "")
    return line


@pytest.mark.parametrize(
    ("ci", "code", "line"),
    [
        ("", 0, "SKIPPED: install the packages containerd"),
        ("true", 1, "FAILED: install the packages containerd; with CI=true no suite is skipped"),
    ],
)
def test_run_without_containerd_prints_one_line_and_fails_in_ci_only(
    ci: str,
    code: int,
    line: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: Captured,
    set_path: SetPath,
) -> None:
    set_path(set(PACKAGES) - {"containerd", "ctr"})
    monkeypatch.setenv("CI", ci)
    assert run_and_read(capsys, expected_code=code) == line


def test_run_in_ci_without_the_training_stack_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CI", "true")
    monkeypatch.setattr(nodeimages, "find_python", lambda _: None)
    with pytest.raises(MissingPrerequisiteError, match="jax is not installed"):
        nodeimages._build_stack(Tool("none"), tmp_path, tmp_path)


def test_run_without_an_image_tool_skips_with_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured, set_path: SetPath
) -> None:
    set_path(PACKAGES)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr(realnode, "find_programs", lambda *_, **__: {})
    line = run_and_read(capsys)
    assert line.startswith("SKIPPED: no docker, podman or buildah that works: install one")


def test_run_as_an_ordinary_user_skips_with_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    monkeypatch.setattr(realnode, "install_node_programs", lambda: None)
    monkeypatch.setattr(realnode, "install_image_tools", lambda: None)
    monkeypatch.setattr(realnode, "find_programs", lambda *_, **__: {})
    monkeypatch.setattr(realnode, "prepare_images", dict)
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert run_and_read(capsys) == "SKIPPED: a node needs root"

"""The krew plugin: its manifest follows krew's rules, and its archive runs the command line."""

import hashlib
import io
import os
import re
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

import yaml

from cli.exitcodes import ExitCode
from framework.version import VERSION
from tools import krew

LICENSE = b"text"
MANIFEST = krew.build_manifest(krew.build_archive(LICENSE), "https://host.example/releases/")


def find_faults(name: str, plugin: dict[str, Any]) -> list[str]:
    """The faults that krew's validation of a plugin (internal/index/validation) refuses."""
    spec = plugin["spec"]
    checks = {
        "apiVersion": plugin["apiVersion"] == "krew.googlecontainertools.github.com/v1alpha2",
        "kind": plugin["kind"] == "Plugin",
        "name": re.fullmatch(r"[\w-]+", name) is not None and plugin["metadata"]["name"] == name,
        "shortDescription": re.fullmatch(r"[^\r\n]+", spec["shortDescription"]) is not None,
        "version": re.fullmatch(r"v\d+\.\d+\.\d+(-[\w.]+)?", spec["version"]) is not None,
        "platforms": bool(spec["platforms"]),
    }
    for platform in spec["platforms"]:
        expressions = platform["selector"]["matchExpressions"]
        checks |= {
            "uri": bool(platform["uri"]),
            "sha256": re.fullmatch(r"[a-f0-9]{64}", platform["sha256"]) is not None,
            "bin": bool(platform["bin"]),
            "files": "files" not in platform,
            "selector": bool(expressions) and {e["key"] for e in expressions} <= {"os", "arch"},
        }
    return [check for check, holds in checks.items() if not holds]


def test_manifest_follows_the_rules_of_krew() -> None:
    assert find_faults("framework", MANIFEST) == []
    # The guide of krew-index: a short description is at most 50 characters, without a period.
    assert len(MANIFEST["spec"]["shortDescription"]) <= 55
    assert not MANIFEST["spec"]["shortDescription"].endswith(".")


def test_manifest_names_the_archive_by_its_hash() -> None:
    (platform,) = MANIFEST["spec"]["platforms"]
    assert platform["uri"] == (f"https://host.example/releases/kubectl-framework-{VERSION}.tar.gz")
    assert platform["sha256"] == hashlib.sha256(krew.build_archive(LICENSE)).hexdigest()


def test_make_writes_a_manifest_with_a_placeholder_and_says_so(tmp_path: Path) -> None:
    (tmp_path / "LICENSE").write_bytes(LICENSE)
    root = Path(__file__).parents[2]
    ran = subprocess.run(
        [sys.executable, "-m", "tools.krew"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(root)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert "note: the manifest has a placeholder as URL" in ran.stdout
    manifest = yaml.safe_load((tmp_path / "dist" / "krew" / "framework.yaml").read_text())
    assert find_faults("framework", manifest) == []
    archive = tmp_path / "dist" / "krew" / krew.ARCHIVE
    assert (
        manifest["spec"]["platforms"][0]["sha256"]
        == hashlib.sha256(archive.read_bytes()).hexdigest()
    )


def install(folder: Path) -> Path:
    """Unpack the archive and link its program, as krew does."""
    with tarfile.open(fileobj=io.BytesIO(krew.build_archive(LICENSE))) as archive:
        archive.extractall(folder / "store", filter="data")
    (folder / "bin").mkdir()
    link = folder / "bin" / "kubectl-framework"
    link.symlink_to(folder / "store" / MANIFEST["spec"]["platforms"][0]["bin"])
    return link


def call(link: Path, path: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [link, "version"], env={"PATH": path}, capture_output=True, text=True, check=False
    )


def test_installed_plugin_runs_the_command_line(tmp_path: Path) -> None:
    link = install(tmp_path)
    programs = str(Path(sys.executable).parent)
    ran = call(link, os.pathsep.join([programs, "/usr/bin", "/bin"]))
    assert (ran.returncode, ran.stdout) == (0, f"{VERSION}\n")
    ran = call(link, "/usr/bin:/bin")
    assert (ran.returncode, "pipx install frameworkbarrier" in ran.stderr) == (
        ExitCode.USAGE,
        True,
    )

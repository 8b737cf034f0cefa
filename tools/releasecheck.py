"""Checks that the commit can be released: called by ``make release-check``.

It builds wheels and sdists twice, from two clones in different folders, and compares their bytes;
installs the wheels into a new environment and asks every program for its version; and, with
``--images``, builds the images twice, too. It prints each fault; the exit code is then 1.
"""

import argparse
import hashlib
import os
import re
import subprocess
import sys
import tempfile
import venv
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from framework.version import VERSION
from tools.distributions import build_distributions
from tools.imagearchive import ImageArchive
from tools.images import NAMES, ImageError, Tool, build_images, choose_tool

PROGRAMS = (
    "framework",
    "framework-barrier",
    "framework-controller",
    "framework-rendezvous",
    "kubectl-framework",
)
CHANGELOG = Path("CHANGELOG.md")
_HEADING = re.compile(r"^## \[(?P<version>[^\]]+)\](?P<rest>.*)$", re.MULTILINE)


def main(arguments: Sequence[str]) -> int:
    """Run all checks; return the exit code."""
    parser = argparse.ArgumentParser(prog="make release-check", description=__doc__)
    parser.add_argument("--images", action="store_true", help="build the images twice, too")
    options = parser.parse_args(arguments)
    problems = [*check_changelog(CHANGELOG.read_text(encoding="utf-8")), *_check_tree()]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        problems += _check_distributions(folder)
        if options.images:
            problems += _check_images(folder)
    for problem in problems:
        print(f"release-check: {problem}", file=sys.stderr)
    if not problems:
        print(f"release-check: {VERSION} can be released")
    return 1 if problems else 0


def check_changelog(text: str) -> Iterator[str]:
    """Find the parts that the changelog lacks for this version."""
    sections = {match["version"]: match for match in _HEADING.finditer(text)}
    unreleased, released = sections.get("Unreleased"), sections.get(VERSION)
    if unreleased is None:
        yield f"{CHANGELOG}: no section [Unreleased]: add one on top"
    elif released is None and not _has_entries(text, unreleased):
        yield f"{CHANGELOG}: nothing under [Unreleased], and no section [{VERSION}]"
    elif released is not None and not re.search(r"\d{4}-\d{2}-\d{2}", released["rest"]):
        yield f"{CHANGELOG}: the section [{VERSION}] has no date: `## [{VERSION}] - YYYY-MM-DD`"


def _has_entries(text: str, heading: re.Match[str]) -> bool:
    following = _HEADING.search(text, heading.end())
    section = text[heading.end() : following.start() if following else len(text)]
    return any(line.startswith("- ") for line in section.splitlines())


def _check_tree() -> Iterator[str]:
    if _read(["git", "status", "--porcelain"]):
        yield "the tree has changes that are not committed: they would not be in the release"
    check = [sys.executable, "-m", "tools.manifests", "--check"]
    if subprocess.run(check, capture_output=True, check=False).returncode != 0:
        yield "deploy/ is not that of this version: run `make manifests`"


def _check_distributions(folder: Path) -> Iterator[str]:
    """Build twice, compare, install."""
    built = [_build_distributions(folder / name) for name in ("first", "second")]
    for first, second in zip(*built, strict=True):
        digest = _hash(first)
        print(f"{digest}  {first.name}", flush=True)
        if first.name != second.name or digest != _hash(second):
            yield f"{first.name}: two builds of one commit differ"
    wheels = [path for path in built[0] if path.suffix == ".whl"]
    yield from _check_programs(wheels, folder / "environment")


def _build_distributions(folder: Path) -> list[Path]:
    """Clone the commit and build; return the files."""
    _run(["git", "clone", "--quiet", "--no-hardlinks", ".", folder / "source"])
    epoch = _read(["git", "log", "-1", "--format=%ct"])
    return build_distributions(folder / "source", folder / "dist", SOURCE_DATE_EPOCH=epoch)


def _check_programs(wheels: Sequence[Path], environment: Path) -> Iterator[str]:
    """Install the wheels with the locked packages, and ask every program for its version."""
    venv.create(environment, with_pip=True)
    pip = [str(environment / "bin" / "python"), "-m", "pip", "install", "--quiet"]
    _run(["sh", "tools/installlocked", pip[0], "requirements/runtime.txt", "--quiet"])
    _run([*pip, "--no-deps", *wheels])
    _run([*pip[:3], "check"])
    checks = [[program, "--version"] for program in PROGRAMS]
    checks.append(["python", "-c", f"import cli.local.commands; print({VERSION!r})"])
    for program, *options in checks:
        done = subprocess.run(
            [environment / "bin" / program, *options],
            capture_output=True,
            text=True,
            check=False,
            cwd=environment,
        )
        if done.returncode != 0 or VERSION not in done.stdout.split():
            yield f"{program} {' '.join(options)}: {done.stdout}{done.stderr}".rstrip()


def _check_images(folder: Path) -> Iterator[str]:
    """Build the images twice; compare their layers, users, labels and entry points."""
    try:
        tool = choose_tool(os.environ)
        configs = [_build_configs(tool, folder / name) for name in ("once", "twice")]
    except ImageError as e:
        yield f"images: {e}"
        return
    for name in NAMES:
        if configs[0][name] != configs[1][name]:
            yield f"image framework-{name}: two builds of one commit differ"


def _build_configs(tool: Tool, output: Path) -> dict[str, dict[str, Any]]:
    """Build the images; return their configs, which have the digests of the layers.

    Docker and podman would use layers of the first build in the second one.
    """
    build_images(tool, output=output, is_fresh=True)
    return {name: ImageArchive(output / f"framework-{name}.tar").read_config() for name in NAMES}


def _hash(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _read(command: Sequence[str]) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def _run(command: Sequence[str | Path], **env: str) -> None:
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env={**os.environ, **env})


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""The images for the node of tests: ours, Kubernetes' pause, and training images.

They are built outside the namespaces of the node, because building needs the network. An image
that was built from the same sources is used again.
"""

import contextlib
import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterable
from pathlib import Path

from tests.consumers.install import STACKS, PythonStack, explain_missing, find_python
from tests.skips import is_ci
from tests.support.machine.prerequisites import (
    MissingPrerequisiteError,
    install_packages,
    install_programs,
)
from tests.support.servers.frameworkcrd import ROOT
from tools.imagearchive import ImageArchive
from tools.images import ImageError, Tool, build_images, choose_tool

PAUSE_IMAGE = "localhost/pause:1"
# The base, under the name that the examples give their training image.
TRAINING_IMAGE = "docker.io/library/python:3.12-slim"
# The base and a training stack that `python -m tests.consumers.install` has installed.
STACK = "jax"
STACK_IMAGE = "localhost/jax:1"
_PAUSE_SOURCE = ROOT / "tests" / "node" / "pause.go"
# The sources of the three images.
_SOURCES = (
    "LICENSE",
    "barrier",
    "controller",
    "framework",
    "images",
    "rendezvous",
    "tools/images.py",
    "tools/sbom.py",
)
# Parts that training does not need.
_LEFT_OUT = ("pip", "pip-*", "setuptools", "setuptools-*", "pkg_resources", "tests", "__pycache__")


def find_cache() -> Path:
    """Return the folder outside the tree for built files."""
    return Path.home() / ".cache" / "frameworkbarrier" / "node"


def install_image_tools() -> None:
    """Install buildah where no tool for images works, and debootstrap for a base from Debian.

    A machine that lacks them and cannot install them may still be able to build:
    ``prepare_images`` decides that.
    """
    with contextlib.suppress(MissingPrerequisiteError):
        try:
            choose_tool(os.environ)
        except ImageError:
            install_packages(["buildah"])
        install_programs({"debootstrap": "debootstrap"})


def prepare_images() -> dict[str, Path]:
    """Build all images; return the archives by the names that Pods use.

    Raises:
        MissingPrerequisiteError: no tool for images, no base, or no Go.
    """
    cache = find_cache()
    tool, images = prepare_our_images()
    base = cache / "base.tar"
    images |= {PAUSE_IMAGE: _build_pause(tool, cache), TRAINING_IMAGE: base}
    stack = _build_stack(tool, cache, base)
    return images if stack is None else {**images, STACK_IMAGE: stack}


def prepare_our_images() -> tuple[Tool, dict[str, Path]]:
    """Build our three images and their base; return the tool, and the archives by name.

    Raises:
        MissingPrerequisiteError: no tool for images, or no base.
    """
    cache = find_cache()
    cache.mkdir(parents=True, exist_ok=True)
    try:
        tool = choose_tool(os.environ)
        return tool, _build_ours(tool, cache)
    except ImageError as e:
        raise MissingPrerequisiteError(str(e)) from e


def _build_ours(tool: Tool, cache: Path) -> dict[str, Path]:
    """Build our three images, unless images of the same sources exist."""
    stamp = cache / "images.stamp"
    digest = _digest_files(_list_sources())
    if stamp.exists():
        kept, *lines = stamp.read_text().splitlines()
        images = {name: Path(path) for name, path in (line.split(" ", 1) for line in lines)}
        if kept == digest and all(path.exists() for path in [cache / "base.tar", *images.values()]):
            return images
    stamp.unlink(missing_ok=True)
    built = build_images(tool, output=cache)
    images = {f"docker.io/{name}": path for name, path in built.items()}
    stamp.write_text("\n".join([digest, *(f"{name} {path}" for name, path in images.items())]))
    return images


def _list_sources() -> list[Path]:
    tops = [ROOT / name for name in _SOURCES]
    files = [path for top in tops for path in ([top] if top.is_file() else top.rglob("*"))]
    return sorted(path for path in files if path.is_file() and path.suffix != ".pyc")


def _digest_files(files: Iterable[Path]) -> str:
    digest = hashlib.sha256()
    for path in files:
        digest.update(f"{path.relative_to(ROOT)}\0{path.stat().st_mode}\0".encode())
        digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()


def _build_stack(tool: Tool, cache: Path, base: Path) -> Path | None:
    """Build an image of a training stack; print a line and return None if impossible.

    Raises:
        MissingPrerequisiteError: in CI, where the stack must be installed.
    """
    python = find_python(STACK)
    if python is None:
        if is_ci(os.environ):
            raise MissingPrerequisiteError(explain_missing(STACK))
        print(f"no training stack: {explain_missing(STACK)}", flush=True)
        return None
    packages = find_packages(python)
    fault = find_mismatch(packages, base)
    if fault:
        print(f"no training stack: {STACK}: {fault}", flush=True)
        return None
    recipe = STACKS[STACK]
    assert isinstance(recipe, PythonStack)
    archive, stamp = cache / f"{STACK}.tar", cache / f"{STACK}.stamp"
    digest = f"{recipe.digest} {hashlib.sha256(base.read_bytes()).hexdigest()}"
    if not archive.exists() or not stamp.exists() or stamp.read_text() != digest:
        stamp.unlink(missing_ok=True)
        _save_stack(tool, packages, base, archive)
        stamp.write_text(digest)
    return archive


def find_packages(python: Path) -> Path:
    """Find the packages of the virtual environment of this Python."""
    return next(python.parent.parent.glob("lib/python3.*/site-packages"))


def find_mismatch(packages: Path, base: Path) -> str:
    """Return why the Python of the base cannot use these packages; "" if it can."""
    version = packages.parent.name
    interpreters = {f"usr/bin/{version}", f"usr/local/bin/{version}"}
    if interpreters & set(ImageArchive(base).list_sizes()):
        return ""
    return f"it is for {version}, and the base has another"


def _save_stack(tool: Tool, packages: Path, base: Path, archive: Path) -> None:
    """Build base + packages; hard links, because it is half a gigabyte."""
    (base_image,) = ImageArchive(base).read_names()
    with tempfile.TemporaryDirectory(dir=archive.parent) as name:
        folder = Path(name)
        ignore = shutil.ignore_patterns(*_LEFT_OUT)
        shutil.copytree(packages, folder / "packages", copy_function=_link, ignore=ignore)
        (folder / "Dockerfile").write_text(
            f"FROM {base_image}\nCOPY packages /opt/stack\nENV PYTHONPATH=/opt/stack\n"
        )
        _build_and_save(tool, STACK_IMAGE, folder, archive)


def _link(source: str, target: str) -> str:
    os.link(source, target)
    return target


def _build_pause(tool: Tool, cache: Path) -> Path:
    archive = cache / "pause.tar"
    if archive.exists() and archive.stat().st_mtime > _PAUSE_SOURCE.stat().st_mtime:
        return archive
    if shutil.which("go") is None:
        raise MissingPrerequisiteError("go not found: install Go >= 1.24 (go.dev/dl)")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        subprocess.run(
            ["go", "build", "-trimpath", "-ldflags=-s -w", "-o", folder / "pause", _PAUSE_SOURCE],
            env={**os.environ, "CGO_ENABLED": "0", "GOFLAGS": ""},
            check=True,
        )
        (folder / "Dockerfile").write_text(
            'FROM scratch\nCOPY pause /pause\nUSER 65535:65535\nENTRYPOINT ["/pause"]\n'
        )
        _build_and_save(tool, PAUSE_IMAGE, folder, archive)
    return archive


def _build_and_save(tool: Tool, image: str, folder: Path, archive: Path) -> None:
    subprocess.run(tool.build([f"--tag={image}"], 0, folder), check=True, stdout=subprocess.DEVNULL)
    archive.unlink(missing_ok=True)
    subprocess.run(tool.save(image, archive), check=True)

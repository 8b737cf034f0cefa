"""The images that the node of tests gets: ours, Kubernetes' pause, and a training image.

Called by ``tests.support.realnode``, outside its namespaces: building needs the network.
"""

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from tests.support.kubebinaries import MissingPrerequisiteError
from tools.images import ImageError, Tool, build_images, choose_tool

PAUSE_IMAGE = "localhost/pause:1"
# The base, under the name that the examples give their training image.
TRAINING_IMAGE = "docker.io/library/python:3.12-slim"
_PAUSE_SOURCE = Path(__file__).parent.parent / "node" / "pause.go"


def find_cache() -> Path:
    """Tell the folder outside the tree that keeps what was built."""
    return Path.home() / ".cache" / "frameworkbarrier" / "node"


def prepare_images() -> dict[str, Path]:
    """Build all images; give each one's name as Pods write it, and its archive.

    Raises:
        MissingPrerequisiteError: no tool for images, no base, or no Go.
    """
    cache = find_cache()
    cache.mkdir(parents=True, exist_ok=True)
    try:
        tool = choose_tool(os.environ)
        archives = build_images(tool, output=cache)
    except ImageError as e:
        raise MissingPrerequisiteError(str(e)) from e
    pause = _build_pause(tool, cache)
    return {
        **{f"docker.io/{name}": path for name, path in archives.items()},
        PAUSE_IMAGE: pause,
        TRAINING_IMAGE: cache / "base.tar",
    }


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
        subprocess.run(tool.build([f"--tag={PAUSE_IMAGE}"], 0, folder), check=True)
    archive.unlink(missing_ok=True)
    subprocess.run(tool.save(PAUSE_IMAGE, archive), check=True)
    return archive

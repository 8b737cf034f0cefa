"""Builds wheel and sdist of both distributions. Called by ``make dist`` and ``tools.releasecheck``.

The wheels are built from the sdists, so that a build of a release needs only its sdist.
"""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from framework.version import VERSION

FOLDERS = {"frameworkbarrier": ".", "frameworkbarrier_local": "localcluster"}
"""The folder of each distribution's pyproject.toml, by its name in file names."""
DIST = Path("dist")


def build_distributions(root: Path, output: Path, **env: str) -> list[Path]:
    """Build all from the checkout `root` into `output`; return the files of this version, sorted.

    Raises:
        subprocess.CalledProcessError: a build failed.
    """
    for folder in FOLDERS.values():
        subprocess.run(
            [sys.executable, "-m", "build", "--no-isolation", "--outdir", output, root / folder],
            check=True,
            stdout=subprocess.DEVNULL,
            env={**os.environ, **env},
        )
    return sorted(output / name for name in list_file_names())


def list_file_names() -> Iterator[str]:
    """List the names of all files of this version."""
    for name in FOLDERS:
        yield f"{name}-{VERSION}-py3-none-any.whl"
        yield f"{name}-{VERSION}.tar.gz"


if __name__ == "__main__":
    for path in build_distributions(Path(), DIST):
        print(path)

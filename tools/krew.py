"""Builds the krew plugin ``framework``: an archive and its manifest. Called by ``make krew``.

The command line is a Python package with native parts, so the archive has only a launcher: it runs
the installed ``framework``, or explains how to install it. docs/release.md has the publication of
both.
"""

import argparse
import gzip
import hashlib
import io
import sys
import tarfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from framework.version import VERSION
from tools.distributions import DIST

OUTPUT = DIST / "krew"
NAME = "framework"
PROGRAM = "kubectl-framework"
ARCHIVE = f"{PROGRAM}-{VERSION}.tar.gz"
PLACEHOLDER_URL = "https://HOST/REPOSITORY/releases"
_LAUNCHER = b"""\
#!/bin/sh
# Installed by krew as kubectl-framework.
if command -v framework >/dev/null 2>&1; then
    exec framework "$@"
fi
echo "error: PATH: the command framework is not on it; install it with" >&2
echo "  pipx install frameworkbarrier" >&2
exit 2
"""
_CAVEATS = f"""\
This plugin runs the command `framework`, which is a Python package (Python 3.11 or newer). Install
version {VERSION} of it with `pipx install frameworkbarrier`.
"""


def build_archive(license_text: bytes) -> bytes:
    """Build the archive; equal inputs give equal bytes."""
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for name, content, mode in (
            ("LICENSE", license_text, 0o644),
            (PROGRAM, _LAUNCHER, 0o755),
        ):
            member = tarfile.TarInfo(name)
            member.size, member.mode = len(content), mode
            archive.addfile(member, io.BytesIO(content))
    return gzip.compress(raw.getvalue(), mtime=0)


def build_manifest(archive: bytes, url: str) -> dict[str, Any]:
    """Build the manifest of an archive.

    Args:
        archive: the file that users download.
        url: URL of its folder.
    """
    platform = {
        "selector": {"matchExpressions": [{"key": "os", "operator": "In", "values": ["linux"]}]},
        "uri": f"{url.rstrip('/')}/{ARCHIVE}",
        "sha256": hashlib.sha256(archive).hexdigest(),
        "bin": PROGRAM,
    }
    return {
        "apiVersion": "krew.googlecontainertools.github.com/v1alpha2",
        "kind": "Plugin",
        "metadata": {"name": NAME},
        "spec": {
            "version": f"v{VERSION}",
            "homepage": url,
            "shortDescription": "Run gangs of training Pods and see what they wait for",
            "description": (
                "Applies Frameworks, follows their Tasks to the end, prints logs, states and "
                "causes of failures, scales and stops them, and runs them on one machine.\n"
            ),
            "caveats": _CAVEATS,
            "platforms": [platform],
        },
    }


def main(arguments: Sequence[str]) -> int:
    """Write both files; return the exit code."""
    parser = argparse.ArgumentParser(prog="make krew", description=__doc__)
    parser.add_argument("--url", default=PLACEHOLDER_URL, help="folder of the published archive")
    options = parser.parse_args(arguments)
    archive = build_archive(Path("LICENSE").read_bytes())
    OUTPUT.mkdir(parents=True, exist_ok=True)
    (OUTPUT / ARCHIVE).write_bytes(archive)
    manifest = OUTPUT / f"{NAME}.yaml"
    manifest.write_text(yaml.safe_dump(build_manifest(archive, options.url), sort_keys=False))
    print(f"{OUTPUT / ARCHIVE}\n{manifest}")
    if options.url == PLACEHOLDER_URL:
        print("note: the manifest has a placeholder as URL: give ARGS='--url URL'")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

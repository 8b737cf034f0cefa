"""The base of the three images; images/base has its name with tag and digest.

Called by ``tools.images`` and ``tools.manifests`` (which writes the same name into the
Dockerfiles), and by ``make base-digest``, which asks the registry for the digest that a tag has now
and writes both into images/base. A build is reproducible, and a signature is meaningful, only if
the base always has the same bytes: the owner of a tag can move it, but not a digest.
"""

import argparse
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).parent.parent
BASE_FILE = ROOT / "images" / "base"
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
# Program -> words before the image's name; each command prints the digest of the image's index.
_QUERIES = {
    "crane": ("crane", "digest"),
    "skopeo": ("skopeo", "inspect", "--format={{.Digest}}"),
    "docker": ("docker", "buildx", "imagetools", "inspect", "--format={{.Manifest.Digest}}"),
}


class BaseError(Exception):
    """The base cannot be used or found; the message has the remedy."""


def read_base() -> str:
    """Read the name of the base, with tag and digest."""
    return BASE_FILE.read_text(encoding="utf-8").strip()


def is_pinned(image: str) -> bool:
    """Return whether an image is named by digest, or was built on this machine."""
    _, _, digest = image.partition("@")
    return bool(_DIGEST.fullmatch(digest)) or image.startswith("localhost/")


def strip_digest(image: str) -> str:
    """Return ``python:3.13`` of ``python:3.13@sha256:...``."""
    return image.partition("@")[0]


def fetch_digest(tag: str) -> str:
    """Ask the registry for the digest that a tag has now.

    Raises:
        BaseError: no program here can ask, or the registry does not know the tag.
    """
    program = next((name for name in _QUERIES if shutil.which(name)), None)
    if program is None:
        raise BaseError(f"install one of {', '.join(_QUERIES)} to ask a registry")
    image = f"docker://{tag}" if program == "skopeo" else tag
    command = [*_QUERIES[program], image]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    digest = done.stdout.strip()
    if done.returncode != 0 or not _DIGEST.fullmatch(digest):
        raise BaseError(f"{' '.join(command)} failed: {(done.stderr or done.stdout).strip()}")
    return digest


def main(arguments: Sequence[str]) -> int:
    """Write images/base again; return the exit code."""
    parser = argparse.ArgumentParser(prog="make base-digest", description=__doc__)
    parser.add_argument("tag", nargs="?", help="another base: its full name with a tag")
    tag = parser.parse_args(arguments).tag or strip_digest(read_base())
    try:
        BASE_FILE.write_text(f"{strip_digest(tag)}@{fetch_digest(tag)}\n", encoding="utf-8")
    except BaseError as e:
        print(f"make base-digest: {e}", file=sys.stderr)
        return 1
    print(read_base())
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

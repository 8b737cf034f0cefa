"""Renders the origin of an image: a SLSA provenance predicate, version 1.

Called by ``tools.sign``, which attests it to the image. It names the source by commit, the base by
digest and each wheel by hash. These values are in the image itself: in labels that the Dockerfile
writes, and in ``opt/frameworkbarrier/wheels.sha256``, which images/stage.py writes from pip's
report. Equal images give equal text, because it has no time. https://slsa.dev/spec/v1.0/provenance
"""

import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from packageurl import PackageURL

from framework.api.images import IMAGE_PREFIX
from tools.imagearchive import ImageArchive

# The meaning of the parameters below: docs/release.md.
BUILD_TYPE = "urn:frameworkbarrier:build:image:v1"
WHEEL_LIST = "opt/frameworkbarrier/wheels.sha256"
_LABEL = "org.opencontainers.image."
_COMMIT = re.compile(r"[0-9a-f]{40}")


class ProvenanceError(Exception):
    """An image does not have its origin; the message has the remedy."""


@dataclass(frozen=True)
class Build:
    """An image, and the inputs of its build."""

    name: str
    """``barrier``, ``controller`` or ``rendezvous``."""
    image: ImageArchive
    """The archive of the image."""
    base: ImageArchive
    """The archive of its base."""
    sbom: Path
    """Its bill of materials."""
    lock_file: Path
    """The requirements, which must list each wheel."""
    source_uri: str
    """Address of the published source, for example ``git+https://...``; "" if unknown."""
    builder_id: str
    """URI of the builder."""


def build_predicate(build: Build) -> dict[str, Any]:
    """Describe a build as SLSA's predicate.

    Raises:
        ProvenanceError: the image lacks a label, or contains a wheel that is not locked.
    """
    labels = build.image.read_config()["config"].get("Labels") or {}
    return {
        "buildDefinition": {
            "buildType": BUILD_TYPE,
            "externalParameters": {
                "image": IMAGE_PREFIX + build.name,
                "version": labels.get(f"{_LABEL}version", ""),
                "base": labels.get(f"{_LABEL}base.name", ""),
            },
            "resolvedDependencies": [
                _describe_source(build, labels),
                _describe_base(build, labels),
                *_describe_wheels(build),
            ],
        },
        "runDetails": {
            "builder": {"id": build.builder_id},
            "byproducts": [
                {"name": build.sbom.name, "digest": {"sha256": hash_file(build.sbom)}},
            ],
        },
    }


def hash_file(path: Path) -> str:
    """Return the SHA-256 of a file, in hexadecimal digits."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _describe_source(build: Build, labels: dict[str, str]) -> dict[str, Any]:
    commit = labels.get(f"{_LABEL}revision", "")
    if not _COMMIT.fullmatch(commit):
        raise ProvenanceError(
            f"image {build.name}: its label revision is {commit!r}, not a commit: "
            "build it with `make images` in a git checkout"
        )
    uri = {"uri": build.source_uri} if build.source_uri else {}
    return {"name": "source", **uri, "digest": {"gitCommit": commit}}


def _describe_base(build: Build, labels: dict[str, str]) -> dict[str, Any]:
    base = labels.get(f"{_LABEL}base.name", "")
    if not base:
        raise ProvenanceError(f"image {build.name}: no label base.name: build with `make images`")
    name, _, digest = base.partition("@sha256:")
    # A base of this machine has no digest in a registry; the digest of its config replaces it.
    sha256 = digest or build.base.read_id()
    return {"name": "base", "uri": f"docker://{name}", "digest": {"sha256": sha256}}


def _describe_wheels(build: Build) -> Iterator[dict[str, Any]]:
    listed = build.image.read_files(lambda path: path == WHEEL_LIST)
    if WHEEL_LIST not in listed:
        raise ProvenanceError(f"image {build.name}: no {WHEEL_LIST}: build it with `make images`")
    locked = build.lock_file.read_text(encoding="utf-8")
    for line in listed[WHEEL_LIST].decode().splitlines():
        digest, _, file_name = line.partition("  ")
        if f"--hash=sha256:{digest}" not in locked:
            raise ProvenanceError(f"image {build.name}: {file_name} is not in {build.lock_file}")
        name, version = file_name.split("-")[:2]
        purl = PackageURL("pypi", None, name.lower().replace("_", "-"), version)
        yield {"name": file_name, "uri": purl.to_string(), "digest": {"sha256": digest}}

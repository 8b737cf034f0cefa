"""Reads a docker archive, the form of ``docker save`` and ``buildah push docker-archive:``.

Called by ``tools.images`` and tests/images. No file is unpacked onto the disk. Layers only add
files, because no Dockerfile of this project removes one.
"""

import gzip
import hashlib
import json
import os
import tarfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

_GZIP_MAGIC = b"\x1f\x8b"


class ImageArchive:
    """One image in one file."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def read_config(self) -> dict[str, Any]:
        """Read the image's config: user, entry point, labels."""
        with tarfile.open(self._path) as archive:
            config: dict[str, Any] = json.load(_open(archive, _read_manifest(archive)["Config"]))
            return config

    def read_id(self) -> str:
        """Return the SHA-256 of the image's config, by which tools name a local image."""
        with tarfile.open(self._path) as archive:
            stream = _open(archive, _read_manifest(archive)["Config"])
            return hashlib.sha256(stream.read()).hexdigest()

    def read_names(self) -> list[str]:
        """Read the names, with tags, under which the image was saved."""
        with tarfile.open(self._path) as archive:
            names: list[str] = _read_manifest(archive)["RepoTags"] or []
            return names

    def read_size(self) -> int:
        """Add up the layers, uncompressed, in bytes."""
        with tarfile.open(self._path) as archive:
            return sum(_measure(archive, name) for name in _read_manifest(archive)["Layers"])

    def read_files(self, is_wanted: Callable[[str], bool]) -> dict[str, bytes]:
        """Read the files whose path, without the leading slash, is wanted."""
        found: dict[str, bytes] = {}
        for layer in self._iterate_layers():
            for member in layer:
                name = member.name.removeprefix("./")
                if member.isfile() and is_wanted(name):
                    found[name] = _open(layer, member).read()
        return found

    def list_sizes(self) -> dict[str, int]:
        """List every regular file with its size in bytes."""
        return {
            member.name.removeprefix("./"): member.size
            for layer in self._iterate_layers()
            for member in layer
            if member.isfile()
        }

    def _iterate_layers(self) -> Iterator[tarfile.TarFile]:
        with tarfile.open(self._path) as archive:
            for name in _read_manifest(archive)["Layers"]:
                with _open_layer(archive, name) as layer:
                    yield layer


@contextmanager
def _open_layer(archive: tarfile.TarFile, name: str) -> Iterator[tarfile.TarFile]:
    with tarfile.open(fileobj=_open(archive, name)) as layer:
        yield layer


def _read_manifest(archive: tarfile.TarFile) -> dict[str, Any]:
    manifest: dict[str, Any] = json.load(_open(archive, "manifest.json"))[0]
    return manifest


def _measure(archive: tarfile.TarFile, name: str) -> int:
    """Return a layer's size; docker with containerd's image store stores layers compressed."""
    stream = _open(archive, name)
    is_compressed = stream.read(2) == _GZIP_MAGIC
    stream.seek(0)
    if is_compressed:
        with gzip.open(stream) as layer:
            return layer.seek(0, os.SEEK_END)
    return stream.seek(0, os.SEEK_END)


def _open(archive: tarfile.TarFile, member: str | tarfile.TarInfo) -> IO[bytes]:
    stream = archive.extractfile(member)
    if stream is None:
        raise ValueError(f"{member} is not a file")
    return stream

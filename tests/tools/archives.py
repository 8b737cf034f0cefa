"""Writes docker archives for the tests of the tools, as ``docker save`` does."""

import io
import json
import tarfile
from collections.abc import Mapping, Sequence
from pathlib import Path

DPKG_STATUS = (
    b"Package: base-files\nStatus: install ok installed\nVersion: 12.4+deb12u5\n\n"
    b"Package: libc6\nVersion: 2.36-9\n\n"
)


def build_metadata(name: str, version: str) -> bytes:
    return f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n\nText.\n".encode()


def write_archive(
    path: Path, layers: Sequence[Mapping[str, bytes]], labels: Mapping[str, str] | None = None
) -> Path:
    """Write an image of these layers: path -> content."""
    names = [f"{index}/layer.tar" for index in range(len(layers))]
    manifest = [{"Config": "config.json", "RepoTags": ["team/app:1"], "Layers": names}]
    settings = {"User": "65532:65532", **({"Labels": labels} if labels else {})}
    config = {"config": settings, "rootfs": {"diff_ids": names}}
    files = {
        "manifest.json": json.dumps(manifest).encode(),
        "config.json": json.dumps(config).encode(),
        **{name: build_tar(layer) for name, layer in zip(names, layers, strict=True)},
    }
    path.write_bytes(build_tar(files))
    return path


def build_tar(files: Mapping[str, bytes]) -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as archive:
        folder = tarfile.TarInfo("folder")
        folder.type = tarfile.DIRTYPE
        archive.addfile(folder)
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return stream.getvalue()

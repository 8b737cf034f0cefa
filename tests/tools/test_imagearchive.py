"""A docker archive is read without being unpacked."""

import gzip
import json
from pathlib import Path

import pytest

from tests.tools.archives import build_tar, write_archive
from tools.imagearchive import ImageArchive

BASE = {"./etc/name": b"base", "usr/bin/python3.11": b"12345"}


@pytest.fixture
def archive(tmp_path: Path) -> ImageArchive:
    return ImageArchive(write_archive(tmp_path / "image.tar", [BASE, {"opt/app.py": b"print()"}]))


def test_read_config_and_names_are_those_of_the_image(archive: ImageArchive) -> None:
    assert archive.read_config()["config"] == {"User": "65532:65532"}
    assert archive.read_names() == ["team/app:1"]


def test_read_size_is_the_sum_of_the_layers_uncompressed(archive: ImageArchive) -> None:
    assert archive.read_size() == len(build_tar(BASE)) + len(build_tar({"opt/app.py": b"print()"}))


def test_read_size_of_compressed_layers_is_what_they_unpack_to(tmp_path: Path) -> None:
    layer = build_tar(BASE)
    manifest = [{"Config": "config.json", "RepoTags": None, "Layers": ["blobs/layer"]}]
    files = {"manifest.json": json.dumps(manifest).encode(), "blobs/layer": gzip.compress(layer)}
    path = tmp_path / "image.tar"
    path.write_bytes(build_tar(files))
    assert ImageArchive(path).read_size() == len(layer)


def test_list_sizes_has_the_files_of_all_layers_and_no_folders(archive: ImageArchive) -> None:
    assert archive.list_sizes() == {"etc/name": 4, "usr/bin/python3.11": 5, "opt/app.py": 7}


def test_read_files_gives_those_wanted_from_the_last_layer_that_has_them(tmp_path: Path) -> None:
    path = write_archive(tmp_path / "image.tar", [BASE, {"etc/name": b"app"}])
    found = ImageArchive(path).read_files(lambda name: name.startswith("etc/"))
    assert found == {"etc/name": b"app"}

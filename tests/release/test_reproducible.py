"""Two builds of one commit are equal: wheels, sdists, and an image."""

import os
from pathlib import Path

import pytest

from tests.support.machine.releasetools import IMAGES_ENV
from tools import releasecheck
from tools.imagearchive import ImageArchive
from tools.images import build_images, choose_tool

pytestmark = pytest.mark.release


def test_distributions_built_twice_are_equal_and_the_programs_start(tmp_path: Path) -> None:
    assert list(releasecheck._check_distributions(tmp_path)) == []


def test_image_built_twice_without_a_cache_is_equal(tmp_path: Path) -> None:
    if IMAGES_ENV not in os.environ:
        pytest.skip("no tool for images: run these tests with `make test-release`")
    tool = choose_tool(os.environ)
    digests = []
    for name in ("first", "second"):
        folder = tmp_path / name
        (archive,) = build_images(tool, output=folder, names=["barrier"], is_fresh=True).values()
        digests.append(ImageArchive(archive).read_id())
        (folder / "base.tar").unlink()
    assert digests[0] == digests[1]

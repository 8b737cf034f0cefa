"""A subPath stays inside its volume, whatever a container planted there."""

from pathlib import Path

import pytest

from localcluster.kubelet.fields import FieldError
from localcluster.kubelet.volumes.pod_directory import PodDirectory
from localcluster.kubelet.volumes.volumes import DirectoryVolume, MountPlan


def test_sub_path_through_a_planted_link_is_refused_and_makes_nothing(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    directory = PodDirectory(tmp_path, "uid")
    directory.make({})
    (directory.volumes / "v").mkdir()
    (directory.volumes / "v" / "link").symlink_to(outside)
    plan = MountPlan("v", "link/new", "/x", read_only=False)
    with pytest.raises(FieldError, match="out of the volume"):
        directory.locate_mount(plan, {"v": DirectoryVolume(())})
    assert list(outside.iterdir()) == []

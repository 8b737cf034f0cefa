from pathlib import Path

import pytest

from framework.version import VERSION
from tools.distributions import list_file_names
from tools.sign import copy_packages

OWN = tuple(list_file_names())
STALE = (
    "frameworkbarrier-0.0.9-py3-none-any.whl",
    "frameworkbarrier-0.0.9.tar.gz",
    f"frameworkbarrier-{VERSION}.post1-py3-none-any.whl",
    f"frameworkbarrier-{VERSION}.post1.tar.gz",
    "frameworkbarrier_local-0.0.9.tar.gz",
    f"other-{VERSION}-py3-none-any.whl",
)


def test_only_wheels_and_sdists_of_this_version_are_taken(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    dist, release = tmp_path / "dist", tmp_path / "release"
    dist.mkdir()
    release.mkdir()
    for name in (*OWN, *STALE):
        (dist / name).write_bytes(b"")
    copy_packages(dist, release)
    assert {path.name for path in release.iterdir()} == set(OWN)
    left_out = capsys.readouterr().out.splitlines()
    assert [line.partition(" ")[0] for line in left_out] == [
        str(dist / name) for name in sorted(STALE)
    ]
    assert all(f"not of version {VERSION}" in line for line in left_out)

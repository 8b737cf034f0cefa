"""The changelog has a section for the version that is to be released."""

from pathlib import Path

import pytest

from framework.version import VERSION
from tools.images import Tool
from tools.releasecheck import check_changelog

UNRELEASED = "# Changelog\n\n## [Unreleased]\n\n### Added\n\n- a thing\n"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (UNRELEASED, []),
        ("# Changelog\n", ["no section [Unreleased]"]),
        ("# Changelog\n\n## [Unreleased]\n\n### Added\n", [f"no section [{VERSION}]"]),
        # Entries of an older version do not count.
        (
            "## [Unreleased]\n\n## [0.0.1] - 2020-01-01\n\n- old\n",
            [f"nothing under [Unreleased], and no section [{VERSION}]"],
        ),
        (f"## [Unreleased]\n\n## [{VERSION}] - 2030-01-31\n\n- a thing\n", []),
        (f"## [Unreleased]\n\n## [{VERSION}]\n\n- a thing\n", [f"[{VERSION}] has no date"]),
        # A digit for a dot of the version is another version.
        (f"## [Unreleased]\n\n## [{VERSION}0]\n\n- a thing\n", [f"no section [{VERSION}]"]),
    ],
)
def test_check_changelog_finds_what_is_missing(text: str, expected: list[str]) -> None:
    problems = list(check_changelog(text))
    assert len(problems) == len(expected)
    assert all(part in problem for part, problem in zip(expected, problems, strict=True))


@pytest.mark.parametrize("name", ["docker", "podman", "buildah"])
def test_build_of_a_release_takes_nothing_of_an_earlier_one(name: str) -> None:
    # Else the second of two builds is the first one again, and always equal to it.
    assert "--no-cache" in Tool(name).build(["--tag=app"], 0, Path(), is_fresh=True)
    assert "--no-cache" not in Tool(name).build(["--tag=app"], 0, Path())

import sys

import pytest

from localcluster.kubelet.container.images import build_argv, find_entrypoint

BARRIER = [sys.executable, "-P", "-m", "barrier"]


@pytest.mark.parametrize(
    ("image", "module"),
    [
        ("frameworkcontroller/frameworkbarrier", "barrier"),
        ("frameworkbarrier:v1", "barrier"),
        ("registry.example:5000/team/framework-barrier@sha256:abc", "barrier"),
        ("framework-rendezvous", "rendezvous"),
        ("frameworkcontroller/frameworkcontroller:latest", "controller"),
    ],
)
def test_find_entrypoint_image_of_ours_runs_this_installation(image: str, module: str) -> None:
    entrypoint = find_entrypoint(image)
    assert entrypoint is not None
    assert entrypoint[0] == sys.executable
    assert entrypoint[-1] == module


@pytest.mark.parametrize(
    "image", ["python:3.11", "frameworkbarrier/other", "my-frameworkbarrier", ""]
)
def test_find_entrypoint_other_image_has_none(image: str) -> None:
    assert find_entrypoint(image) is None


@pytest.mark.parametrize(
    ("image", "command", "args", "expected"),
    [
        ("frameworkbarrier", ["sh"], ["-c"], ["sh", "-c"]),
        ("python:3", ["sh"], [], ["sh"]),
        ("frameworkbarrier", [], ["--help"], [*BARRIER, "--help"]),
        ("python:3", [], ["x"], None),
    ],
)
def test_build_argv_follows_the_rules_of_the_api(
    image: str, command: list[str], args: list[str], expected: list[str] | None
) -> None:
    assert build_argv(image, command, args) == expected

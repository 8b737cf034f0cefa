import sys

import pytest

from localcluster.kubelet.container.images import build_argv, explain_unknown_image, find_entrypoint


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


def test_build_argv_command_replaces_the_entry_point() -> None:
    assert build_argv("frameworkbarrier", ["sh"], ["-c"]) == ["sh", "-c"]


def test_build_argv_args_follow_the_entry_point() -> None:
    argv = build_argv("frameworkbarrier", [], ["--help"])

    assert argv is not None
    assert argv[-2:] == ["barrier", "--help"]


def test_build_argv_unknown_image_without_command_is_nothing_to_run() -> None:
    assert build_argv("python:3", [], ["x"]) is None
    assert "give the container a `command`" in explain_unknown_image("python:3")

import pytest

from framework.api import images


@pytest.mark.parametrize(
    ("image", "expected"),
    [
        ("framework-barrier", images.BARRIER),
        ("frameworkcontroller/frameworkbarrier", images.BARRIER),
        ("registry.example:5000/team/framework-barrier@sha256:abc", images.BARRIER),
        ("registry.example:5000/framework-rendezvous:v1@sha256:abc", images.RENDEZVOUS),
        ("framework-controller:1", images.CONTROLLER),
        ("frameworkcontroller/frameworkcontroller:latest", images.CONTROLLER),
        ("framework-barrier/other", None),
        ("my-framework-barrier", None),
        ("rendezvous", None),
        ("", None),
    ],
)
def test_find_program_reads_only_the_name_of_the_image(image: str, expected: str | None) -> None:
    assert images.find_program(image) == expected


@pytest.mark.parametrize(
    ("image", "expected"),
    [
        ("framework-barrier", True),
        ("registry.example:5000/team/framework-rendezvous", True),
        ("framework-barrier:1", False),
        ("framework-barrier@sha256:abc", False),
        # Published as `latest`.
        ("frameworkcontroller/frameworkbarrier", False),
        ("registry.example:5000/python", False),
    ],
)
def test_is_unversioned_only_for_our_images(image: str, *, expected: bool) -> None:
    assert images.is_unversioned(image) is expected


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["python3", "/mnt/frameworkbarrier/agent/rendezvous.pyz", "run"], True),
        (["sh", "-c", "exec python3 /v/agent/rendezvous.pyz run -- train"], True),
        (["python3", "rendezvous.pyz"], False),
        (["python3", "/v/myagent/rendezvous.pyz"], False),
        ([], False),
    ],
)
def test_starts_installed_agent_also_from_a_script(words: list[str], *, expected: bool) -> None:
    assert images.starts_installed_agent(words) is expected

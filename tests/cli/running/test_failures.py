import pytest

from cli.running.failures import find_failed_container
from framework.kube.resources import Object


def ended(name: str, code: int, at: str) -> Object:
    return {"name": name, "state": {"terminated": {"exitCode": code, "finishedAt": at}}}


@pytest.mark.parametrize(
    ("init", "main", "name"),
    [
        ([], [ended("a", 0, "1"), ended("b", 1, "2"), ended("c", 1, "3")], "c"),
        ([ended("init", 201, "1")], [{"name": "a", "state": {"waiting": {}}}], "init"),
        ([], [ended("a", 0, "1")], None),
        ([], [], None),
    ],
    ids=["last", "init", "succeeded", "none"],
)
def test_find_failed_container_returns_the_last_that_failed(
    init: list[Object], main: list[Object], name: str | None
) -> None:
    pod = {"status": {"initContainerStatuses": init, "containerStatuses": main}}
    assert find_failed_container(pod) == name

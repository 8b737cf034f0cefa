"""Which container of a Pod template runs the program of a Task."""

from typing import Any

import pytest

from framework.api.podtemplates import find_runner

MAIN = {"name": "main", "command": ["train"]}
AGENT = {"name": "agent", "command": ["python3", "/v/agent/rendezvous.pyz", "run", "--", "train"]}


@pytest.mark.parametrize(
    ("containers", "name"),
    [
        ([MAIN], "main"),
        ([MAIN, AGENT], "agent"),
        ([MAIN, {"name": "side"}], None),
        ([AGENT, {**AGENT, "name": "second"}], None),
        ([MAIN, {"name": "watch", "image": "r/framework-rendezvous:1", "args": ["watch"]}], None),
        ([{"name": "run", "image": "r/framework-rendezvous:1", "args": ["run"]}, MAIN], "run"),
        ([{"name": "a", "command": "rendezvous run", "args": {"run": 1}}, MAIN], None),
        ([{"name": "a", "command": [None, 1]}], "a"),
        ([[], "x", None], None),
        ({}, None),
    ],
)
def test_container_that_runs_the_program_is_found(containers: Any, name: str | None) -> None:
    assert find_runner({"spec": {"containers": containers}}) == name


@pytest.mark.parametrize("template", [None, {}, {"spec": None}, {"spec": []}, {"spec": {}}])
def test_template_without_containers_has_none(template: Any) -> None:
    assert find_runner(template) is None

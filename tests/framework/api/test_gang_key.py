from typing import Any

import pytest

from framework.api.gang_key import refers_to_gang_key
from framework.api.naming import build_gang_key_name

NAME = "gang-gang-key"
PLACEHOLDER = "{{FC_FRAMEWORK_NAME}}-gang-key"


def in_container(**fields: Any) -> dict[str, Any]:
    return {"containers": [{"name": "main", **fields}]}


@pytest.mark.parametrize("name", [NAME, PLACEHOLDER])
def test_reference_counts_wherever_a_pod_may_name_a_secret(name: str) -> None:
    variable = {"name": "KEY", "valueFrom": {"secretKeyRef": {"name": name, "key": "gang-key"}}}
    for spec in (
        {"volumes": [{"name": "other"}, {"name": "key", "secret": {"secretName": name}}]},
        {"volumes": [{"name": "key", "projected": {"sources": [{"secret": {"name": name}}]}}]},
        in_container(env=[{"name": "A", "value": "1"}, variable]),
        in_container(envFrom=[{"secretRef": {"name": name}}]),
        {"initContainers": [{"name": "first", "env": [variable]}]},
    ):
        assert refers_to_gang_key({"spec": spec}, "gang"), spec


@pytest.mark.parametrize(
    "template",
    [
        {},
        {"spec": None},
        {"spec": {"volumes": None, "containers": "x", "initContainers": [1, None]}},
        {"spec": {"volumes": [{"secret": {"secretName": "other-gang-key"}}]}},
        {"spec": {"volumes": [{"secret": "x"}, {"projected": {"sources": [1]}}]}},
        {"spec": {"volumes": [{"configMap": {"name": NAME}}]}},
        {"metadata": {"annotations": {"secretName": NAME}}},
        {"spec": in_container(args=[NAME], env=[{"name": "A", "value": NAME}])},
    ],
)
def test_other_templates_do_not_refer_to_it(template: dict[str, Any]) -> None:
    assert not refers_to_gang_key(template, "gang")


def test_name_is_that_of_the_framework() -> None:
    assert build_gang_key_name("gang") == NAME

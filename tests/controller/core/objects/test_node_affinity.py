"""A Pod runs on no node that its Task avoids, and else where its template runs."""

import copy
from dataclasses import replace
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.core.objects.node_affinity import avoid_nodes
from controller.core.objects.object_templates import PodTooLargeError, build_pod
from controller.store.packed_templates import pack_templates
from framework.api.naming import TaskKey
from framework.api.types import Framework, TaskSpec
from tests.support.builders import (
    build_framework,
    build_role,
    build_role_status,
    build_spec,
    build_status,
    build_template_wire,
)

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
GPU = {"key": "gpu", "operator": "Exists"}
NODES = ("n1", "n2")
AVOIDED = [
    {"key": "metadata.name", "operator": "NotIn", "values": ["n1"]},
    {"key": "metadata.name", "operator": "NotIn", "values": ["n2"]},
]


def require(*terms: Any) -> dict[str, Any]:
    return {"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": list(terms)}}}}


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({}, require({"matchFields": AVOIDED})),
        ({"affinity": None}, require({"matchFields": AVOIDED})),
        ({"affinity": {"nodeAffinity": None}}, require({"matchFields": AVOIDED})),
        ({"affinity": {"nodeAffinity": {REQUIRED: None}}}, require({"matchFields": AVOIDED})),
        (
            require({"matchExpressions": [GPU]}),
            require({"matchExpressions": [GPU], "matchFields": AVOIDED}),
        ),
        (
            require({"matchFields": [GPU]}, {"matchExpressions": [GPU], "matchFields": None}),
            require(
                {"matchFields": [GPU, *AVOIDED]},
                {"matchExpressions": [GPU], "matchFields": AVOIDED},
            ),
        ),
        (
            require({}, {"matchExpressions": [GPU]}),
            require({}, {"matchExpressions": [GPU], "matchFields": AVOIDED}),
        ),
    ],
    ids=["none", "null", "no-node", "no-required", "term", "terms", "term-that-matches-nothing"],
)
def test_each_term_excludes_the_nodes(spec: Any, expected: Any) -> None:
    before = copy.deepcopy(spec)
    assert avoid_nodes(spec, NODES) == expected
    assert spec == before


def test_other_affinities_stay() -> None:
    affinity: dict[str, Any] = {
        "podAntiAffinity": {"a": 1},
        "nodeAffinity": {PREFERRED: [{"weight": 1, "preference": {"matchExpressions": [GPU]}}]},
    }
    found = avoid_nodes({"affinity": affinity, "hostname": "h"}, NODES)
    assert found["hostname"] == "h"
    assert found["affinity"]["podAntiAffinity"] == {"a": 1}
    assert found["affinity"]["nodeAffinity"][PREFERRED] == affinity["nodeAffinity"][PREFERRED]
    assert REQUIRED in found["affinity"]["nodeAffinity"]


@pytest.mark.parametrize(
    "spec",
    [
        {"nodeName": "n1"},
        {"affinity": "bad"},
        {"affinity": {"nodeAffinity": [1]}},
        {"affinity": {"nodeAffinity": {REQUIRED: 7}}},
        {"affinity": {"nodeAffinity": {REQUIRED: {}}}},
        {"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": "bad"}}}},
        require(),
        require(None, "bad", {"matchFields": "bad"}),
    ],
)
def test_spec_with_a_fixed_node_or_a_bad_affinity_stays(spec: Any) -> None:
    assert avoid_nodes(spec, NODES) == spec


_values: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.integers() | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(st.text(max_size=3), inner, max_size=2)
        | st.dictionaries(
            st.sampled_from(["affinity", "nodeAffinity", REQUIRED, "nodeSelectorTerms"]),
            inner,
            max_size=2,
        )
    ),
)


@given(st.dictionaries(st.sampled_from(["affinity", "nodeName", "x"]), _values))
def test_any_spec_is_accepted_and_stays_without_nodes(spec: Any) -> None:
    before = copy.deepcopy(spec)
    assert avoid_nodes(spec, ()) is spec
    avoid_nodes(spec, NODES)
    assert spec == before


def build_gang(template: dict[str, Any], *nodes: str) -> Framework:
    """Build a gang of two, of which Task 1 avoids these nodes."""
    role = build_role(number=2, task=TaskSpec(pod=template))
    status = build_role_status(number=2)
    tasks = list(status.tasks)
    attempt = replace(tasks[1].attempt_status, avoided_nodes=nodes)
    tasks[1] = replace(tasks[1], attempt_status=attempt)
    return build_framework(build_spec(role), build_status(replace(status, tasks=tuple(tasks))))


def build_placed_pod(template: dict[str, Any], index: int, *nodes: str) -> dict[str, Any]:
    """Build a Pod as the controller does, which keeps templates packed."""
    framework = build_gang(template, *nodes)
    framework = replace(framework, spec=pack_templates(framework.spec))
    pod = build_pod(framework, TaskKey("worker", index))
    decoded: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(pod))
    return decoded


def test_pod_of_a_packed_template_excludes_the_nodes_of_its_attempt() -> None:
    template = build_template_wire(**require({"matchExpressions": [GPU]}))
    expected = require({"matchExpressions": [GPU], "matchFields": AVOIDED})
    assert build_placed_pod(template, 1, *NODES)["spec"]["affinity"] == expected["affinity"]
    other = build_placed_pod(template, 0, *NODES)
    assert other["spec"]["affinity"] == template["spec"]["affinity"]


@pytest.mark.parametrize("fields", [{"affinity": {}}, {"affinity": None}, {"nodeName": ""}])
def test_empty_fields_of_a_packed_template_prevent_nothing(fields: dict[str, Any]) -> None:
    spec = build_placed_pod(build_template_wire(**fields), 1, *NODES)["spec"]
    expected = require({"matchFields": AVOIDED})
    assert spec["affinity"]["nodeAffinity"] == expected["affinity"]["nodeAffinity"]


def test_pod_with_very_many_terms_is_refused() -> None:
    template = build_template_wire(**require(*[{"matchExpressions": [GPU]}] * 20_000))
    with pytest.raises(PodTooLargeError, match="node selector terms"):
        build_placed_pod(template, 1, *NODES)


def test_pod_has_its_template_and_excludes_the_nodes_of_its_attempt() -> None:
    template = build_template_wire(**require({"matchExpressions": [GPU]}))
    framework = build_gang(template, *NODES)
    pod = build_pod(framework, TaskKey("worker", 1))
    expected = require({"matchExpressions": [GPU], "matchFields": AVOIDED})
    assert pod["spec"]["affinity"] == expected["affinity"]
    other = build_pod(framework, TaskKey("worker", 0))
    assert other["spec"]["affinity"] == template["spec"]["affinity"]

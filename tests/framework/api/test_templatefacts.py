"""The facts of a Pod template are those that its parts give, read by themselves."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from framework.api import constants
from framework.api.gang_key import refers_to_gang_key
from framework.api.nodes import Taint, Toleration
from framework.api.recovery import InPlaceSpec
from framework.api.retryable_codes import RetryableCodes
from framework.api.templatefacts import (
    MAX_GANG_KEYS,
    MAX_REFERENCES,
    MAX_TOLERATIONS,
    NO_FACTS,
    find_facts,
    read_facts,
)
from tests.support.builders.strategies import json_values


def refer(*names: str) -> dict[str, Any]:
    return {"spec": {"volumes": [{"secret": {"secretName": name}} for name in names]}}


def test_facts_of_a_template() -> None:
    annotations = {
        constants.RETRYABLE_CODES_ANNOTATION: "main=128-255",
        constants.IN_PLACE_ANNOTATION: "maxRestarts=3,withinSeconds=60",
    }
    spec = {
        "containers": [{"name": "main"}],
        "initContainers": [{"name": "first"}],
        "tolerations": [{"key": "spot", "operator": "Exists"}, {"key": "a", "value": "b"}],
    }
    facts = read_facts({"metadata": {"annotations": annotations}, "spec": spec})
    assert facts.retryable_codes == RetryableCodes("main", 128, 255)
    assert facts.in_place == InPlaceSpec(3, 60)
    assert facts.runner == "main"
    assert facts.has_init_containers
    assert facts.tolerations == {Toleration("spot", ""), Toleration("a", "", "b")}


def test_role_that_left_the_spec_has_no_facts() -> None:
    assert find_facts(None) is NO_FACTS


@given(
    st.dictionaries(st.sampled_from(["metadata", "spec", "x"]), json_values)
    | st.fixed_dictionaries(
        {
            "spec": st.dictionaries(
                st.sampled_from(["tolerations", "containers", "volumes", "initContainers"]),
                json_values | st.lists(st.dictionaries(st.text(max_size=9), json_values)),
            )
        }
    )
)
def test_template_of_any_form_has_facts(template: dict[str, Any]) -> None:
    assert not read_facts(template).refers_to_gang_key("other")


@pytest.mark.parametrize("name", ["gang-gang-key", "{{FC_FRAMEWORK_NAME}}-gang-key", "gang-key"])
def test_template_refers_to_the_gang_key_as_its_facts_say(name: str) -> None:
    template = refer("other-gang-key", name)
    assert read_facts(template).refers_to_gang_key("gang") is refers_to_gang_key(template, "gang")


def test_template_with_too_many_references_counts_as_referring_to_all() -> None:
    many = [f"{number}-gang-key" for number in range(MAX_GANG_KEYS + 1)]
    assert not read_facts(refer(*many[1:])).refers_to_gang_key("gang")
    assert read_facts(refer(*many)).refers_to_gang_key("gang")
    assert not read_facts(refer(*["x"] * MAX_REFERENCES)).refers_to_gang_key("gang")
    assert read_facts(refer(*["x"] * (MAX_REFERENCES + 1))).refers_to_gang_key("gang")


def test_first_tolerations_count() -> None:
    tolerations = [{"key": f"k{n}", "operator": "Exists"} for n in range(MAX_TOLERATIONS + 1)]
    facts = read_facts({"spec": {"tolerations": tolerations}})
    assert facts.tolerates(Taint(f"k{MAX_TOLERATIONS - 1}"), by_key=True)
    assert not facts.tolerates(Taint(f"k{MAX_TOLERATIONS}"), by_key=True)


def tolerates(toleration: dict[str, Any], taint: Taint, *, by_key: bool) -> bool:
    """The rule of Kubernetes, without limits of time."""
    key, effect = toleration.get("key") or "", toleration.get("effect") or ""
    is_timed = toleration.get("tolerationSeconds") is not None
    if is_timed or effect not in ("", taint.effect) or (not key and by_key):
        return False
    if toleration.get("operator") == "Exists":
        return key in ("", taint.key)
    is_equal = toleration.get("operator") in (None, "", "Equal")
    value = toleration.get("value") or ""
    return bool(is_equal and key and key == taint.key and value == taint.value)


WORDS = st.sampled_from(["", "a", "b"])


@given(
    tolerations=st.lists(
        st.fixed_dictionaries(
            {},
            optional={
                "key": WORDS | st.none(),
                "effect": WORDS,
                "value": WORDS,
                "operator": st.sampled_from(["", "Exists", "Equal", "Lt", None]),
                "tolerationSeconds": st.sampled_from([None, 0, 60]),
            },
        ),
        max_size=3,
    ),
    taint=st.builds(Taint, st.sampled_from(["a", "b"]), WORDS, WORDS),
    by_key=st.booleans(),
)
def test_taint_is_tolerated_if_one_toleration_does(
    tolerations: list[dict[str, Any]], taint: Taint, *, by_key: bool
) -> None:
    facts = read_facts({"spec": {"tolerations": tolerations}})
    expected = any(tolerates(each, taint, by_key=by_key) for each in tolerations)
    assert facts.tolerates(taint, by_key=by_key) is expected

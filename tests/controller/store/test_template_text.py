"""Placeholders are replaced in the JSON text as they would be in each string."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.core.objects.object_templates import (
    PodTooLargeError,
    _Growth,
    _replace_placeholders,
    build_pod,
)
from controller.store.packed_templates import PackedTemplate
from controller.store.template_text import (
    has_placeholder,
    open_template,
    replace_placeholders,
)
from framework.api.constants import TEMPLATE_PLACEHOLDERS
from framework.api.naming import TaskKey
from framework.api.types import TaskSpec
from tests.support.builders import (
    build_framework,
    build_role,
    build_role_status,
    build_spec,
    build_status,
    build_template_wire,
)
from tests.support.builders.strategies import json_values
from tests.support.measuring.cost import assert_grows_at_most

KEY = TaskKey("worker", 0)
PLACEHOLDERS = [f"{{{{{name}}}}}" for name in TEMPLATE_PLACEHOLDERS]
TEXTS = st.lists(
    st.sampled_from(
        [*PLACEHOLDERS, "{", "}", "{{", "}}", "FC_", "{{FC_POD_UID}}", '"', "\\", "\\u007b", "\n"]
    )
    | st.text(max_size=3),
    max_size=6,
).map("".join)
VALUES: st.SearchStrategy[Any] = st.recursive(
    TEXTS | json_values,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=8,
)
CONTAINERS = st.lists(
    st.dictionaries(
        st.sampled_from(["name", "env", "args", "terminationMessagePolicy", "image"]), VALUES
    ),
    max_size=3,
)
TEMPLATES = st.fixed_dictionaries(
    {},
    optional={
        "metadata": VALUES
        | st.dictionaries(
            st.sampled_from(["annotations", "labels", "ownerReferences", "name", "finalizers"]),
            VALUES,
        ),
        "spec": VALUES
        | st.dictionaries(
            st.sampled_from(["containers", "initContainers", "volumes"]), CONTAINERS | VALUES
        ),
        "junk": VALUES,
    },
)


def build_json(pod: Any) -> Any:
    """Build a Pod from a template, as the client sends it."""
    spec = build_spec(build_role(task=TaskSpec(pod=pod)))
    return msgspec.json.decode(
        msgspec.json.encode(build_pod(build_framework(spec, build_status()), KEY))
    )


@given(TEMPLATES)
def test_pod_of_a_packed_template_is_that_of_the_template(template: dict[str, Any]) -> None:
    assert build_json(PackedTemplate.pack(template)) == build_json(template)


@given(VALUES, st.fixed_dictionaries(dict.fromkeys(TEMPLATE_PLACEHOLDERS, TEXTS)))
def test_values_of_any_form_are_replaced_as_in_strings(value: Any, names: dict[str, str]) -> None:
    template = {"value": value}
    text = msgspec.json.encode(template)
    counted, grown = _Growth("worker"), list[int]()
    replaced = replace_placeholders(text, names, grown.append)
    assert msgspec.json.decode(replaced) == _replace_placeholders(
        template, names, counted, with_affinity=False
    )
    assert sum(grown) == counted._chars
    assert has_placeholder(text) or replaced == text


@given(st.dictionaries(st.text(max_size=3), json_values, max_size=3))
def test_opened_template_is_the_template(template: dict[str, Any]) -> None:
    text = msgspec.json.encode(template)
    assert msgspec.json.decode(msgspec.json.encode(open_template(text))) == template


def test_pod_that_grows_too_much_is_not_built() -> None:
    pod = PackedTemplate.pack(build_template_wire(args=["{{FC_POD_NAME}}" * 70_000]))
    role = build_role(name := "w" * 63, task=TaskSpec(pod=pod))
    framework = build_framework(build_spec(role), build_status(build_role_status(name, 1)))
    with pytest.raises(PodTooLargeError, match="use fewer placeholders"):
        build_pod(framework, TaskKey(name, 0))


FORMS: dict[str, dict[str, Any]] = {
    "unknown": {"junk": [[[[]]]] * 170_000},
    "spec": {"spec": {**build_template_wire()["spec"], "volumes": [[[[]]]] * 170_000}},
    "env": {"spec": {"containers": [{"name": "a", "env": [{"name": "a"}] * 100_000}]}},
    "placeholders": {"spec": {"containers": [{"args": ["{{FC_TASK_INDEX}}"] * 70_000}]}},
    "annotations": {"metadata": {"annotations": {str(n): [] for n in range(120_000)}}},
    "owners": {"metadata": {"ownerReferences": [{}] * 450_000}},
}
_REFERENCE = msgspec.json.encode(FORMS["unknown"])


@pytest.mark.parametrize("form", FORMS)
def test_build_of_a_large_pod_costs_little(form: str) -> None:
    """Python would need half a second, in which the event loop serves no other request.

    The limit is 1.5 times the cost of decoding a template of this size, which also takes memory:
    other programs slow down both alike. A walk over all values in Python costs 2.1 times or more.
    """
    pod = PackedTemplate.pack(FORMS[form])
    framework = build_framework(build_spec(build_role(task=TaskSpec(pod=pod))), build_status())
    assert_grows_at_most(
        1.5,
        lambda: msgspec.json.decode(_REFERENCE),
        lambda: msgspec.json.encode(build_pod(framework, KEY)),
    )

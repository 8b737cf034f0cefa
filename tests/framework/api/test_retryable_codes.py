"""The annotation of a Pod template with the exit codes of a container that are retried."""

from typing import Any

import pytest

from framework.api import constants
from framework.api.retryable_codes import (
    ANNOTATION_FORM,
    RetryableCodes,
    find_fault,
    find_retryable_codes,
    parse_retryable_codes,
)


def build(text: Any) -> dict[str, Any]:
    return {"metadata": {"annotations": {constants.RETRYABLE_CODES_ANNOTATION: text}}}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (ANNOTATION_FORM, RetryableCodes("tensorflow", 128, 255)),
        ("a=1-1", RetryableCodes("a", 1, 1)),
        ("my-container-2=130-143", RetryableCodes("my-container-2", 130, 143)),
        (f"{'a' * 63}=1-255", RetryableCodes("a" * 63, 1, 255)),
    ],
)
def test_annotation_is_read_and_written_in_the_same_form(
    text: str, expected: RetryableCodes
) -> None:
    assert find_retryable_codes(build(text)) == expected
    assert str(expected) == text
    assert find_fault(build(text), {expected.container}) == ("", "")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "128-255",
        "tensorflow",
        "tensorflow=128",
        "tensorflow=0-255",
        "tensorflow=128-256",
        "tensorflow=255-128",
        "tensorflow=0128-255",
        "tensorflow=128-255\n",
        " tensorflow=128-255",
        "tensorflow=128-255,130-131",
        "Tensorflow=128-255",
        "-a=1-2",
        "{{FC_TASKROLE_NAME}}=1-2",
        f"{'a' * 64}=1-255",
        "tensorflow=١٢٨-٢٥٥",
        3,
        ["tensorflow=128-255"],
    ],
)
def test_annotation_of_another_form_has_no_effect_and_is_named(text: Any) -> None:
    assert parse_retryable_codes(text) is None
    fault, remedy = find_fault(build(text), {"tensorflow"})
    assert fault == f"{text!r:.100} cannot be read"
    assert remedy == (
        "write CONTAINER=LOW-HIGH with codes from 1 to 255, for example tensorflow=128-255"
    )


def test_fault_names_at_most_a_few_containers() -> None:
    fault, remedy = find_fault(build(ANNOTATION_FORM), [f"c{number}" for number in range(100)])
    assert fault == "no container has the name tensorflow"
    assert remedy == "write the name of one: c0, c1, c10, c11, c12"
    assert find_fault(build(ANNOTATION_FORM), ()) == (fault, "write the name of one: none")


@pytest.mark.parametrize(
    "template", [None, {}, {"metadata": None}, {"metadata": []}, {"metadata": {"annotations": 3}}]
)
def test_template_without_the_annotation_has_no_codes_and_no_fault(template: Any) -> None:
    assert find_retryable_codes(template) is None
    assert find_fault(template, ()) == ("", "")

"""Templates as kubectl takes them; tests/kube/test_printing.py compares them with the real one."""

from typing import Any

import pytest

from cli.printing import jsonpath
from cli.printing.jsonpath import Path, Template
from cli.printing.jsonpath_parser import MAX_DEPTH, MAX_LENGTH, TemplateError
from tests.support.measuring.cost import assert_costs_at_most

GANG: dict[str, Any] = {
    "metadata": {"name": "gang", "labels": {"x.y/z": "1", "team": "a"}},
    "size": 2,
    "ratio": 0.5,
    "blocked": False,
    "nothing": None,
    "numbers": [1, 2, 3, 4],
    "empty": [],
}
SOLO = {"metadata": {"name": "solo"}, "size": 1, "empty": [7]}
LIST = {"kind": "List", "items": [GANG, SOLO]}


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        ("plain text", "plain text"),
        ("{.kind}: {.items[*].metadata.name}!", "List: gang solo!"),
        ('{range .items[*]}{.metadata.name}{"\\t"}{.size}{"\\n"}{end}', "gang\t2\nsolo\t1\n"),
        ("{range .items[*]}{range .numbers[*]}<{@}>{end};{end}", "<1><2><3><4>;;"),
        ("{range .none[*]}never{end}after", "after"),
        ('{.items[?(@.metadata.name=="solo")].size}', "1"),
        ("{.items[?(@.metadata.name=='solo')].size}", "1"),
        ('{.items[?(@.metadata.name!="solo")].size}', "2"),
        ("{.items[?(@.size>1)].metadata.name}", "gang"),
        ("{.items[?(@.size<=1)].metadata.name}", "solo"),
        ("{.items[?(@.blocked==false)].metadata.name}", "gang"),
        ("{.items[?(@.ratio<1)].metadata.name}", "gang"),
        ("{.items[?(@.ratio)].metadata.name}", "gang"),
        ("{.items[?(@.metadata.labels)].metadata.name}", "gang"),
        (r"{.items[0].metadata.labels.x\.y/z}", "1"),
        (r"{.items[0].metadata.labels['x\.y/z']}", "1"),
        ("{.items[0].metadata['name']}", "gang"),
        ("{.items[*]['metadata.name','size']}", "gang solo 2 1"),
        ("{.items[0].numbers[1,3]}", "2 4"),
        ("{.items[0].numbers[1:3]}", "2 3"),
        ("{.items[0].numbers[-1]}", "4"),
        ("{.items[0].numbers[-2:]}", "3 4"),
        ("{.items[0].numbers[0:4:2]}", "1 3"),
        ("{.items[*].empty[*]}", "7"),
        ("{..name}", "gang solo"),
        ("{.items[0].metadata.*}", 'gang {"team":"a","x.y/z":"1"}'),
        ("{.items[0].metadata.labels}", '{"team":"a","x.y/z":"1"}'),
        ("{$.kind}{.kind}", "ListList"),
        ("{.missing.deeper}", ""),
        ("{.kind.deeper}", ""),
        ("{.items[0].ratio} {.items[0].blocked} {.items[0].nothing}", "0.5 false <nil>"),
        ('{"\\"quoted\\" \\u00fc \\\\"}', '"quoted" ü \\'),
        ("{'it is'}", "it is"),
    ],
)
def test_template_renders(template: str, expected: str) -> None:
    assert Template(template).render(LIST) == expected


@pytest.mark.parametrize(
    ("template", "fault"),
    [
        ("{.items", "an action has no end; add }"),
        ("{.items[0}", "a bracket is not closed"),
        ("{range .items[*]}{.name}", "{range} without {end}"),
        ("{end}", "{end} without {range}"),
        ("{.items[?(@.a=~'b')]}", "does not compare"),
        ("{.items[?(@.a==b)]}", "'b' is not understood; begin a field with a dot"),
        ("{.items[?(@.a}", "a filter has no end"),
        ("{.items[x]}", "[x] is not an index"),
        ("{.items[0:2:0]}", "is below 1"),
        ("{items}", "'items' is not understood; begin a field with a dot"),
        ('{"open}', "no closing quote"),
        ('{"\\q"}', "is not an escape"),
        ("{....a}", ".. follows .."),
        ("{#}", "is not understood"),
        ("{1.2.3}", "is not a number"),
        ("x" * (MAX_LENGTH + 1), f"write at most {MAX_LENGTH}"),
        ("{range .a}" * (MAX_DEPTH + 1), "ranges are in each other"),
    ],
)
def test_template_with_a_fault_is_refused(template: str, fault: str) -> None:
    with pytest.raises(TemplateError) as caught:
        Template(template)
    assert fault in str(caught.value)


@pytest.mark.parametrize(
    ("template", "fault"),
    [
        ("{.items[5]}", "index 5 is beyond a list of 2"),
        ("{.items[-3]}", "is beyond a list of 2"),
        ("{.items[0].numbers[3:1]}", "after its end"),
        ("{.kind[0]}", "a text has no items"),
        ("{.items[0][?(@.a)]}", "an object cannot be filtered"),
        ('{.items[?(@.size=="1")]}', "compares a number with a text"),
        ("{.items[?(@.numbers[*]==1)]}", "compares more than one value"),
    ],
)
def test_template_that_does_not_fit_the_objects_is_an_error(template: str, fault: str) -> None:
    with pytest.raises(TemplateError) as caught:
        Template(template).render(LIST)
    assert fault in str(caught.value)


@pytest.mark.parametrize(
    "template",
    ["{..a..a..a..a..a..a}", "{range ..a}{range ..a}{range ..a}{@}{end}{end}{end}", "{@}" * 2000],
)
def test_costly_template_ends_with_an_error(template: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jsonpath, "MAX_COST", 50_000)
    nested: Any = ["x" * 100]
    for _ in range(90):
        nested = {"a": nested}
    with pytest.raises(TemplateError, match="reads more than 50000 values"):
        Template(template).render(nested)


@pytest.mark.parametrize(
    "text", ["{" * 8000, "{.a" + "[?(" * 2000, "{" + "..a" * 2600, "{.\\" * 2600]
)
def test_hostile_template_is_parsed_in_linear_time(text: str) -> None:
    def parse() -> None:
        with pytest.raises(TemplateError):
            Template(text)

    assert_costs_at_most(0.5, parse)


@pytest.mark.parametrize("text", [".metadata.name", "metadata.name", "{.metadata.name}"])
def test_path_may_lack_braces_and_dot(text: str) -> None:
    assert Path(text).find(GANG) == ["gang"]


@pytest.mark.parametrize("text", ["", "{.a}{.b}", "{}", "$range .a"])
def test_path_that_is_a_template_is_refused(text: str) -> None:
    with pytest.raises(TemplateError):
        Path(text)

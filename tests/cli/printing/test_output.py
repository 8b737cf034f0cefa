import json

import pytest
import yaml

from cli.exitcodes import CliError
from cli.printing.forms import Form
from cli.printing.jsonpath_parser import TemplateError
from cli.printing.output import Printer, format_name, parse_output
from framework.kube.resources import Object

FORMS = tuple(Form)


def build_object(name: str) -> Object:
    metadata = {"name": name, "managedFields": [{"manager": "x"}], "annotations": {"a": "\x1b"}}
    return {"apiVersion": "g.example/v1", "kind": "Gang", "metadata": metadata}


def render(output: str, *names: str, is_list: bool = True) -> str:
    objects = [build_object(name) for name in names]
    return Printer(parse_output(output, FORMS)).render(objects, is_list=is_list)


def test_json_and_yaml_of_a_list_are_a_list_without_managed_fields() -> None:
    expected = {
        "apiVersion": "v1",
        "kind": "List",
        "metadata": {"resourceVersion": ""},
        "items": [
            {
                "apiVersion": "g.example/v1",
                "kind": "Gang",
                "metadata": {"name": name, "annotations": {"a": "\x1b"}},
            }
            for name in ("a", "b")
        ],
    }
    assert json.loads(render("json", "a", "b")) == expected
    assert yaml.safe_load(render("yaml", "a", "b")) == expected


def test_one_object_is_itself() -> None:
    assert json.loads(render("json", "a", is_list=False))["metadata"]["name"] == "a"
    assert render("jsonpath={.metadata.name}", "a", is_list=False) == "a"


def test_names_have_kind_and_group() -> None:
    assert render("name", "a", "b") == "gang.g.example/a\ngang.g.example/b\n"
    assert format_name({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}}) == "pod/p"


def test_columns_have_their_header_once() -> None:
    printer = Printer(parse_output("custom-columns=N:.metadata.name,K:.kind", FORMS))
    assert printer.render([build_object("a")], is_list=True) == "N     K\na     Gang\n"
    assert printer.render([build_object("b")], is_list=True) == "b     Gang\n"


@pytest.mark.parametrize("text", ["xml", "jsonpath", "jsonpath=", "json=x", "custom-columns=", ""])
def test_unknown_or_incomplete_format_is_refused(text: str) -> None:
    with pytest.raises(TemplateError):
        parse_output(text, FORMS)


def test_format_that_the_command_lacks_is_refused_with_those_it_has() -> None:
    with pytest.raises(TemplateError, match="write one of name, json"):
        parse_output("wide", (Form.JSON, Form.NAME))


def test_template_that_does_not_fit_names_the_option() -> None:
    with pytest.raises(CliError, match="-o jsonpath: index 3 is beyond"):
        render("jsonpath={.items[3]}", "a")

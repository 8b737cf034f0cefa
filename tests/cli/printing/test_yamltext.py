"""kubectl (Go's YAML reader) reads the output of `inject` without a change."""

import json
import subprocess
from pathlib import Path

import pytest

from cli.printing.yamltext import render_yaml
from framework.strictyaml import load_documents
from tests.support.servers.binaries import find_kubectl

KUBECTL = find_kubectl()

# Go's reader takes each for something else, or for another text, unless it is in quotes.
GO_BOOLEANS = ["y", "n", "Y", "N", "yes", "on", "OFF", "True"]
GO_INTEGERS = ["017", "0o17", "-0o7", "0O7", "0X1F", "0B1", "0x1f", "1_000", "+1", "-0"]
GO_FLOATS = ["1e3", "1E3", "-1e3", "1e-3", "0.1e5", "1.e3", "+.5e1", ".5", "5.", "08", "0129"]
GO_NUMBERS = [*GO_INTEGERS, *GO_FLOATS, "0_8", "9e_1", "+0_o1", ".inf", ".NaN"]
GO_OTHERS = ["~", "null", "", "<<", "=", "2001-01-01", "2001-1-1", "1:30"]
BREAKS = ["\x85x", "a\u2028b", "\n", "\n\nx", "  lead\nx", "x\n  y\n\n", "a\r\nb", "x \ny"]
TEXTS = [*GO_BOOLEANS, *GO_NUMBERS, *GO_OTHERS, *BREAKS, "word " * 60, "{{FC_POD_NAME}}"]


def build_object() -> dict[str, object]:
    return {
        "apiVersion": "example.com/v1",
        "kind": "Texts",
        "metadata": {"name": "texts"},
        "values": TEXTS,
        "keys": dict.fromkeys(TEXTS, 1),
    }


@pytest.mark.parametrize("text", [*GO_BOOLEANS, *GO_NUMBERS])
def test_render_yaml_text_that_go_reads_as_something_else_is_quoted(text: str) -> None:
    assert render_yaml([{"value": text}]) == f"value: '{text}'\n"


def test_render_yaml_leaves_usual_texts_bare_and_numbers_numbers() -> None:
    texts = {"cpu": "10m", "memory": "32Mi", "image": "app:1", "flag": "-c", "count": 3, "on": 1}
    texts |= {"share": 0.5, "big": 1e16}
    assert render_yaml([texts]) == (
        "cpu: 10m\nmemory: 32Mi\nimage: app:1\nflag: -c\ncount: 3\n'on': 1\n"
        "share: 0.5\nbig: 1.0e+16\n"
    )


def test_render_yaml_is_read_back_as_it_was() -> None:
    (document,) = load_documents(render_yaml([build_object()]), "text")
    assert document.value == build_object()


@pytest.mark.skipif(KUBECTL is None, reason="no kubectl: let make test-kube build it")
def test_render_yaml_is_read_by_kubectl_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "texts.yaml"
    path.write_text(render_yaml([build_object()]), encoding="utf-8")
    done = subprocess.run(
        [str(KUBECTL), "annotate", "--local", "-f", path, "seen=yes", "-o", "json"],
        capture_output=True,
        text=True,
        check=True,
    )
    found = json.loads(done.stdout)
    assert (found["values"], found["keys"]) == (TEXTS, dict.fromkeys(TEXTS, 1))

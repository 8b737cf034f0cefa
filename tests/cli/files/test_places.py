"""The place of a fault: the line in the file, and the object among several documents."""

import pytest

from cli.files.places import Place, find_line
from framework.strictyaml import Document, load_documents

TEXT = """# two documents
kind: ConfigMap
metadata: {name: app}
---

kind: Framework
metadata:
  name: gang
  annotations:
    a.b/c: d
spec:
  taskRoles:
  - name: ps
  - name: worker
    taskNumber: two
    command: [sh,
      train]
"""


@pytest.fixture
def gang() -> Document:
    _, found = load_documents(TEXT, "f.yaml")
    return found


@pytest.mark.parametrize(
    ("path", "line"),
    [
        ("", 6),
        ("kind", 6),
        ("metadata.name", 8),
        ("spec.taskRoles[0].name", 13),
        ("spec.taskRoles[1]", 14),
        ("spec.taskRoles[1].taskNumber", 15),
        ("spec.taskRoles[1].command[1]", 17),
        # The field around one that is absent.
        ("spec.taskRoles[0].task.pod", 13),
        ("spec.taskRoles[7].name", 12),
        ("spec.executionType", 11),
        ("status.phase", 6),
        ("metadata.annotations[a.b/c]", 9),
    ],
)
def test_locate_gives_the_line_of_the_field_in_the_file(
    gang: Document, path: str, line: int
) -> None:
    assert Place("f.yaml", gang).locate(path) == f"f.yaml:{line}: Framework gang"


def test_locate_in_a_file_of_one_document_gives_the_file(gang: Document) -> None:
    assert Place("f.yaml").locate("spec") == "f.yaml"
    assert str(Place("f.yaml", gang)) == "f.yaml:6"


def test_locate_in_a_list_finds_the_item() -> None:
    items = "kind: List\nitems:\n- {kind: Pod, metadata: {name: a}}\n- kind: Pod\n  spec: 1\n"
    text = f"{items}---\n{TEXT}"
    document = load_documents(text, "f.yaml")[0]
    item = Place("f.yaml", document).enter(1)
    assert item.locate("spec") == "f.yaml:5: items[1]: Pod"
    assert Place("f.yaml", document).enter(0).locate("spec") == "f.yaml:3: items[0]: Pod a"
    assert str(item) == "f.yaml:1: items[1]"


@pytest.mark.parametrize("body", ["text", {"kind": 1}, {"metadata": []}, {}, ["a"]])
def test_locate_of_a_document_without_kind_and_name_gives_the_line(body: object) -> None:
    assert Place("f.yaml", Document(3, body)).locate("spec.taskRoles[0]") == "f.yaml:3"


def test_locate_of_a_long_name_is_bounded() -> None:
    body = {"kind": "K" * 5000, "metadata": {"name": "n" * 5000}}
    assert len(Place("f.yaml", Document(3, body)).locate("")) < 300


def test_find_line_of_an_alias_is_that_of_the_field_that_names_it() -> None:
    text = "a: &x\n  b: 1\n---\nc: &y\n  d: 1\ne: *y\n"
    document = load_documents(text, "f.yaml")[1]
    assert find_line(document, ["e"]) == 6
    assert find_line(document, ["e", "d"]) == 5


@pytest.mark.parametrize(
    ("path", "written"),
    [
        ("spec.taskRoles[0].task.pod", "spec.launcher.template"),
        (
            "spec.taskRoles[0].task.pod.spec.containers[1]",
            "spec.launcher.template.spec.containers[1]",
        ),
        (
            "spec.taskRoles[0].task.podGracefulDeletionTimeoutSec",
            "spec.taskRoles[0].task.podGracefulDeletionTimeoutSec",
        ),
        ("metadata.name", "metadata.name"),
    ],
)
def test_name_field_of_a_converted_job_gives_the_path_in_the_job(path: str, written: str) -> None:
    templates = {"spec.taskRoles[0].task.pod": "spec.launcher.template"}
    assert Place("f.yaml", templates=templates).name_field(path) == written

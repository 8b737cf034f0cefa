"""docs/api.md and framework.api name the same things."""

import re
from collections.abc import Iterator
from pathlib import Path

from framework.agent.exitcodes import ExitCode
from framework.api import codec, constants
from framework.api.states import FrameworkState
from framework.api.wire import Field, Kind
from tests.support.builders import build_annotations

DOC = (Path(__file__).parents[3] / "docs" / "api.md").read_text(encoding="utf-8")
QUOTED = set(re.findall(r"`([^`\n]+)`", DOC))
# Parts of other names, or names of Kubernetes.
NOT_LISTED = {
    "GPU_RESOURCE",
    "ANNOTATION_PREFIX",
    "COMPONENT_NAME",
    "POD_UID_FIELD_PATH",
    "TASK_KIND",
}
TEXTS = {
    name: value
    for name, value in vars(constants).items()
    if name.isupper() and isinstance(value, str) and name not in NOT_LISTED
}


def test_names_of_the_api_are_in_the_docs() -> None:
    for text in TEXTS.values():
        assert re.search(rf"(?<![A-Za-z_]){re.escape(text)}(?![A-Za-z_])", DOC), text
    assert {f"{{{{{name}}}}}" for name in constants.TEMPLATE_PLACEHOLDERS} <= QUOTED
    assert {str(state) for state in FrameworkState} <= QUOTED


def test_docs_name_nothing_that_does_not_exist() -> None:
    pattern = r"\b(?:FC|BARRIER|FRAMEWORKBARRIER)_[A-Z_]+\b|frameworkbarrier\.io/[a-z0-9-]+"
    assert set(re.findall(pattern, DOC)) <= set(TEXTS.values())


def test_pod_annotation_has_its_row() -> None:
    labels = {constants.FRAMEWORK_NAME, constants.TASKROLE_NAME, constants.TASK_INDEX}
    for name in build_annotations("worker", 0):
        row = next(line for line in DOC.splitlines() if line.startswith(f"| `{name}` |"))
        kind = "annotation, label" if name in labels else "annotation"
        assert row.split("|")[3].strip() == kind, name


def walk_fields(kind: Kind) -> Iterator[Field]:
    for field in kind.fields:
        yield field
        yield from walk_fields(field.kind)
    if kind.item is not None:
        yield from walk_fields(kind.item)


def test_every_field_is_in_the_docs() -> None:
    for wire in {f.wire for s in (codec.SPEC, codec.STATUS) for f in walk_fields(s.kind())}:
        assert any(re.search(rf"\b{wire}\b", quoted) for quoted in QUOTED), wire


def test_exit_codes_of_the_docs_are_those_of_the_code() -> None:
    rows = re.findall(r"^\| (\d+) \| ([A-Z_]+) \|", DOC, re.MULTILINE)
    assert {name: int(code) for code, name in rows} == {c.name: c.value for c in ExitCode}


def test_values_are_those_of_the_original() -> None:
    assert constants.API_VERSION == "frameworkcontroller.microsoft.com/v1"
    assert constants.FRAMEWORK_CRD_NAME == "frameworks.frameworkcontroller.microsoft.com"
    assert len(constants.READINESS_ANNOTATION) < 64

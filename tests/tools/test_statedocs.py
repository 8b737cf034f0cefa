"""docs/design/state-machines.md agrees with the transition tables."""

import re
from collections.abc import Mapping
from enum import StrEnum

import pytest

from framework.api.states import FRAMEWORK_TRANSITIONS, TASK_TRANSITIONS
from tools import statedocs

PAGE = statedocs.DOC_FILE.read_text(encoding="utf-8")
MACHINES = [("Framework", FRAMEWORK_TRANSITIONS), ("Task", TASK_TRANSITIONS)]


def read_section(title: str) -> str:
    return PAGE.partition(f"\n## {title} states\n")[2].partition("\n## ")[0]


def test_page_is_fresh() -> None:
    assert statedocs.render(PAGE) == PAGE, "run make docs"


@pytest.mark.parametrize(("title", "table"), MACHINES, ids=["Framework", "Task"])
def test_diagram_has_the_edges_of_the_table(
    title: str, table: Mapping[StrEnum, frozenset[StrEnum]]
) -> None:
    drawn = set(re.findall(r"^    (\w+) --> (\w+)$", read_section(title), re.MULTILINE))
    assert drawn == {(str(a), str(b)) for a, targets in table.items() for b in targets}


@pytest.mark.parametrize(("title", "table"), MACHINES, ids=["Framework", "Task"])
def test_rows_have_the_steps_of_the_table(
    title: str, table: Mapping[StrEnum, frozenset[StrEnum]]
) -> None:
    rows = dict(re.findall(r"^\| (\w+) \|.*\| ([^|]*) \|$", read_section(title), re.MULTILINE))
    del rows["state"]
    steps = {state: set(text.split(", ")) - {"(the end)"} for state, text in rows.items()}
    assert steps == {str(a): {str(b) for b in targets} for a, targets in table.items()}

"""docs/operations.md has every kind of cause, in the order of depth."""

import re
from pathlib import Path

from cli.why.cause import Kind

ROOT = Path(__file__).parents[3]


def test_operations_doc_has_all_kinds_in_order() -> None:
    text = (ROOT / "docs" / "operations.md").read_text()
    section = text.partition("### Causes and remedies")[2].partition("\n## ")[0]
    assert re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE) == [str(kind) for kind in Kind]

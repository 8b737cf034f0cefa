"""Each row of the tables of SECURITY.md and docs/security.md names tests that exist.

A row without a protection says so.
"""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
PAGES = ("SECURITY.md", "docs/security.md")
NOT_PROTECTED = "none: not protected"
# The attackers that the threat model must name.
ATTACKERS = (
    *("Authors of Frameworks", "Creators of Pods", "Writers of ConfigMaps", "Writers of status"),
    *("Holders of an agent's token", "Holders of the controller's token", "Readers of logs"),
    *("The network", "A node", "Images and packages"),
    "Local users, on the machine of a local cluster",
)
_REFERENCE = re.compile(r"`(tests/[a-z0-9_/.]+?)(?:::([a-z0-9_]+))?`")
_LINE_OF_TABLE = re.compile(r"^\|(.+)\|$", re.MULTILINE)


def read_page(page: str) -> str:
    return (ROOT / page).read_text(encoding="utf-8")


def split_sections(text: str, level: str) -> dict[str, str]:
    """Return the text below each heading of a level."""
    parts = re.split(rf"^{level} (.+)$", text, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def list_rows(text: str) -> list[list[str]]:
    """Return the cells of each row of tables whose last column is `test`."""
    rows: list[list[str]] = []
    is_wanted = False
    previous_end = -2
    for match in _LINE_OF_TABLE.finditer(text):
        cells = [cell.strip() for cell in match[1].split("|")]
        if match.start() != previous_end + 1:
            is_wanted = cells[-1] == "test"
        elif is_wanted and set(cells[0]) != {"-"}:
            rows.append(cells)
        previous_end = match.end()
    return rows


@pytest.mark.parametrize("page", PAGES)
def test_every_test_that_is_named_exists(page: str) -> None:
    references = _REFERENCE.findall(read_page(page))
    assert references
    for path, name in references:
        assert (ROOT / path).exists(), path
        if name:
            assert re.search(rf"^(async )?def {name}\(", read_page(path), re.MULTILINE), name


@pytest.mark.parametrize("page", PAGES)
def test_every_row_names_its_tests_or_says_that_nothing_protects(page: str) -> None:
    rows = list_rows(read_page(page))
    assert rows
    for row in rows:
        assert _REFERENCE.search(row[-1]) or row[-1] == NOT_PROTECTED, row[0]


def test_threat_model_has_every_attacker_with_a_table() -> None:
    sections = split_sections(read_page("SECURITY.md"), "###")
    assert set(ATTACKERS) <= set(sections)
    for attacker in ATTACKERS:
        rows = list_rows(sections[attacker])
        assert rows, attacker
        assert all(len(row) == 4 for row in rows), attacker


def test_unprotected_rows_say_what_remains() -> None:
    for row in list_rows(read_page("SECURITY.md")):
        if row[-1] == NOT_PROTECTED:
            assert row[2], row[0]


def test_every_section_of_the_security_page_names_a_test() -> None:
    for title, text in split_sections(read_page("docs/security.md"), "##").items():
        assert _REFERENCE.search(text), title

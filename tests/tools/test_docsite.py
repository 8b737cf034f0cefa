"""The pages of the site: all of them, with links that mkdocs knows."""

import re
from pathlib import Path

import pytest

from tools.docsite import (
    ROOT,
    MissingFileError,
    convert,
    indent_lists,
    list_pages,
    write_pages,
)

CONFIG = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")


def test_navigation_has_every_page_but_decisions() -> None:
    listed = set(re.findall(r"^[ -].*?([\w/.-]+\.md)$", CONFIG, re.MULTILINE))
    pages = {str(page) for page in list_pages(ROOT)}
    decisions = {page for page in pages if re.match(r"docs/adr/\d", page)}
    assert listed == pages - decisions


def test_site_loads_no_fonts_of_other_hosts() -> None:
    assert "\n  font: false\n" in CONFIG


def test_pages_are_written_with_the_files_that_they_link_to(tmp_path: Path) -> None:
    count = write_pages(ROOT, tmp_path)
    assert count == len(list(tmp_path.rglob("*.md")))
    assert (tmp_path / "docs" / "gang.svg").exists()
    assert (tmp_path / "examples" / "gang.yaml").exists()


def write_page(root: Path, text: str) -> Path:
    (root / "pages").mkdir()
    (root / "pages" / "page.md").write_text(text)
    return Path("pages/page.md")


def test_link_to_a_folder_becomes_a_link_to_a_file_of_it(tmp_path: Path) -> None:
    page = write_page(tmp_path, "[a](../deploy/x) [b](../deploy/x#y) [c](https://a.example/b)\n")
    folder = tmp_path / "deploy" / "x"
    folder.mkdir(parents=True)
    (folder / "kustomization.yaml").touch()
    text, files = convert(tmp_path, page)
    link = "../deploy/x/kustomization.yaml"
    assert text == f"[a]({link}) [b]({link}#y) [c](https://a.example/b)\n"
    assert files == {Path("deploy/x/kustomization.yaml")}


@pytest.mark.parametrize("link", ["missing.md", "../../outside.md"])
def test_link_without_a_file_is_refused(tmp_path: Path, link: str) -> None:
    (tmp_path / "outside.md").touch()
    root = tmp_path / "root"
    root.mkdir()
    page = write_page(root, f"[a]({link})\n")
    with pytest.raises(MissingFileError, match=re.escape(link)):
        convert(root, page)


def test_contents_of_numbered_lists_get_four_spaces() -> None:
    text = "1. a\n   b\n\n   ```\n   c\n     d\n   ```\n2. e\n\nf\n   g\n"
    expected = "1. a\n    b\n\n    ```\n    c\n      d\n    ```\n2. e\n\nf\n   g\n"
    assert indent_lists(text) == expected

"""The index pages of docs/ list all pages of their folders."""

import pytest

from tests.docs.commands import ROOT, read_page


@pytest.mark.parametrize("folder", ["docs/adr", "docs/design"])
def test_index_lists_every_page_of_the_folder_with_its_title(folder: str) -> None:
    index = read_page(f"{folder}/README.md")
    for path in (ROOT / folder).glob("*.md"):
        if path.name != "README.md":
            title = path.read_text(encoding="utf-8").splitlines()[0].lstrip("# 0123456789.")
            assert f"[{title}]({path.name})" in index

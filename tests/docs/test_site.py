"""The site that `make docs` built loads nothing from other hosts, and its links have a target."""

import re
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from tests.docs.commands import ROOT

pytestmark = pytest.mark.site

SITE = ROOT / "build" / "site"
LOADED = {"script": "src", "link": "href", "img": "src", "iframe": "src"}
# What a link in the head names and a browser does not load.
NOT_LOADED = {"canonical", "next", "prev"}


class Links(HTMLParser):
    """What a page loads, and where its links go."""

    def __init__(self) -> None:
        super().__init__()
        self.loaded: list[str] = []
        self.links: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        if tag in LOADED and values.get("rel") not in NOT_LOADED:
            self.loaded.append(values.get(LOADED[tag]) or "")
        if tag == "a":
            self.links.append(values.get("href") or "")


def read_links(page: Path) -> Links:
    links = Links()
    links.feed(page.read_text(encoding="utf-8"))
    return links


PAGES = sorted(SITE.rglob("*.html"))


def test_site_has_the_pages_of_the_readme() -> None:
    assert (SITE / "index.html") in PAGES
    assert len(PAGES) > 40


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(SITE)))
def test_page_loads_nothing_from_other_hosts_and_links_to_files_that_exist(page: Path) -> None:
    found = read_links(page)
    assert [link for link in found.loaded if urlsplit(link).netloc] == []
    own = [link for link in found.loaded + found.links if not urlsplit(link).netloc]
    for link in own:
        path = unquote(urlsplit(link).path)
        if not path or link.startswith(("mailto:", "data:")):
            continue
        # The page for unknown addresses names its files from the root of the server.
        target = SITE / path.lstrip("/") if path.startswith("/") else page.parent / path
        assert target.exists(), link


def test_styles_and_scripts_load_nothing_from_other_hosts() -> None:
    for file in SITE.rglob("*.css"):
        assert not re.search(r"url\([\"']?(https?:)?//", file.read_text(encoding="utf-8")), file

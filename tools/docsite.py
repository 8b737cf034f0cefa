"""Copies the pages of the site into build/pages, for mkdocs.

Called by ``make docs``. The pages keep their places, so that their links work. mkdocs does not know
folders and needs four spaces where GitHub needs three, so links to a folder become links to a file
of it, and the contents of numbered lists are indented.
"""

import re
import shutil
import sys
from pathlib import Path

import click

ROOT = Path(__file__).parent.parent
PAGES_FOLDER = ROOT / "build" / "pages"
_SINGLE_PAGES = ("README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md")
_FOLDERS = ("benchmarks", "deploy", "docs", "examples")
# The file that a link to a folder shows.
_FILES_OF_FOLDERS = ("README.md", "kustomization.yaml", "__init__.py")
_LINK = re.compile(r"(?<=\]\()([^()\s#]+)(?=[)#])")
_NUMBERED = re.compile(r"\d+\. ")


class MissingFileError(Exception):
    """A page links to a file that does not exist, or to a folder without a page."""


def list_pages(root: Path) -> list[Path]:
    """List the pages of the site, relative to the repository."""
    found = [Path(name) for name in _SINGLE_PAGES]
    for folder in _FOLDERS:
        found += [path.relative_to(root) for path in sorted((root / folder).rglob("*.md"))]
    return found


def find_target(root: Path, page: Path, link: str) -> Path:
    """Return the file that a link of a page shows, relative to the repository.

    Raises:
        MissingFileError: there is no such file.
    """
    target = (root / page.parent / link).resolve()
    candidates = [target, *(target / name for name in _FILES_OF_FOLDERS)]
    for candidate in candidates:
        if candidate.is_file() and candidate.is_relative_to(root):
            return candidate.relative_to(root)
    raise MissingFileError(f"{page}: no file for the link {link}")


def is_external(link: str) -> bool:
    """Return whether a link is to another host."""
    return "://" in link or link.startswith("mailto:")


def indent_lists(text: str) -> str:
    """Indent the contents of numbered lists by four spaces instead of three."""
    lines = []
    is_item = False
    for line in text.splitlines():
        if _NUMBERED.match(line):
            is_item = True
        elif line and not line.startswith("   "):
            is_item = False
        is_content = is_item and line.startswith("   ")
        lines.append(f" {line}" if is_content else line)
    return "\n".join(lines) + "\n"


def convert(root: Path, page: Path) -> tuple[str, set[Path]]:
    """Return the text of a page for mkdocs, and the files that it links to.

    Raises:
        MissingFileError: a link shows no file.
    """
    files = set()

    def replace(match: re.Match[str]) -> str:
        link = match[1]
        if is_external(link):
            return link
        target = find_target(root, page, link)
        files.add(target)
        if (root / page.parent / link).is_dir():
            return f"{link.rstrip('/')}/{target.name}"
        return link

    text = _LINK.sub(replace, (root / page).read_text(encoding="utf-8"))
    return indent_lists(text), files


def write_pages(root: Path, folder: Path) -> int:
    """Write all pages, and the files that they link to; return the number of pages.

    Raises:
        MissingFileError: a link shows no file.
    """
    shutil.rmtree(folder, ignore_errors=True)
    pages = list_pages(root)
    linked: set[Path] = set()
    for page in pages:
        text, files = convert(root, page)
        linked |= files
        path = folder / page
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    for file in linked - set(pages):
        path = folder / file
        path.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(root / file, path)
    return len(pages)


@click.command()
def main() -> None:
    """Write the pages of the site into build/pages."""
    try:
        count = write_pages(ROOT, PAGES_FOLDER)
    except MissingFileError as e:
        print(f"error: {e}", file=sys.stderr)
        sys.exit(1)
    print(f"{count} pages in {PAGES_FOLDER.relative_to(ROOT)}")


if __name__ == "__main__":
    main()

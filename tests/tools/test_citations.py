"""Code and documents cite only what is in the repository: documents, headings, files, rules."""

import io
import re
import tokenize
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDERS = (
    *(".ci", "barrier", "benchmarks", "cli", "controller", "deploy", "docs", "examples"),
    *("framework", "images", "localcluster", "rendezvous", "tests", "tools"),
)
SUFFIXES = {".py", ".md", ".yaml", ".yml", ".sh", ".toml"}
# Documents that exist only outside of the repository.
OUTSIDE = "FRAMEWORK|DESIGN|FORMATS|RELIABILITY|PERFORMANCE|STYLE|CONSUMERS|KUBERNETES"
MAX_TERMS = 60
GLOSSARY = ROOT / "docs" / "glossary.md"
INVARIANTS = ROOT / "docs" / "design" / "invariants.md"
DESIGN_PAGES = [*sorted((ROOT / "docs" / "design").glob("*.md")), GLOSSARY]

_OUTSIDE_CITATION = re.compile(rf'\b(?:{OUTSIDE})(?:\.md\b|,\s+"|:\s)')
_CITATION = re.compile(r'\bdocs/([\w/-]+\.md)((?:(?:,|\s+and)\s+"[^"]+")*)')
_LINK = re.compile(r"\]\(([^()\s]+)\)")
_PATH = re.compile(r"`((?:barrier|controller|framework|rendezvous|tests)/[\w/.*-]+)`")


def list_files() -> list[Path]:
    found = [path for folder in FOLDERS for path in (ROOT / folder).rglob("*") if path.is_file()]
    found += [path for path in ROOT.iterdir() if path.is_file()]
    return sorted(
        path for path in found if path.suffix in SUFFIXES or path.name in {"Makefile", "run"}
    )


@cache
def read_prose(path: Path) -> str:
    """Read a document, or the comments and strings of a Python file."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".md":
        return text
    if path.suffix != ".py":
        return re.sub(r"^ *# ?", "", text, flags=re.MULTILINE)
    # Most files cite nothing, and tokenizing takes milliseconds.
    if not (_OUTSIDE_CITATION.search(text) or _CITATION.search(text)):
        return ""
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    kinds = {tokenize.COMMENT, tokenize.STRING}
    return "\n".join(token.string.lstrip("# ") for token in tokens if token.type in kinds)


@cache
def read_headings(path: Path) -> frozenset[str]:
    text = re.sub(
        r"^```.*?^```", "", path.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL
    )
    return frozenset(re.findall(r"^#+ (.+)$", text, re.MULTILINE))


def slug(heading: str) -> str:
    """Build the anchor that a heading has."""
    return re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-")


def list_terms() -> list[str]:
    rows = re.findall(r"^\| (.+?) \|", GLOSSARY.read_text(encoding="utf-8"), re.MULTILINE)
    return [term for term in rows if term != "term"]


FILES = list_files()
PAGES = [path for path in FILES if path.suffix == ".md"]


def name_file(path: Path) -> str:
    return str(path.relative_to(ROOT))


def test_files_cite_no_document_outside_of_the_repository() -> None:
    cited = {name_file(path): _OUTSIDE_CITATION.findall(read_prose(path)) for path in FILES}
    assert {name: names for name, names in cited.items() if names} == {}


def test_files_cite_documents_and_headings_that_exist() -> None:
    missing = []
    for path in FILES:
        for page, cited in _CITATION.findall(read_prose(path)):
            target = ROOT / "docs" / page
            headings = {" ".join(heading.split()) for heading in re.findall(r'"([^"]+)"', cited)}
            if not target.exists() or not headings <= read_headings(target):
                missing.append(f"{name_file(path)}: docs/{page}{cited}")
    assert missing == []


@pytest.mark.parametrize("page", PAGES, ids=name_file)
def test_links_of_a_page_have_a_target(page: Path) -> None:
    missing = []
    for link in _LINK.findall(page.read_text(encoding="utf-8")):
        file, _, anchor = link.partition("#")
        if "://" in link or link.startswith("mailto:"):
            continue
        target = (page.parent / file).resolve() if file else page
        headings = read_headings(target) if anchor and target.exists() else ()
        if not target.exists() or anchor not in {"", *map(slug, headings)}:
            missing.append(link)
    assert missing == []


@pytest.mark.parametrize("page", DESIGN_PAGES, ids=name_file)
def test_files_that_a_design_page_names_exist(page: Path) -> None:
    named = _PATH.findall(page.read_text(encoding="utf-8"))
    assert [path for path in named if not any(ROOT.glob(path))] == []


@pytest.mark.parametrize("folder", ["support", "security", "simulation"])
def test_codes_that_a_check_reports_are_listed(folder: str) -> None:
    listed = set(re.findall(r"^\| (\w+) \|", INVARIANTS.read_text(encoding="utf-8"), re.MULTILINE))
    reported = {
        code
        for path in (ROOT / "tests" / folder).rglob("*.py")
        for code in re.findall(r'"([A-Z][0-9]+): ', path.read_text(encoding="utf-8"))
    }
    assert reported <= listed


def test_glossary_has_each_term_once_and_few_of_them() -> None:
    terms = list_terms()
    assert len(terms) == len(set(terms))
    assert 1 <= len(terms) <= MAX_TERMS

"""Reads the commands of README.md and docs/ as a user copies them.

A code block without a language, or of the language ``sh``, has commands; a block with a document
inside (``<<END``) is one command. A command in the text (`` `make images` ``) is a mention.
"""

import re
import shlex
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = tuple(
    str(path.relative_to(ROOT))
    for path in sorted(
        [
            *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md")),
            *(ROOT / folder / "README.md" for folder in ("examples", "benchmarks")),
            *(ROOT / "docs").rglob("*.md"),
            *(ROOT / "deploy").rglob("*.md"),
        ]
    )
)
# A line of a block without a language is a command if it begins with one of these.
PROGRAMS = frozenset(
    [
        *("cd", "cosign", "docker", "export", "git", "kubectl", "make", "pip", "pipx", "python"),
        *("framework", "framework-controller", "framework-rendezvous", "sha256sum", "torchrun"),
    ]
)
_BLOCK = re.compile(r"^ *```(\w*)\n(.*?)^ *```", re.MULTILINE | re.DOTALL)
_MENTION = re.compile(r"`([^`]+)`")
_COMMENT = re.compile(r"(?:^|\s+)# .*$")
# A long command goes on after a backslash; a usage line, in a line indented below its options.
_CONTINUATION = re.compile(r" *\\\n *|\n {10,}")


@dataclass(frozen=True)
class Command:
    """A command of a page, without its comment."""

    page: str
    text: str
    is_usage: bool = False
    """Whether it is the syntax of a command, which only docs/cli*.md have, in blocks of ``sh``."""


def read_page(page: str) -> str:
    return (ROOT / page).read_text(encoding="utf-8")


def read_blocks(page: str) -> list[tuple[str, str]]:
    """Read the blocks that have commands: language and text, without the indentation of a list."""
    found = []
    for match in _BLOCK.finditer(read_page(page)):
        language, text = match.groups()
        lines = text.splitlines()
        indent = min((len(line) - len(line.lstrip()) for line in lines if line.strip()), default=0)
        body = "\n".join(line[indent:] for line in lines)
        if body.startswith("#!"):
            continue  # a file
        if language == "sh" or (not language and body.split(maxsplit=1)[0] in PROGRAMS):
            found.append((language, body))
    return found


def split_commands(block: str) -> list[str]:
    """Split a block into commands, each without its comment."""
    if "<<" in block:
        return [block]
    found: list[str] = []
    rest = ""
    for line in _CONTINUATION.sub(" ", block).splitlines():
        rest += ("\n" if rest else "") + _COMMENT.sub("", line)
        if rest.strip() and _is_whole(rest):
            found.append(rest.strip())
            rest = ""
    assert not rest.strip(), rest
    return found


def _is_whole(text: str) -> bool:
    try:
        shlex.split(text)
    except ValueError:  # an open quotation mark
        return False
    return True


@cache
def list_commands() -> tuple[Command, ...]:
    """List the commands of all blocks."""
    return tuple(
        Command(page, text, is_usage=language == "sh" and page.startswith("docs/cli"))
        for page in PAGES
        for language, block in read_blocks(page)
        for text in split_commands(block)
    )


def list_mentions(page: str) -> list[Command]:
    """List the commands in the text of a page, which have at least one argument."""
    text = _BLOCK.sub("", read_page(page))
    spans = (" ".join(span.split()) for span in _MENTION.findall(text))
    programs = PROGRAMS - {"cd", "export", "git"}
    return [
        Command(page, span) for span in spans if span.partition(" ")[0] in programs and " " in span
    ]

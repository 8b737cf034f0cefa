"""Reads the YAML documents of the files that a user names."""

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from cli.files.places import Place
from framework.strictyaml import Document, YamlError, load_documents


def name_source(file: str) -> str:
    """Return the name that messages use for a file of the command line."""
    return "standard input" if file == "-" else file


def read_documents(files: Sequence[str], problems: list[str]) -> Iterator[tuple[Place, Document]]:
    """Yield the documents of all files, each after its place; add a problem for a faulty file."""
    for file in files:
        source = name_source(file)
        try:
            text = sys.stdin.read() if file == "-" else Path(file).read_text("utf-8")
            documents = load_documents(text, source)
        except OSError as e:
            problems.append(f"{source}: cannot be read: {e.strerror}; give a readable YAML file")
            continue
        except UnicodeDecodeError as e:
            problems.append(
                f"{source}: not valid UTF-8 ({e.reason} at byte {e.start}); give a YAML file"
            )
            continue
        except YamlError as e:
            problems.append(str(e))
            continue
        for document in documents:
            place = Place(source, document if len(documents) > 1 else None)
            yield from _open_list(place, document)


def _open_list(place: Place, document: Document) -> Iterator[tuple[Place, Document]]:
    """Yield the items of a List, the form in which kubectl prints several objects."""
    body = document.value
    items = body.get("items") if isinstance(body, dict) else None
    if not isinstance(items, list) or not str(body.get("kind")).endswith("List"):
        yield place, document
        return
    for index, item in enumerate(items):
        yield from _open_list(place.enter(index), Document(document.line, item))

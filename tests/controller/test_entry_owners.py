"""Each part of an entry has one writer: the package that owns it."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

CONTROLLER = Path(__file__).parents[2] / "controller"
OWNERS = {"observed": "store", "outcomes": "execute", "pacing": "reconcile"}
READERS = {"find_object", "get", "is_delete_in_flight", "items", "keys", "list_objects", "values"}


def find_part(node: ast.expr, aliases: dict[str, str]) -> str | None:
    """The part that an expression leads through, as ``entry.observed.pods`` leads through one."""
    while isinstance(node, ast.Attribute | ast.Subscript):
        if isinstance(node, ast.Attribute) and node.attr in OWNERS:
            return node.attr
        node = node.value
    return aliases.get(node.id) if isinstance(node, ast.Name) else None


def find_aliases(function: ast.AST) -> dict[str, str]:
    """Names that a function gives to parts, as in ``known = entry.observed``."""
    found = {}
    for node in ast.walk(function):
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Attribute):
            for target in node.targets:
                if isinstance(target, ast.Name) and node.value.attr in OWNERS:
                    found[target.id] = node.value.attr
    return found


def find_written_parts(tree: ast.AST) -> Iterator[str]:
    """Parts with a field that is assigned, or with a call that is not known to only read."""
    for function in ast.walk(tree):
        if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        aliases = find_aliases(function)
        for node in ast.walk(function):
            target = None
            if isinstance(node, ast.Attribute | ast.Subscript):
                target = node.value if isinstance(node.ctx, ast.Store | ast.Del) else None
            elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                target = node.func.value if node.func.attr not in READERS else None
            part = find_part(target, aliases) if target else None
            if part is not None:
                yield part


def test_each_part_of_an_entry_is_written_by_its_owner_only() -> None:
    writers = {
        (part, path.parent.name)
        for path in CONTROLLER.rglob("*.py")
        for part in find_written_parts(ast.parse(path.read_text()))
    }
    assert writers == set(OWNERS.items())


@pytest.mark.parametrize(
    ("line", "written"),
    [
        ("entry.observed.framework = None", ["observed"]),
        ("del entry.observed.live[name]", ["observed"]),
        ("entry.observed.published.count += 1", ["observed"]),
        ("entry.outcomes.in_flight.add(key)", ["outcomes"]),
        ("entry.pacing.follow(1)", ["pacing"]),
        ("pace = entry.pacing; pace.backoff = None", ["pacing"]),
        ("known = entry.outcomes.failures.get(key)", []),
        ("framework = entry.observed.framework", []),
    ],
)
def test_write_is_distinguished_from_a_read(line: str, written: list[str]) -> None:
    assert list(find_written_parts(ast.parse(f"def function(): {line}"))) == written

"""Decisions read the facts of a Pod template, never the template, which may be large."""

import ast
from pathlib import Path

import controller.core

CORE = Path(controller.core.__file__).parent
# The Pod is built there, when its create is sent.
BUILDER = CORE / "objects" / "object_templates.py"


def find_reads(tree: ast.AST) -> list[int]:
    """Find the lines with ``.task.pod`` that is not passed to ``find_facts``."""
    passed = {
        id(node)
        for call in ast.walk(tree)
        if isinstance(call, ast.Call) and is_named(call, "find_facts")
        for node in ast.walk(call)
    }
    return [
        node.lineno
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute)
        and node.attr == "pod"
        and isinstance(node.value, ast.Attribute)
        and node.value.attr == "task"
        and id(node) not in passed
    ]


def is_named(call: ast.Call, name: str) -> bool:
    return isinstance(call.func, ast.Name) and call.func.id == name


def test_core_reads_only_the_facts_of_templates() -> None:
    reads = {
        f"{path.relative_to(CORE)}:{line}"
        for path in CORE.rglob("*.py")
        if path != BUILDER
        for line in find_reads(ast.parse(path.read_text()))
    }
    assert reads == set()


def test_read_of_a_template_is_found() -> None:
    assert find_reads(ast.parse("codes = find_codes(role.task.pod)")) == [1]
    assert find_reads(ast.parse("x = role.spec.task.pod['spec']")) == [1]
    assert find_reads(ast.parse("find_facts(role.spec.task.pod if role.spec else None)")) == []

"""Every regular expression of the product takes time in proportion to the text.

Patterns are found in the source, so that a new one cannot be forgotten. Those of RE2 are linear by
construction; of those of ``re``, each is tried with texts that are bad for it.
"""

import ast
import contextlib
import importlib
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import re2  # type: ignore[import-untyped]  # it ships no types

from cli.printing.jsonpath_parser import TemplateError, parse_path
from framework import strictyaml
from framework.api.crd import build_crd
from localcluster.apiserver.views.jsonpath import JsonPathError, find_values
from localcluster.kubelet.fields import expand
from rendezvous.settings.progresspattern import parse_pattern
from tests.security.regexcost import METHODS, find_attack, find_attack_on
from tests.support.slow import keep_first

ROOT = Path(__file__).parents[2]
PRODUCT = ("framework", "barrier", "rendezvous", "controller", "localcluster", "cli")
ALL_METHODS = frozenset(METHODS)
# Only files with such a call are parsed.
_CALL = re.compile(r"\bre\.[a-z]+\(")


def find_no_value(path: str) -> None:
    with contextlib.suppress(JsonPathError):
        find_values({}, path)


def find_no_brackets(text: str) -> None:
    with contextlib.suppress(TemplateError):
        parse_path(text)


# Linear by what calls them: the function is tried instead of the pattern.
GUARDED: dict[str, Callable[[str], object]] = {
    "cli/printing/jsonpath_parser.py _BRACKETS": find_no_brackets,
    "localcluster/apiserver/views/jsonpath.py _TOKEN": find_no_value,
    "localcluster/kubelet/fields.py _REFERENCE": lambda text: expand(text, {}),
}
# Built from other texts when the program runs.
BUILT_LATER = {
    # From paths, which are escaped; one like it is tried below.
    "localcluster/kubelet/container/path_replacement.py compile",
    # From the examples that the project ships.
    "cli/start/gangfile.py search",
    "cli/start/gangfile.py subn",
    # From a text, which is escaped; one like it is tried below.
    "rendezvous/settings/progresspattern.py compile",
    # From constants; they are tried below.
    "framework/strictyaml.py compile",
    # From a CRD that the owner of a local cluster adds to it; only the owner waits for it.
    "localcluster/apiserver/schemas/validation.py compile",
}


class Use(NamedTuple):
    """A pattern of the source and what is called on it; no pattern if it is built later."""

    place: str
    pattern: re.Pattern[str] | None
    methods: frozenset[str]


def list_calls(nodes: list[ast.AST]) -> Iterator[tuple[str, ast.Call]]:
    for node in nodes:
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            owner, name = node.func.value, node.func.attr
            is_re = isinstance(owner, ast.Name) and owner.id == "re"
            if is_re and (name in METHODS or name in {"compile", "subn"}):
                yield name, node


def find_methods(nodes: list[ast.AST], name: str) -> frozenset[str]:
    """Find what a module calls on a pattern; all methods if it hands the pattern on."""
    loads = [
        n for n in nodes if isinstance(n, ast.Name) and n.id == name and isinstance(n.ctx, ast.Load)
    ]
    calls = [n for n in nodes if isinstance(n, ast.Attribute) and n.value in loads]
    called = frozenset(call.attr for call in calls)
    return called if len(calls) == len(loads) and called <= ALL_METHODS and called else ALL_METHODS


def as_text(pattern: Any) -> re.Pattern[str]:
    """Take the pattern of bytes for one of text: their costs are the same."""
    if isinstance(pattern.pattern, bytes):
        return re.compile(pattern.pattern.decode("latin-1"), pattern.flags)
    found: re.Pattern[str] = pattern
    return found


def find_flags(call: ast.Call, position: int) -> int:
    given = [k.value for k in call.keywords if k.arg == "flags"] or call.args[position:]
    return int(eval(ast.unparse(given[0]), {"re": re})) if given else 0


def list_uses(path: Path) -> Iterator[Use]:
    """List the patterns of a file."""
    tree = ast.parse(path.read_text())
    nodes = list(ast.walk(tree))
    file = path.relative_to(ROOT).as_posix()
    module = file.removesuffix(".py").replace("/", ".")
    names = {
        id(s.value): s.targets[0].id
        for s in tree.body
        if isinstance(s, ast.Assign) and isinstance(s.targets[0], ast.Name)
    }
    for function, call in list_calls(nodes):
        name = names.get(id(call))
        if name is not None:
            pattern = as_text(getattr(importlib.import_module(module), name))
            yield Use(f"{file} {name}", pattern, find_methods(nodes, name))
        elif isinstance(call.args[0], ast.Constant):
            position = {"sub": 4, "subn": 4, "split": 3, "compile": 1}.get(function, 2)
            pattern = as_text(re.compile(call.args[0].value, find_flags(call, position)))
            methods = frozenset({function}) & ALL_METHODS or ALL_METHODS
            yield Use(f"{file}:{call.lineno}", pattern, methods)
        else:
            yield Use(f"{file} {function}", None, ALL_METHODS)


FOUND = [
    use
    for folder in PRODUCT
    for path in sorted((ROOT / folder).rglob("*.py"))
    if _CALL.search(path.read_text())
    for use in list_uses(path)
]


@pytest.mark.parametrize(
    "use", [u for u in FOUND if u.pattern and u.place not in GUARDED], ids=lambda use: use.place
)
def test_regular_expression_takes_linear_time(use: Use) -> None:
    assert use.pattern is not None
    assert find_attack(use.pattern, use.methods) is None


@pytest.mark.parametrize("place", GUARDED)
def test_regular_expression_that_is_guarded_takes_linear_time(place: str) -> None:
    pattern = next(use.pattern for use in FOUND if use.place == place)
    assert pattern is not None
    assert find_attack_on(GUARDED[place], pattern) is None


def test_regular_expressions_are_found() -> None:
    assert len(FOUND) > 80
    assert {use.place for use in FOUND if use.pattern is None} == BUILT_LATER


def test_regular_expression_of_paths_takes_linear_time() -> None:
    pattern = r"(?<![^\s'\"`=:;,(<>|&@])(?:/mnt/a|/mnt)(?![A-Za-z0-9_.-])"
    assert find_attack(re.compile(pattern), {"sub"}) is None


@pytest.mark.parametrize("text", ["at {step}/{total}", " {step} {total} ", "(a+)+ {total} a{step}"])
def test_pattern_of_progress_takes_linear_time(text: str) -> None:
    pattern = parse_pattern(text)
    assert pattern is not None
    assert find_attack(pattern.regex, {"search"}) is None


def test_regular_expression_of_a_yaml_scalar_takes_linear_time() -> None:
    resolvers = strictyaml._Loader.yaml_implicit_resolvers.values()
    patterns = {pattern for listed in resolvers for _, pattern in listed}
    assert len(patterns) > 4
    for pattern in patterns:
        assert find_attack(pattern, {"match"}) is None, pattern


def test_regular_expression_of_the_crd_is_one_of_re2() -> None:
    def walk(schema: Any) -> Iterator[str]:
        items = schema.values() if isinstance(schema, dict) else schema
        if isinstance(schema, dict) and isinstance(schema.get("pattern"), str):
            yield schema["pattern"]
        if isinstance(schema, dict | list):
            for item in items:
                yield from walk(item)

    patterns = set(walk(build_crd()))
    assert patterns
    for pattern in patterns:
        re2.compile(pattern)


@pytest.mark.parametrize(
    ("pattern", "method"),
    keep_first(
        [
            (r"\S*/injector\.sh", "search"),
            (r"\s+$", "search"),
            (r"a*[a-z]*x", "match"),
            (r"(a*)*b", "match"),
            # The redaction of the log, until a Pod with a 200 kB argument held the controller.
            (r"(bearer )[A-Za-z0-9._~+/=-]{8,}|eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]+\.", "sub"),
            (r"^(([a-z])+.)+[A-Z]([a-z])+$", "match"),
            (r"(?:x|x)*y", "match"),
        ],
        4,
    ),
)
def test_pattern_that_is_not_linear_is_found(pattern: str, method: str) -> None:
    assert find_attack(re.compile(pattern, re.IGNORECASE), {method}) is not None


@pytest.mark.parametrize("pattern", [r"[a-z]+x", r"(?:[a-z]+,)*", r"a{1,3}b", r"[^\"]*\""])
def test_pattern_that_is_linear_passes(pattern: str) -> None:
    assert find_attack(re.compile(pattern), {"match"}) is None

"""YAML with the types of Kubernetes tools; errors have file, line and column.

Differences to PyYAML: a duplicate key is an error; scalars that are text for Go (timestamps,
``1:30``) stay text, so that a Pod template keeps the values of its author; size and depth are
bounded. ``load_document`` applies the bounds to another loader.
"""

import re
from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import yaml

LoaderClass: TypeAlias = type[yaml.SafeLoader] | type[yaml.CSafeLoader]

_INDENTATION = "indent this line as the other keys or items of its block"
_UNCLOSED = "a `[` or `{` before is not closed"
_QUOTES = "put the value into quotes"
_REMEDIES = {
    "mapping values are not allowed here": "check the indentation of this line and the lines "
    "before it; a value that contains `: ` needs quotes",
    "found character '\\t' that cannot start any token": "indent with spaces, not with tabs",
    "expected <block end>, but found '<block mapping start>'": _INDENTATION,
    "expected <block end>, but found '<block sequence start>'": _INDENTATION,
    "expected <block end>, but found '<scalar>'": "check the quotes and the indentation before",
    "expected <block end>, but found '-'": _INDENTATION,
    "expected the node content, but found '<stream end>'": _UNCLOSED,
    "expected ',' or ']', but got '<stream end>'": _UNCLOSED,
    "expected ',' or ']', but got ':'": _UNCLOSED,
    "expected ',' or '}', but got '<stream end>'": _UNCLOSED,
    "found unexpected end of stream": "a quote before is not closed",
    "could not find expected ':'": "check the line before: write `key: value`",
    "found character '@' that cannot start any token": _QUOTES,
    "found character '`' that cannot start any token": _QUOTES,
}
"""Remedies, by the problem that PyYAML reports."""
_MAX_DEPTH = 100
_MAX_NODES = 500_000
_FEW_NODES = 10_000
_MAX_NODES_PER_CHARACTER = 20
"""Limits the values that aliases make out of a short text."""


class YamlError(ValueError):
    """A text is not YAML, or exceeds a bound; the message has the position."""


@dataclass(frozen=True, slots=True)
class Document:
    """A document of a YAML text."""

    line: int
    """Its first line in the text, from 1."""
    value: Any
    """Its value."""
    node: yaml.Node | None = field(default=None, repr=False, compare=False)
    """Its parts with their lines, as ``load_documents`` has read them; None if it was built."""


class ShallowLoader(yaml.SafeLoader):
    """SafeLoader that refuses deep nesting while it scans: PyYAML's time grows with the depth."""

    def fetch_flow_collection_start(self, TokenClass: type) -> None:  # noqa: N803 PyYAML's
        """Begin a ``[`` or ``{``."""
        self._check_depth(self.flow_level + len(self.indents))
        super().fetch_flow_collection_start(TokenClass)

    def add_indent(self, column: int) -> bool:
        """Begin a block."""
        self._check_depth(self.flow_level + len(self.indents))
        return bool(super().add_indent(column))

    def _check_depth(self, depth: int) -> None:
        if depth > _MAX_DEPTH:
            problem = f"nested deeper than {_MAX_DEPTH} levels"
            raise yaml.MarkedYAMLError(problem=problem, problem_mark=self.get_mark())


class _Loader(ShallowLoader):
    """A loader with the scalar types of Go; its resolvers are added below."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:  # noqa: FBT001, FBT002 signature of PyYAML
        _check_keys(node)
        return super().construct_mapping(node, deep=deep)


def _check_keys(node: yaml.MappingNode) -> None:
    """Refuse a duplicate key; convert number and boolean keys to text, for JSON."""
    seen: set[str] = set()
    for key, _ in node.value:
        if not isinstance(key, yaml.ScalarNode):
            raise yaml.MarkedYAMLError(
                problem="a key must be a string", problem_mark=key.start_mark
            )
        if key.tag == "tag:yaml.org,2002:merge":
            continue
        key.tag = "tag:yaml.org,2002:str"
        if key.value in seen:
            problem = f"key {key.value!r} is given twice; keep one"
            raise yaml.MarkedYAMLError(problem=problem, problem_mark=key.start_mark)
        seen.add(key.value)


_Loader.yaml_implicit_resolvers = {}
for _tag, _pattern, _first in (
    (
        "bool",
        r"yes|Yes|YES|no|No|NO|true|True|TRUE|false|False|FALSE|on|On|ON|off|Off|OFF",
        "yYnNtTfFoO",
    ),
    ("int", r"[-+]?(0b[01_]+|0o?[0-7_]+|0x[0-9a-fA-F_]+|0|[1-9][0-9_]*)", "-+0123456789"),
    (
        "float",
        (
            r"[-+]?(\.[0-9]+|[0-9][0-9_]*\.[0-9]*|[0-9]+(?=[eE]))([eE][-+]?[0-9]+)?"
            r"|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)"
        ),
        "-+.0123456789",
    ),
    ("null", r"~|null|Null|NULL|", "~nN\0"),
    ("merge", r"<<", "<"),
):
    _Loader.add_implicit_resolver(
        f"tag:yaml.org,2002:{_tag}",
        re.compile(rf"^(?:{_pattern})$"),
        [letter if letter != "\0" else "" for letter in _first],
    )


_MAX_INT_DIGITS = 1000
"""Python writes no integers of some thousands of digits as text, so no JSON could have them."""


def _construct_int(loader: _Loader, node: yaml.ScalarNode) -> int:
    text = str(loader.construct_scalar(node)).replace("_", "").lower()
    sign = -1 if text.startswith("-") else 1
    digits = text.lstrip("+-")
    if len(digits) > _MAX_INT_DIGITS:
        raise ValueError(f"an integer has more than {_MAX_INT_DIGITS} digits")
    if digits.startswith(("0b", "0o", "0x")):
        return sign * int(digits, 0)
    return sign * int(digits, 8 if digits.startswith("0") else 10)


_Loader.add_constructor("tag:yaml.org,2002:int", _construct_int)


def load_documents(text: str, source: str) -> list[Document]:
    """Read all documents of a YAML text, except empty ones.

    Args:
        text: YAML, one or more documents.
        source: name of the text in errors, for example a file name.

    Raises:
        YamlError: the text cannot be read.
    """
    documents = []
    try:
        loader = _Loader(text)
        try:
            while (node := loader.get_node() if loader.check_node() else None) is not None:
                _check_size(node, len(text))
                value = loader.construct_document(node)
                if value is not None:
                    documents.append(Document(node.start_mark.line + 1, value, node))
        finally:
            loader.dispose()
    except yaml.MarkedYAMLError as e:
        raise YamlError(_render_error(e, source)) from e
    except RecursionError as e:
        raise YamlError(f"{source}: nested deeper than {_MAX_DEPTH} levels") from e
    except (yaml.YAMLError, ValueError) as e:
        raise YamlError(f"{source}: {e}") from e
    return documents


def load_document(text: str | bytes, loader_class: LoaderClass) -> Any:
    """Read a text of one YAML document; None if it has none.

    Args:
        text: YAML.
        loader_class: loader with the scalar types.

    Raises:
        YAMLError: the text cannot be read, has several documents, or exceeds a bound.
        ValueError, RecursionError: the text cannot be read.
    """
    loader = loader_class(text)
    try:
        node = loader.get_single_node()
        if node is None:
            return None
        _check_size(node, len(text))
        return loader.construct_document(node)
    finally:
        loader.dispose()


def _check_size(root: yaml.Node, length: int) -> None:
    """Refuse documents that need too much memory: recursive aliases, aliases of aliases.

    Args:
        root: a document of the text, before its values are built.
        length: length of the text.

    Raises:
        MarkedYAMLError: the document is too deep, or with its aliases replaced too large.
    """
    limit = min(_MAX_NODES, _FEW_NODES + _MAX_NODES_PER_CHARACTER * length)
    budget = limit
    waiting: list[tuple[yaml.Node, int]] = [(root, 0)]
    while waiting:
        node, depth = waiting.pop()
        budget -= 1
        if depth > _MAX_DEPTH or budget < 0:
            problem = f"nested deeper than {_MAX_DEPTH} levels, or larger than {limit} values"
            raise yaml.MarkedYAMLError(problem=problem, problem_mark=node.start_mark)
        if isinstance(node, yaml.MappingNode):
            waiting.extend((value, depth + 1) for _, value in node.value)
        elif isinstance(node, yaml.SequenceNode):
            waiting.extend((item, depth + 1) for item in node.value)


def _render_error(error: yaml.MarkedYAMLError, source: str) -> str:
    mark = error.problem_mark or error.context_mark
    where = f"{source}:{mark.line + 1}:{mark.column + 1}" if mark else source
    parts = [part for part in (error.context, error.problem) if part]
    remedy = _REMEDIES.get(error.problem or "")
    return "; ".join(filter(None, (f"{where}: {', '.join(parts)}", remedy)))

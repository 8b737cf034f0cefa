"""CEL, the language of validation rules: compiling an expression and giving it its values.

``rules`` calls it. The library is loaded when the first rule is met: most clusters have one
definition and few rules (docs/adr/0013). Of the API server's own additions to the language there
are the optional values, the functions of strings and ``sum``; an expression that needs others does
not compile. The fields of an object are not known to the compiler here: a wrong name shows when the
rule is evaluated.
"""

import importlib
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

from localcluster.apiserver.model import objects
from localcluster.apiserver.model.errors import Object

SELF = "self"
OLD_SELF = "oldSelf"
_PRIOR = "priorSelf__"
_IS_UPDATE = "isUpdate__"
_RESERVED = re.compile(
    "true|false|null|in|as|break|const|continue|else|for|function|if|import|let|loop|package"
    "|namespace|return"
)
_ESCAPES = {"__": "__underscores__", ".": "__dot__", "-": "__dash__", "/": "__slash__"}
_SCALARS = {"string": "string", "integer": "int", "number": "double", "boolean": "bool"}
_TIME_FORMATS = ("date", "date-time")


class MissingExtraError(Exception):
    """The library is not installed: it is an extra of the package."""


class CelError(Exception):
    """An expression that does not compile, or has no value for these objects."""


class Expression:
    """A compiled expression of one type of ``self``."""

    def __init__(self, source: str, schema: Object, result: str, *, is_optional: bool) -> None:
        """Compile ``source``.

        Args:
            source: The text.
            schema: What ``self`` is.
            result: What the expression must be, ``bool`` or ``string``.
            is_optional: Whether ``oldSelf`` is an optional value, there also for new objects.

        Raises:
            CelError: It does not compile, or is something else.
        """
        signature = _signature_of(schema)
        self.uses_old = not _compiles_without_old(source, signature)
        self._is_optional = is_optional and self.uses_old
        text = _with_optional_old(source) if self._is_optional else source
        self._program = _compile(text, signature)
        found = self._program.return_type().name().lower()
        if found not in (result, "dyn"):
            raise CelError(f"must evaluate to a {result}")

    def evaluate(self, new: Any, old: Any) -> Any:
        """Return the value; ``new`` and ``old`` come from ``to_cel``, old None where absent.

        Raises:
            CelError: The expression has no value for these.
        """
        given = {SELF: new}
        if self._is_optional:
            given |= {_PRIOR: old, _IS_UPDATE: old is not None}
        elif self.uses_old:
            given[OLD_SELF] = old
        try:
            outcome = self._program.eval(data=given)
        except RuntimeError as error:
            raise CelError(_first_line(error)) from error
        if outcome.type().name() == "ERROR":
            raise CelError(re.sub(r"^[A-Z_]+: ", "", str(outcome.value())))
        return outcome.value()


@lru_cache(maxsize=64)
def _environment(signature: str, *, has_old: bool) -> Any:
    try:
        library = importlib.import_module("cel_expr_python.cel")
        optional = importlib.import_module("cel_expr_python.ext.ext_optional")
        strings = importlib.import_module("cel_expr_python.ext.ext_strings")
    except ModuleNotFoundError as error:
        raise MissingExtraError(
            f"{error.name} is not installed: a local cluster needs the extra `local`; "
            "pip install 'frameworkbarrier[local]'"
        ) from error
    own = library.Type(signature)
    variables = {SELF: own}
    if has_old:
        variables |= {OLD_SELF: own, _PRIOR: library.Type.DYN, _IS_UPDATE: library.Type.BOOL}
    extensions = [optional.ExtOptional(), strings.ExtStrings(), _build_lists(library)]
    return library.NewEnv(variables=variables, extensions=extensions)


def _build_lists(library: Any) -> Any:
    """Build the API server's ``sum`` of a list of numbers, which the library does not have."""
    # The runtime tells overloads apart by the kind list alone, so there is one for all numbers.
    overload = library.Overload(
        "list_sum", library.Type.DYN, [library.Type.LIST], is_member=True, impl=_sum
    )
    return library.CelExtension("numbers", [library.FunctionDecl("sum", [overload])])


def _sum(numbers: Any) -> Any:
    return sum(item for item in numbers)


@lru_cache(maxsize=512)
def _compile(source: str, signature: str) -> Any:
    try:
        return _environment(signature, has_old=True).compile(source)
    except (RuntimeError, ValueError) as error:
        text = re.sub(r"^[A-Z_]+: | \[[A-Z_]+\]$", "", str(error))
        raise CelError(f"compilation failed: {text}") from error


def _compiles_without_old(source: str, signature: str) -> bool:
    if OLD_SELF not in source:
        return True
    try:
        _environment(signature, has_old=False).compile(source)
    except (RuntimeError, ValueError):
        return False
    return True


def _with_optional_old(source: str) -> str:
    # Values handed in cannot be optional ones; a list of one item binds a name to one.
    prior = f"{_IS_UPDATE} ? optional.of({_PRIOR}) : optional.none()"
    return f"[{prior}].all({OLD_SELF}, {source}\n)"


def _first_line(error: Exception) -> str:
    return re.sub(r" \[[A-Z_]+\]$", "", str(error).partition("\n")[0])


def _signature_of(schema: Object) -> str:
    if schema.get("x-kubernetes-int-or-string"):
        return "dyn"
    kind = schema.get("type", "")
    if kind == "string" and schema.get("format") in _TIME_FORMATS:
        return "timestamp"
    if kind in _SCALARS:
        return _SCALARS[kind]
    items, additional = schema.get("items"), schema.get("additionalProperties")
    if kind == "array" and isinstance(items, dict):
        return f"list<{_signature_of(items)}>"
    if kind == "object" and isinstance(additional, dict):
        return f"map<string,{_signature_of(additional)}>"
    return "dyn"


def to_cel(value: Any, schema: Object) -> Any:
    """Return a value as an expression sees it: only what the schema describes, names escaped."""
    if isinstance(value, Mapping):
        return _to_cel_map(value, schema)
    if isinstance(value, list):
        items = schema.get("items")
        return [to_cel(item, items) for item in value] if isinstance(items, dict) else []
    if isinstance(value, int) and schema.get("type") == "number":
        return float(value)
    if isinstance(value, float) and schema.get("type") == "integer":
        return int(value)
    if isinstance(value, str) and schema.get("format") in _TIME_FORMATS:
        return _read_time(value)
    return value


def _to_cel_map(value: Mapping[str, Any], schema: Object) -> dict[str, Any]:
    properties = schema.get("properties") or {}
    additional = schema.get("additionalProperties")
    if isinstance(additional, dict):
        return {name: to_cel(item, additional) for name, item in value.items()}
    return {
        escape_name(name): to_cel(item, properties[name])
        for name, item in value.items()
        if name in properties
    }


def _read_time(text: str) -> Any:
    try:
        return objects.parse_time(text)
    except ValueError:
        pass
    try:
        return datetime.fromisoformat(text).replace(tzinfo=UTC)
    except ValueError:
        return text


def escape_name(name: str) -> str:
    """Return a field's name as expressions write it: ``__dash__`` for ``-`` and the like."""
    if _RESERVED.fullmatch(name):
        return f"__{name}__"
    return re.sub(r"__|[./-]", lambda found: _ESCAPES[found.group()], name)

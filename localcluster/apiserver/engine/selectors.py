"""Label and field selectors: parsed once per request or watch, then matched against objects.

A malformed selector raises ``StatusError`` (400).
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from localcluster.apiserver.model import errors, names
from localcluster.apiserver.model.errors import Object
from localcluster.apiserver.model.objects import get_path
from localcluster.apiserver.model.registry import ResourceType


@dataclass(frozen=True, slots=True)
class Selector:
    """The two selectors of a request, as text."""

    label: str | None = None
    field: str | None = None


@dataclass(frozen=True, slots=True)
class Requirement:
    """One term of a label selector."""

    key: str
    operator: str
    """One of in, notin, exists, absent; equality is ``in`` with one value."""
    values: frozenset[str]

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Return whether labels meet this term."""
        value = labels.get(self.key)
        if self.operator == "in":
            return value is not None and value in self.values
        if self.operator == "notin":
            return value is None or value not in self.values
        if self.operator == "exists":
            return value is not None
        return value is None


@dataclass(frozen=True, slots=True)
class FieldTerm:
    """One term of a field selector."""

    path: str
    value: str
    equal: bool


_WORD = r"[^\s=!<>(),]++"
_TERM = re.compile(
    rf"""\s*+(?:
        !\s*+(?P<absent>{_WORD})
      | (?P<key>{_WORD})\s*+(?:
            (?P<equality>==|!=|=)\s*+(?P<value>{_WORD})?
          | (?P<set>in|notin)\s*+\((?P<values>[^()]*+)\)
        )?
    )\s*+""",
    re.VERBOSE,
)


def parse_label_selector(text: str | None) -> tuple[Requirement, ...]:
    """Read a label selector in its string form."""
    text = (text or "").strip()
    found: list[Requirement] = []
    position = 0
    while position < len(text):
        term = _TERM.match(text, position)
        if term is None:
            raise _unparsable(f"found '{text[position]}', expected: !, or identifier")
        found.append(_read_term(term))
        position = term.end()
        rest = text[position : position + 2]
        if rest == "," or rest[:1] not in ("", ","):
            raise errors.bad_request(f"found '{rest[0]}', expected: ',' or 'end of string'")
        position += 1
    return tuple(found)


def _read_term(term: re.Match[str]) -> Requirement:
    key = term["absent"] or term["key"]
    faults = names.qualified_name_faults(key)
    if faults:
        raise _unparsable(f"<nil>: Invalid value: {errors.quote(key)}: {'; '.join(faults)}")
    if term["absent"]:
        return Requirement(key, "absent", frozenset())
    if term["set"]:
        return Requirement(key, term["set"], _read_values(term["values"].split(",")))
    if term["equality"]:
        operator = "notin" if term["equality"] == "!=" else "in"
        return Requirement(key, operator, _read_values([term["value"] or ""]))
    return Requirement(key, "exists", frozenset())


def _read_values(given: list[str]) -> frozenset[str]:
    values = frozenset(value.strip() for value in given)
    for value in values:
        faults = names.label_value_faults(value)
        if faults:
            raise _unparsable(f"values[0]: Invalid value: {errors.quote(value)}: {faults[0]}")
    return values


def _unparsable(why: str) -> errors.StatusError:
    return errors.bad_request(f"unable to parse requirement: {why}")


def parse_field_selector(rt: ResourceType, text: str | None) -> tuple[FieldTerm, ...]:
    """Read a field selector, of fields that the type can be selected by."""
    if not text:
        return ()
    known = ("metadata.name", "metadata.namespace", *rt.selectable_fields)
    terms: list[FieldTerm] = []
    # A backslash escapes the next character.
    for part in re.findall(r"(?:[^,\\]|\\.)+", text):
        term = _field_term(text, part)
        if term.path not in known:
            raise errors.bad_request(f"field label not supported: {term.path}")
        terms.append(term)
    return tuple(terms)


def _field_term(text: str, part: str) -> FieldTerm:
    match = re.match(r"((?:[^=!\\]|\\.)+?)(==|!=|=)(.*)\Z", part, re.DOTALL)
    if match is None:
        message = f"invalid selector: '{text}'; can't understand '{part}'"
        raise errors.bad_request(message)
    path, operator, value = match.groups()
    if re.search(r"(?<!\\)=", value):
        raise errors.bad_request("invalid field selector: unescaped character in value: 61")
    return FieldTerm(path, re.sub(r"\\(.)", r"\1", value), operator != "!=")


def field_value(obj: Object, path: str) -> str:
    """Return the value that a field selector compares; "" for an absent field."""
    value = get_path(obj, *path.split("."))
    return "" if value is None else str(value)


Matcher = Callable[[Object], bool]


def compile_selector(rt: ResourceType, namespace: str | None, selector: Selector) -> Matcher:
    """Build the test whether an object is in a namespace and matches both selectors."""
    labels = parse_label_selector(selector.label)
    fields = parse_field_selector(rt, selector.field)

    def matches(obj: Object) -> bool:
        metadata = obj["metadata"]
        if namespace is not None and metadata.get("namespace", "") != namespace:
            return False
        if fields and any((field_value(obj, f.path) == f.value) != f.equal for f in fields):
            return False
        if not labels:
            return True
        own = metadata.get("labels") or {}
        return all(requirement.matches(own) for requirement in labels)

    return matches

"""Label and field selectors: parsed once per request or watch, then matched against objects."""

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


_TOKEN = re.compile(r"\s*(==|!=|=|<|>|!|\(|\)|,|[^\s=!<>(),]+)")
_WORD = re.compile(r"[^\s=!<>(),]+")
_SINGLE = {"=": "in", "==": "in", "!=": "notin"}


class _LabelParser:
    def __init__(self, text: str) -> None:
        self._tokens = _tokenize(text)
        self._next = 0

    def parse(self) -> tuple[Requirement, ...]:
        found: list[Requirement] = []
        while self._peek():
            found.append(self._term())
            if not self._peek():
                break
            self._expect(",")
            if not self._peek():
                raise errors.bad_request("found '', expected: identifier after ','")
        return tuple(found)

    def _peek(self) -> str:
        return self._tokens[self._next] if self._next < len(self._tokens) else ""

    def _take(self) -> str:
        token = self._peek()
        self._next += 1
        return token

    def _expect(self, wanted: str) -> None:
        token = self._take()
        if token != wanted:
            if wanted == ",":
                raise errors.bad_request(f"found '{token}', expected: ',' or 'end of string'")
            raise _unparsable(f"found '{token}' expected: '{wanted}'")

    def _term(self) -> Requirement:
        if self._peek() == "!":
            self._take()
            return Requirement(self._key(), "absent", frozenset())
        key = self._key()
        operator = self._peek()
        if operator in ("", ","):
            return Requirement(key, "exists", frozenset())
        self._take()
        if operator in _SINGLE:
            return self._single(key, _SINGLE[operator])
        if operator in ("in", "notin"):
            return Requirement(key, operator, self._values())
        raise _unparsable(f"found '{operator}', expected: in, notin, =, ==, !=, gt, lt")

    def _single(self, key: str, operator: str) -> Requirement:
        token = self._peek()
        value = self._value() if token not in ("", ",") else ""
        return Requirement(key, operator, frozenset((value,)))

    def _key(self) -> str:
        token = self._take()
        if not _WORD.fullmatch(token):
            raise _unparsable(f"found '{token}', expected: !, identifier, or 'end of string'")
        faults = names.qualified_name_faults(token)
        if faults:
            raise _unparsable(f"<nil>: Invalid value: {errors.quote(token)}: {'; '.join(faults)}")
        return token

    def _value(self) -> str:
        token = self._take()
        faults = names.label_value_faults(token)
        if faults:
            raise _unparsable(f"values[0]: Invalid value: {errors.quote(token)}: {faults[0]}")
        return token

    def _values(self) -> frozenset[str]:
        self._expect("(")
        found: set[str] = set()
        while True:
            found.add("" if self._peek() in (",", ")") else self._value())
            token = self._take()
            if token == ")":
                return frozenset(found)
            if token != ",":
                raise _unparsable(f"found '{token}', expected: ',' or ')'")


def _unparsable(why: str) -> errors.StatusError:
    return errors.bad_request(f"unable to parse requirement: {why}")


def _tokenize(text: str) -> list[str]:
    tokens: list[str] = []
    position = 0
    end = len(text.rstrip())
    while position < end:
        match = _TOKEN.match(text, position)
        if match is None:
            raise _unparsable(f"found '{text[position]}'")
        tokens.append(match.group(1))
        position = match.end()
    return tokens


def parse_label_selector(text: str | None) -> tuple[Requirement, ...]:
    """Read a label selector in its string form.

    Raises:
        StatusError: 400 if the grammar is broken.
    """
    if not text or not text.strip():
        return ()
    return _LabelParser(text).parse()


def parse_field_selector(rt: ResourceType, text: str | None) -> tuple[FieldTerm, ...]:
    """Read a field selector and check that the type can be selected by its fields.

    Raises:
        StatusError: 400 if the grammar is broken or a field is not selectable.
    """
    if not text:
        return ()
    known = ("metadata.name", "metadata.namespace", *rt.selectable_fields)
    terms: list[FieldTerm] = []
    for part in _split_escaped(text):
        if not part:
            continue
        term = _field_term(text, part)
        if term.path not in known:
            raise errors.bad_request(f"field label not supported: {term.path}")
        terms.append(term)
    return tuple(terms)


def _split_escaped(text: str) -> list[str]:
    return re.findall(r"(?:[^,\\]|\\.)+", text)


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
    if path == "source":
        path = "source.component"
        value = get_path(obj, "source", "component") or obj.get("reportingComponent")
    else:
        value = get_path(obj, *path.split("."))
    if isinstance(value, bool):
        return "true" if value else "false"
    if value is None:
        return "false" if path in ("spec.hostNetwork", "spec.unschedulable") else ""
    return str(value)


Matcher = Callable[[Object], bool]


def compile_selector(rt: ResourceType, namespace: str | None, selector: Selector) -> Matcher:
    """Build the test whether an object is in a namespace and matches both selectors.

    Raises:
        StatusError: 400 if a selector is malformed.
    """
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


def is_selective(selector: Selector) -> bool:
    """Return whether a selector excludes objects."""
    return bool(selector.label or selector.field)

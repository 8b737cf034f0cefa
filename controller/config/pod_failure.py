"""Reads ``podFailureSpec``: the rules for the completion code of a failed Pod, and its type.

``framework.api.completion`` applies the rules. Names and rules are those of
microsoft/frameworkcontroller ``config.go``. Regular expressions are those of RE2: unanchored, in
linear time. Only this module imports ``re2``.
"""

from collections.abc import Iterator

import re2  # type: ignore[import-untyped]  # it ships no types

from controller.config.field_reader import FieldReader
from framework.api.completion import (
    CONFLICT,
    PERMANENT,
    RESERVED_RANGES,
    TRANSIENT,
    CompletionCodeRule,
    ContainerPattern,
    IntRange,
    PodPattern,
)
from framework.api.types import CompletionType

_FAILED = "Failed"
_KNOWN_ATTRIBUTES = (TRANSIENT, PERMANENT, CONFLICT)


class RegexError(ValueError):
    """A pattern is not a regular expression of RE2; the message has the reason."""


class Regex:
    """A compiled pattern: a ``framework.api.completion.Matcher``."""

    __slots__ = ("_compiled", "pattern")

    def __init__(self, pattern: str) -> None:
        """Compile ``pattern``.

        Raises:
            RegexError: it cannot be compiled.
        """
        options = re2.Options()
        # Otherwise RE2 also prints each bad pattern on standard error.
        options.log_errors = False
        try:
            self._compiled = re2.compile(pattern, options)
        except re2.error as e:
            reason = e.args[0] if e.args else pattern
            text = reason.decode("utf-8", "replace") if isinstance(reason, bytes) else str(reason)
            raise RegexError(text) from e
        self.pattern = pattern

    def find(self, text: str) -> str | None:
        """Return the first match in ``text``, None if there is none."""
        found = self._compiled.search(text)
        if found is None:
            return None
        matched: str = found.group(0)
        return matched

    def __eq__(self, other: object) -> bool:
        """Compare by pattern."""
        return isinstance(other, Regex) and other.pattern == self.pattern

    def __hash__(self) -> int:
        """Hash by pattern."""
        return hash(self.pattern)

    def __repr__(self) -> str:
        """Show the pattern."""
        return f"Regex({self.pattern!r})"


def read_rules(config: FieldReader) -> tuple[CompletionCodeRule, ...]:
    """Read all rules of a config file, in order; faults are recorded in ``config``."""
    first_paths: dict[int, str] = {}
    return tuple(_read_rule(entry, first_paths) for entry in config.read_items("podFailureSpec"))


def _read_rule(entry: FieldReader, first_paths: dict[int, str]) -> CompletionCodeRule:
    code = _read_code(entry, first_paths)
    phrase = entry.read_text("phrase") or ""
    kind = _read_type(entry.read_section("type"))
    patterns = tuple(_read_patterns(entry))
    entry.report_unknown_keys()
    return CompletionCodeRule(code, phrase, kind, patterns)


def _read_code(entry: FieldReader, first_paths: dict[int, str]) -> int:
    code = entry.read_int32("code")
    if code is None:
        entry.fail("code", "is required; give the completion code of this rule")
        return 0
    reserved = ", ".join(f"[{low}, {high}]" for low, high in RESERVED_RANGES)
    if any(low <= code <= high for low, high in RESERVED_RANGES):
        entry.fail("code", f"{code} is reserved; give a code outside {reserved}")
    elif code in first_paths:
        entry.fail(
            "code",
            f"{code} is already defined at {first_paths[code]}; give another code, "
            "or add the podPatterns to that rule",
        )
    first_paths.setdefault(code, entry.path)
    return code


def _read_type(section: FieldReader) -> CompletionType:
    name = section.read_text("name") or _FAILED
    if name != _FAILED:
        section.fail(
            "name", f"must be {_FAILED}, got {name!r}; remove it, {_FAILED} is the default"
        )
    attributes = section.read_texts("attributes")
    for attribute in attributes or ():
        if attribute not in _KNOWN_ATTRIBUTES:
            known = ", ".join(_KNOWN_ATTRIBUTES)
            section.warn("attributes", f"{attribute!r} has no meaning to retries; known: {known}")
    section.report_unknown_keys()
    return CompletionType(_FAILED, attributes)


def _read_patterns(entry: FieldReader) -> Iterator[PodPattern]:
    count = 0
    for pattern in entry.read_items("podPatterns"):
        count += 1
        yield PodPattern(
            name=_read_regex(pattern, "nameRegex"),
            reason=_read_regex(pattern, "reasonRegex"),
            message=_read_regex(pattern, "messageRegex"),
            containers=tuple(_read_container(item) for item in pattern.read_items("containers")),
        )
        pattern.report_unknown_keys()
    if count == 0:
        entry.fail("podPatterns", "must not be empty; give at least one pattern")


def _read_container(pattern: FieldReader) -> ContainerPattern:
    read = ContainerPattern(
        name=_read_regex(pattern, "nameRegex"),
        reason=_read_regex(pattern, "reasonRegex"),
        message=_read_regex(pattern, "messageRegex"),
        signal=_read_range(pattern.read_section("signalRange")),
        code=_read_range(pattern.read_section("codeRange")),
    )
    pattern.report_unknown_keys()
    return read


def _read_regex(pattern: FieldReader, key: str) -> Regex | None:
    text = pattern.read_text(key)
    if text is None:
        return None
    try:
        return Regex(text)
    except RegexError as e:
        pattern.fail(key, f"is not a valid regular expression of RE2: {e}; correct {text!r}")
        return None


def _read_range(section: FieldReader) -> IntRange:
    read = IntRange(section.read_int32("min"), section.read_int32("max"))
    section.report_unknown_keys()
    return read

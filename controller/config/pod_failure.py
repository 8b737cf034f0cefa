"""Reads ``podFailureSpec``: which completion code a failed Pod gets, and of what type it is.

``framework.api.completion`` applies the rules. Names and rules are those of
microsoft/frameworkcontroller ``config.go``.
"""

from collections.abc import Iterator

from controller.config.field_reader import FieldReader
from controller.config.regex import Regex, RegexError
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


def read_rules(config: FieldReader) -> tuple[CompletionCodeRule, ...]:
    """Read all rules of a config file, in order; faults are noted in ``config``."""
    first_paths: dict[int, str] = {}
    return tuple(_read_rule(entry, first_paths) for entry in config.read_items("podFailureSpec"))


def _read_rule(entry: FieldReader, first_paths: dict[int, str]) -> CompletionCodeRule:
    code = _read_code(entry, first_paths)
    phrase = entry.read_text("phrase") or ""
    kind = _read_type(entry.read_section("type"))
    patterns = tuple(_read_patterns(entry))
    entry.note_unknown_keys()
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
    section.note_unknown_keys()
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
        pattern.note_unknown_keys()
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
    pattern.note_unknown_keys()
    return read


def _read_regex(pattern: FieldReader, key: str) -> Regex | None:
    text = pattern.read_text(key)
    if text is None:
        return None
    try:
        return Regex(text)
    except RegexError as e:
        pattern.fail(key, f"is no regular expression of RE2: {e}; mend {text!r}")
        return None


def _read_range(section: FieldReader) -> IntRange:
    read = IntRange(section.read_int32("min"), section.read_int32("max"))
    section.note_unknown_keys()
    return read

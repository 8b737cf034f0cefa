"""Whether the schema of a CRD is a good one: structural, with rules and defaults that hold.

``crds`` calls it for each version of a definition. Costs of rules are not estimated.
"""

import re
from collections.abc import Iterator
from typing import Any

from localcluster.apiserver.model.errors import (
    Cause,
    Object,
    invalid_value,
    not_supported,
    required,
)
from localcluster.apiserver.model.objects import copy_json
from localcluster.apiserver.schemas import rules, structural, validation
from localcluster.apiserver.schemas.cel import CelError
from localcluster.apiserver.schemas.correlation import LIST_MAP_KEYS, LIST_TYPE

_ANY_TYPE = ("x-kubernetes-int-or-string", "x-kubernetes-preserve-unknown-fields")
_UNNAMED = ("", "<nil>")
_REASONS = tuple(f"FieldValue{name}" for name in ("Duplicate", "Forbidden", "Invalid", "Required"))


def schema_faults(declared: Any, path: str) -> list[Cause]:
    """Find what the API server refuses in a schema and in those below it."""
    return list(_schema_faults(declared, path, is_correlatable=True))


def _schema_faults(declared: Any, path: str, *, is_correlatable: bool) -> Iterator[Cause]:
    if not isinstance(declared, dict):
        return
    yield from _pattern_faults(declared, path)
    yield from _list_faults(declared, path)
    for index, rule in enumerate(declared.get(rules.RULES) or ()):
        where = f"{path}.{rules.RULES}[{index}]"
        yield from _rule_faults(rule, declared, where, is_correlatable=is_correlatable)
    below = list(_schemas_below(declared, path))
    for where, item, what in below:
        if isinstance(item, dict) and not item.get("type") and not any(map(item.get, _ANY_TYPE)):
            yield required(f"{where}.type", f"must not be empty for specified {what}")
    knows_items = declared.get("type") != "array" or declared.get(LIST_TYPE) == "map"
    for where, item, _ in below:
        yield from _schema_faults(item, where, is_correlatable=is_correlatable and knows_items)
    if declared.get("default") is not None:
        yield from _default_faults(declared, f"{path}.default")


def _schemas_below(declared: Object, path: str) -> Iterator[tuple[str, Any, str]]:
    for name, item in (declared.get("properties") or {}).items():
        yield f"{path}.properties[{name}]", item, "object fields"
    if isinstance(declared.get("items"), dict):
        yield f"{path}.items", declared["items"], "array items"
    if isinstance(declared.get("additionalProperties"), dict):
        yield f"{path}.additionalProperties", declared["additionalProperties"], "object fields"


def _pattern_faults(declared: Object, path: str) -> Iterator[Cause]:
    pattern = declared.get("pattern")
    if not pattern:
        return
    try:
        re.compile(pattern)
    except re.error as error:
        yield invalid_value(f"{path}.pattern", pattern, f"must be a valid regex: {error}")


def _list_faults(declared: Object, path: str) -> Iterator[Cause]:
    if declared.get(LIST_TYPE) != "map":
        return
    keys = declared.get(LIST_MAP_KEYS) or ()
    if not keys:
        text = f"must not be empty if {LIST_TYPE} is map"
        yield required(f"{path}.{LIST_MAP_KEYS}", text)
    items = declared.get("items") or {}
    for key in keys:
        known = (items.get("properties") or {}).get(key)
        if (
            known is not None
            and "default" not in known
            and key not in (items.get("required") or ())
        ):
            text = (
                f"this property is in {LIST_MAP_KEYS}, so it must have a default or be a "
                "required property"
            )
            yield required(f"{path}.items.properties[{key}].default", text)


def _rule_faults(
    rule: Any, declared: Object, path: str, *, is_correlatable: bool
) -> Iterator[Cause]:
    if not str(rule.get("rule") or "").strip():
        yield required(f"{path}.rule", "rule is not specified")
        return
    yield from _text_faults(rule, declared, path)
    shown = {
        name[0].upper() + name[1:]: rule.get(name, empty)
        for name, empty in (
            ("rule", ""),
            ("message", ""),
            ("messageExpression", ""),
            ("reason", None),
            ("fieldPath", ""),
            ("optionalOldSelf", None),
        )
    }
    try:
        compiled = rules.compile_rule({**rule, "messageExpression": ""}, declared)
    except CelError as error:
        text = str(error).replace("must evaluate", "cel expression must evaluate", 1)
        yield invalid_value(f"{path}.rule", shown, text)
        return
    try:
        rules.compile_rule(rule, declared)
    except CelError as error:
        yield invalid_value(f"{path}.messageExpression", shown, f"messageExpression {error}")
    if compiled.expression.uses_old and not is_correlatable:
        text = "oldSelf cannot be used on the uncorrelatable portion of the schema"
        yield invalid_value(f"{path}.rule", rule["rule"], text)
    if rule.get("optionalOldSelf") is not None and not compiled.expression.uses_old:
        text = "may not be set if oldSelf is not used in rule"
        yield invalid_value(f"{path}.optionalOldSelf", rule["optionalOldSelf"], text)


def _text_faults(rule: Object, declared: Object, path: str) -> Iterator[Cause]:
    message = rule.get("message")
    if message and not message.strip():
        yield invalid_value(f"{path}.message", message, "must be non-empty if specified")
    elif message and "\n" in message.strip():
        yield invalid_value(f"{path}.message", message, "must not contain line breaks")
    elif not message and "\n" in rule["rule"].strip():
        text = "message must be specified if rule contains line breaks"
        yield required(f"{path}.message", text)
    reason = rule.get("reason")
    if reason is not None and reason not in _REASONS:
        yield not_supported(f"{path}.reason", reason, _REASONS)
    field_path = rule.get("fieldPath")
    if field_path and not _is_field(field_path, declared):
        yield invalid_value(f"{path}.fieldPath", field_path, "must be a valid path")


def _is_field(field_path: str, declared: Object) -> bool:
    names = re.findall(r"\.([^.\[\]]+)|\['((?:[^'\\]|\\.)+)'\]", field_path)
    if not names or not field_path.startswith((".", "[")):
        return False
    inner: Any = declared
    for plain, quoted in names:
        additional = inner.get("additionalProperties")
        inner = (inner.get("properties") or {}).get(plain or quoted, additional)
        if not isinstance(inner, dict):
            return False
    return True


def _default_faults(declared: Object, path: str) -> Iterator[Cause]:
    value = declared["default"]
    if structural.find_unknown(copy_json(value), declared):
        yield invalid_value(path, value, "must not have unknown fields")
        return
    found = validation.value_faults(value, declared, "")
    if not found:
        found = _default_rule_faults(value, declared)
    for cause in found:
        inside = "" if cause.field in _UNNAMED else f".{cause.field}"
        yield Cause(cause.type, path + inside, cause.message)


def _default_rule_faults(value: Any, declared: Object) -> list[Cause]:
    try:
        tree = rules.compile_tree(declared)
    except CelError:
        # Told where the rule stands.
        return []
    return [] if tree is None else rules.rule_faults(tree, value)

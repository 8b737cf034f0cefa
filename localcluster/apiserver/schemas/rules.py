"""Validation rules of CRDs (``x-kubernetes-validations``), evaluated on custom objects.

``customs`` calls ``rule_faults`` for each write once the schema has nothing against the object,
``definitions`` calls ``compile_rule`` for each definition. A rule that an unchanged value
breaks is tolerated, unless it compares with the old value. There is no budget of costs.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from localcluster.apiserver.model.errors import (
    Cause,
    Object,
    duplicate,
    invalid_value,
    not_allowed,
    required,
)
from localcluster.apiserver.schemas.cel import CelError, Expression, to_cel
from localcluster.apiserver.schemas.correlation import Correlation

RULES = "x-kubernetes-validations"
MAX_MESSAGE_BYTES = 5120

_BLOCKING = frozenset(
    f"FieldValue{kind}"
    for kind in ("NotSupported", "Required", "TooLong", "TooMany", "TypeInvalid")
)


@dataclass(frozen=True)
class Rule:
    """One compiled rule."""

    declared: Object
    expression: Expression
    message: Expression | None

    @property
    def text(self) -> str:
        """What messages call the rule."""
        return str(self.declared.get("message") or self.declared["rule"]).strip()


@dataclass(frozen=True)
class RuleTree:
    """The rules of one schema and of those below it that have any."""

    schema: Object
    rules: tuple[Rule, ...]
    properties: dict[str, "RuleTree"]
    additional: "RuleTree | None"
    items: "RuleTree | None"


def compile_rule(declared: Object, schema: Object) -> Rule:
    """Compile a rule of a schema.

    Raises:
        CelError: It does not compile or is no condition.
    """
    is_optional = bool(declared.get("optionalOldSelf"))
    expression = Expression(declared["rule"], schema, "bool", is_optional=is_optional)
    text = declared.get("messageExpression")
    message = Expression(text, schema, "string", is_optional=is_optional) if text else None
    return Rule(declared, expression, message)


def compile_object(schema: Object) -> RuleTree | None:
    """Compile the rules of a whole object; the one at its root also sees what names it."""
    text = {"type": "string"}
    known = schema.get("properties") or {}
    metadata = known.get("metadata") or {}
    named = {"name": text, "generateName": text} | (metadata.get("properties") or {})
    properties = {
        "apiVersion": text,
        "kind": text,
        **known,
        "metadata": {"type": "object", **metadata, "properties": named},
    }
    return compile_tree({**schema, "properties": properties})


def compile_tree(schema: Object) -> RuleTree | None:
    """Compile all rules of a schema whose definition was accepted; None if there are none."""
    rules = tuple(compile_rule(declared, schema) for declared in schema.get(RULES) or ())
    below = {
        name: tree
        for name, inner in (schema.get("properties") or {}).items()
        if (tree := compile_tree(inner)) is not None
    }
    additional, items = schema.get("additionalProperties"), schema.get("items")
    additional_tree = compile_tree(additional) if isinstance(additional, dict) else None
    items_tree = compile_tree(items) if isinstance(items, dict) else None
    if not (rules or below or additional_tree or items_tree):
        return None
    return RuleTree(schema, rules, below, additional_tree, items_tree)


def is_blocking(faults: list[Cause]) -> bool:
    """Return whether the schema's faults are such that rules cannot be looked at."""
    return any(fault.type in _BLOCKING for fault in faults)


def unchecked_fault() -> Cause:
    """Say that the rules were left out."""
    text = (
        "some validation rules were not checked because the object was invalid; "
        "correct the existing errors to complete validation"
    )
    return invalid_value("<nil>", None, text)


def rule_faults(
    tree: RuleTree, new: Any, held: Correlation | None = None, path: str = ""
) -> list[Cause]:
    """Evaluate all rules on a value; ``held`` is its correlation with the one it replaces."""
    return list(_walk(tree, new, path, held, None))


def _walk(
    tree: RuleTree, new: Any, path: str, held: Correlation | None, above: Correlation | None
) -> Iterator[Cause]:
    """Yield the faults of a value; ``above``: of the nearest value above that was correlated."""
    if new is None:
        return
    nearest = held if held is not None else above
    if tree.rules:
        yield from _rule_faults(tree, new, path, held, nearest)
    if isinstance(new, dict):
        for name, item in new.items():
            below, where = tree.additional, f"{path}[{name}]"
            if name in tree.properties:
                below, where = tree.properties[name], f"{path}.{name}" if path else name
            if below is not None:
                known = None if held is None else held.key(name)
                yield from _walk(below, item, where, known, nearest)
    elif isinstance(new, list) and tree.items is not None:
        for index, item in enumerate(new):
            known = None if held is None else held.item(index)
            yield from _walk(tree.items, item, f"{path}[{index}]", known, nearest)


def _rule_faults(
    tree: RuleTree, new: Any, path: str, held: Correlation | None, nearest: Correlation | None
) -> Iterator[Cause]:
    old = None if held is None or held.old is None else to_cel(held.old, tree.schema)
    given = to_cel(new, tree.schema)
    shown = tree.schema.get("type", "")
    for rule in tree.rules:
        expression = rule.expression
        if expression.uses_old and old is None and not rule.declared.get("optionalOldSelf"):
            continue
        try:
            is_met = expression.evaluate(given, old) is True
        except CelError as error:
            yield invalid_value(path or "<nil>", shown, f"{error} evaluating rule: {rule.text}")
            continue
        if is_met or (not expression.uses_old and nearest is not None and nearest.is_equal()):
            continue
        yield _broken(rule, path, shown, _message_of(rule, given, old))


def _message_of(rule: Rule, new: Any, old: Any) -> str:
    if rule.message is not None:
        try:
            text = str(rule.message.evaluate(new, old)).strip()
        except CelError:
            text = ""
        if text and "\n" not in text and len(text) <= MAX_MESSAGE_BYTES:
            return text
    declared = rule.declared.get("message")
    return str(declared).strip() if declared else f"failed rule: {rule.text}"


def _broken(rule: Rule, path: str, shown: str, message: str) -> Cause:
    inside = str(rule.declared.get("fieldPath") or "").strip().lstrip(".")
    where = ".".join(part for part in (path, inside) if part) or "<nil>"
    reason = rule.declared.get("reason")
    if reason == "FieldValueForbidden":
        return not_allowed(where, message)
    if reason == "FieldValueRequired":
        return required(where, message)
    if reason == "FieldValueDuplicate":
        return duplicate(where, shown)
    return invalid_value(where, shown, message)

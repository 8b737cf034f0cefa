"""The rules of the Framework CRD (``x-kubernetes-validations``), checked without CEL.

A rule is recognized by its text, which ``framework.api.crd`` also writes into the CRD; the check in
Python reads the same limits and transitions. Rules of other CRDs are stored and never checked
(docs/adr/0013). A rule that does not read the old value tolerates a value that an update leaves
unchanged.
"""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from framework.api import constants, crd
from framework.api.naming import is_framework_name
from framework.api.validation import EXECUTION_TRANSITIONS
from localcluster.apiserver.model import objects
from localcluster.apiserver.model.errors import Cause, Object, invalid_value

_BLOCKING = frozenset(
    f"FieldValue{kind}"
    for kind in ("NotSupported", "Required", "TooLong", "TooMany", "TypeInvalid")
)


class Rule(NamedTuple):
    """A rule of a schema that this server can check."""

    path: tuple[str, ...]
    declared: Object
    type_name: str


def find_rules(schema: Object, path: tuple[str, ...] = ()) -> list[Rule]:
    """Return the rules of a schema, and of the fields below it, that can be checked."""
    found = [
        Rule(path, declared, schema.get("type", ""))
        for declared in schema.get(crd.RULES_KEY) or ()
        if declared["rule"] in _CHECKS
    ]
    for name, inner in (schema.get("properties") or {}).items():
        found += find_rules(inner, (*path, name))
    return found


def is_blocking(faults: list[Cause]) -> bool:
    """Return whether these faults of the schema prevent a check of the rules."""
    return any(fault.type in _BLOCKING for fault in faults)


def rule_faults(rules: list[Rule], new: Object, old: Object | None) -> Iterator[Cause]:
    """Yield the broken rules of an object; ``old`` is the object it replaces, if any."""
    for rule in rules:
        value = objects.get_path(new, *rule.path)
        before = None if old is None else objects.get_path(old, *rule.path)
        if value is not None and not _is_met(rule.declared, value, before):
            yield invalid_value(".".join(rule.path), rule.type_name, rule.declared["message"])


def _is_met(declared: Object, value: Any, before: Any) -> bool:
    is_of_value_alone = declared["rule"] == crd.NAME_RULE["rule"]
    if is_of_value_alone and value == before:
        return True
    if before is None and not is_of_value_alone and not declared.get("optionalOldSelf"):
        return True
    return _CHECKS[declared["rule"]](value, before)


def _may_follow(new: str, old: str) -> bool:
    allowed = {source.value: targets for source, targets in EXECUTION_TRANSITIONS.items()}
    return new == old or old not in allowed or new in allowed[old]


def _count_tasks(roles: list[Object]) -> int:
    if len(roles) > constants.MAX_TASK_ROLES:
        return 0
    return sum(role.get("taskNumber", 0) for role in roles)


_Check = Callable[[Any, Any], bool]


def _limit_checks(
    rules: list[Object], count: Callable[[list[Object]], int], limit: int
) -> dict[str, _Check]:
    of_creates, of_updates = (rule["rule"] for rule in rules)
    return {
        of_creates: lambda new, old: old is not None or count(new) <= limit,
        of_updates: lambda new, old: count(new) <= max(limit, count(old)),
    }


_CHECKS: dict[str, _Check] = {
    crd.NAME_RULE["rule"]: lambda new, _: is_framework_name(new),
    crd.EXECUTION_TYPE_RULE["rule"]: _may_follow,
    **_limit_checks(crd.ROLE_LIMIT_RULES, len, constants.MAX_TASK_ROLES),
    **_limit_checks(crd.TASK_LIMIT_RULES, _count_tasks, constants.MAX_TASKS),
}

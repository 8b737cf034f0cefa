"""The CustomResourceDefinition of a Framework, built from the codec's tables.

Called by ``tools/manifests.py``, which writes it to deploy/base/crd.yaml, and by the local cluster.
Shapes and nullability come from ``codec``; here are only the limits, defaults and descriptions,
keyed by path, and what a CRD needs besides its schema.

Three laws of the API server decide the form. A null where the schema does not say nullable is
dropped without a word. Unknown keys are dropped unless *each* object that may have some says that
it keeps them. Stored objects must pass too whenever their status is written, so the spec has no
limit that the Go original's CRD had not, except on fields that are ours, that no two roles have one
name, and that executionType goes forward; and nothing the controller writes is limited. A role may
have no name, which is the name "": the key of a list map must be there, and a server does not let
it be missing from a stored object in any later write, not even in one that takes a finalizer away.

Rules in CEL are on single values, never on the whole object: a value that a write leaves as it is
may break them (Kubernetes >= 1.30), while the whole object changes with each status. They are there
where a message with the remedy helps; what a number or a list may be, the plain limits say.

That tolerance does not hold for taskRoles: a server never takes a value for unchanged that contains
something without a schema, and each role has a Pod template. So the limits of roles and Tasks are
rules that compare with the old value: a create must keep them, and an update must not exceed them
further. A stored Framework beyond them accepts every status write, on every version of Kubernetes.
What the fields mean: docs/api.md, "Framework".
"""

from copy import deepcopy
from typing import Any

from framework.api import codec, constants
from framework.api.naming import FRAMEWORK_NAME_PATTERN, STORED_ROLE_NAME_PATTERN
from framework.api.types import ExecutionType
from framework.api.validation import (
    EXECUTION_TRANSITIONS,
    describe_role_limit,
    describe_task_limit,
)
from framework.api.wire import Field, Kind

_ROLE = "spec.taskRoles[]"
_TASK = f"{_ROLE}.task"
_COUNTS = f"{_ROLE}.frameworkAttemptCompletionPolicy"
_ATTEMPT = "status.attemptStatus"

# Kept as it is, without a schema of its own: the API server took 230 ms to check a status write of
# 1,100 Tasks against one, and 70 ms without.
_OPAQUE = f"{_ATTEMPT}.{codec.TASK_ROLE_STATUSES}[]"

RULES_KEY = "x-kubernetes-validations"
_LISTED_BY_NAME = {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]}
_LISTED_BY_TYPE = {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]}


def _build_forward_rule() -> str:
    """Build a condition of ``oldSelf`` and ``self``; any value may follow one not known here."""
    conditions = []
    for source, targets in EXECUTION_TRANSITIONS.items():
        allowed = [source.value, *sorted(target.value for target in targets)]
        if len(allowed) < len(ExecutionType):
            conditions.append(f"(oldSelf != '{source}' || self in {allowed})")
    return " && ".join(conditions)


EXECUTION_TYPE_RULE = {
    "rule": _build_forward_rule(),
    "message": (
        "executionType only goes forward: Create, Start, Stop; to run the Framework again, delete "
        "it and create it anew"
    ),
}
# Beside the pattern, which older API servers know too: it says in words what to do.
NAME_RULE = {
    "rule": f"self.matches('{FRAMEWORK_NAME_PATTERN}')",
    "message": (
        "name the Framework with 1 to 63 of a-z, 0-9 and '-', beginning and ending with a letter "
        "or digit"
    ),
}


# Bounds the estimated cost of the rules, which the API server compares with a budget. More roles
# than this do not fit into an object that etcd stores, if they have a Pod template.
_MAX_STORED_ROLES = 65536
# Of more roles than there may be, the Tasks are not counted: the cost at run time has a limit too.
_COUNT_TASKS = (
    f"(size({{0}}) > {constants.MAX_TASK_ROLES} ? 0 : "
    "{0}.map(r, has(r.taskNumber) ? r.taskNumber : 0).sum())"
)
# True for every update. On Kubernetes 1.29 the server drops optionalOldSelf, and oldSelf is the old
# list itself: there these rules say nothing, and the controller alone limits new Frameworks.
_IS_UPDATE = "type(dyn(oldSelf)) == list || dyn(oldSelf).hasValue()"


def _limit_growth(count: str, limit: int, message: str) -> list[dict[str, Any]]:
    """Build the rules that limit ``count`` of a list: of creates, then of updates."""
    new, old = count.format("self"), count.format("oldSelf")
    return [
        {
            "rule": f"{_IS_UPDATE} || {new} <= {limit}",
            "message": message,
            "optionalOldSelf": True,
        },
        {"rule": f"{new} <= {limit} || {new} <= {old}", "message": message},
    ]


ROLE_LIMIT_RULES = _limit_growth(
    "size({0})", constants.MAX_TASK_ROLES, describe_role_limit(constants.MAX_TASK_ROLES)
)
"""Of creates and of updates, in this order."""
TASK_LIMIT_RULES = _limit_growth(
    _COUNT_TASKS, constants.MAX_TASKS, describe_task_limit(constants.MAX_TASKS)
)
"""Of creates and of updates, in this order."""

# What the codec's tables do not know. The keys of a list map must be required or defaulted.
_RULES: dict[str, dict[str, Any]] = {
    "spec.description": {"nullable": True},
    "spec.executionType": {"default": ExecutionType.START.value, RULES_KEY: [EXECUTION_TYPE_RULE]},
    "spec.retryPolicy.maxRetryCount": {"minimum": constants.EXTENDED_UNLIMITED},
    "spec.taskRoles": {
        **_LISTED_BY_NAME,
        "maxItems": _MAX_STORED_ROLES,
        RULES_KEY: [*ROLE_LIMIT_RULES, *TASK_LIMIT_RULES],
    },
    f"{_ROLE}.name": {"default": "", "pattern": STORED_ROLE_NAME_PATTERN},
    f"{_ROLE}.taskNumber": {"minimum": 0, "maximum": constants.MAX_TASK_NUMBER},
    f"{_COUNTS}.minFailedTaskCount": {"minimum": constants.UNLIMITED},
    f"{_COUNTS}.minSucceededTaskCount": {"minimum": constants.UNLIMITED},
    f"{_ROLE}.{constants.ABSENT_TASK_INDICES_FIELD}": {
        "nullable": True,
        # Not a set: for a set of 10,000 the API server takes seconds, because managedFields lists
        # every item. An index that is there twice means what it means once.
        "x-kubernetes-list-type": "atomic",
        "maxItems": constants.MAX_ABSENT_TASK_INDICES,
    },
    f"{_ROLE}.{constants.ABSENT_TASK_INDICES_FIELD}[]": {"minimum": 0},
    f"{_ROLE}.{constants.MIN_MEMBER_COUNT_FIELD}": {"minimum": 0},
    f"{_ROLE}.{constants.DRAIN_FIELD}.{constants.DRAIN_TIMEOUT_FIELD}": {"minimum": 0},
    f"{_TASK}.retryPolicy.maxRetryCount": {"minimum": constants.EXTENDED_UNLIMITED},
    f"status.{constants.CONDITIONS_FIELD}": _LISTED_BY_TYPE,
    f"status.{constants.CONDITIONS_FIELD}[]": {"required": ["type"]},
}

# What `kubectl explain` says. docs/api.md tells more.
_DESCRIPTIONS = {
    "spec": "What the user asks for. The controller never writes it.",
    "spec.description": "Free text; the controller does not read it.",
    "spec.executionType": (
        "Create: wait; Start: run; Stop: complete now with code -210. Only forward."
    ),
    "spec.retryPolicy": "When a completed attempt of the Framework is followed by another.",
    "spec.retryPolicy.fancyRetryPolicy": (
        "Look at the completion type first: transient failures are retried and not counted, "
        "permanent ones never retried."
    ),
    "spec.retryPolicy.maxRetryCount": (
        "Most retries that count; -1: retry every failure; -2: retry every completion."
    ),
    "spec.taskRoles": "The roles of the gang, names unique.",
    f"{_ROLE}.name": "Name of the role, unlike the others': 1 to 63 of a-z and 0-9.",
    f"{_ROLE}.taskNumber": "How many Tasks: those of index 0 to taskNumber - 1. May be changed.",
    _COUNTS: "Counts of Tasks that complete the attempt; 0 or -1 is no such policy.",
    f"{_COUNTS}.minFailedTaskCount": "So many Failed Tasks complete the attempt.",
    f"{_COUNTS}.minSucceededTaskCount": "So many Succeeded Tasks complete the attempt.",
    _TASK: "What every Task of the role is.",
    f"{_TASK}.retryPolicy": "When a completed attempt of a Task is followed by another.",
    f"{_TASK}.retryPolicy.fancyRetryPolicy": "As in spec.retryPolicy.",
    f"{_TASK}.retryPolicy.maxRetryCount": "As in spec.retryPolicy.",
    f"{_TASK}.podGracefulDeletionTimeoutSec": (
        "Seconds after which a Pod being deleted is deleted by force; null: never."
    ),
    f"{_TASK}.pod": "Template of the Task's Pod: any PodTemplateSpec; {{FC_...}} is replaced.",
    f"{_ROLE}.{constants.ABSENT_TASK_INDICES_FIELD}": (
        "Wanted gaps: Tasks of these indexes do not exist. Indexes from taskNumber on are ignored."
    ),
    f"{_ROLE}.{constants.MIN_MEMBER_COUNT_FIELD}": (
        "Quorum with which the gang may start; null: all. More than there are means all."
    ),
    f"{_ROLE}.{constants.DRAIN_FIELD}": "Let a Task scaled down leave its gang before it goes.",
    f"{_ROLE}.{constants.DRAIN_FIELD}.{constants.DRAIN_TIMEOUT_FIELD}": (
        "Most seconds the gang may take to let it go."
    ),
    f"spec.{constants.COMPLETED_POD_POLICY_FIELD}": (
        "What becomes of the Pod of a Task that is finally Completed. Default: Delete."
    ),
    "status": "What the controller knows and did. Only the controller writes it.",
    "status.state": "State of the Framework.",
    f"status.{constants.CONDITIONS_FIELD}": "Conditions as other Kubernetes objects have them.",
    f"status.{constants.OBSERVED_GENERATION_FIELD}": "Generation of the spec this status is of.",
    _ATTEMPT: "The current attempt, or the last one.",
    f"{_ATTEMPT}.id": "Number of the attempt, from 0.",
    f"{_ATTEMPT}.completionStatus": "Why the attempt ended; null while it has not.",
    f"{_ATTEMPT}.taskRoleStatuses": "The Tasks by role; null where compressed.",
    f"{_ATTEMPT}.{codec.TASK_ROLE_STATUSES_COMPRESSED}": (
        "taskRoleStatuses as base64 of gzipped JSON, where they are large."
    ),
}

_MAX_NAME_LENGTH = 63

_COLUMNS = (
    ("State", "string", ".status.state", 0),
    ("Attempt", "integer", ".status.attemptStatus.id", 0),
    ("Tasks", "string", ".status.readyTasks", 0),
    ("Code", "integer", ".status.attemptStatus.completionStatus.code", 0),
    ("Age", "date", ".metadata.creationTimestamp", 0),
    ("Execution", "string", ".spec.executionType", 1),
    ("Phrase", "string", ".status.attemptStatus.completionStatus.phrase", 1),
)


def build_crd() -> dict[str, Any]:
    """Build the CustomResourceDefinition: equal in every call, a new dict in each."""
    version = {
        "name": constants.VERSION,
        "served": True,
        "storage": True,
        "subresources": {"status": {}},
        "additionalPrinterColumns": [
            {"name": name, "type": kind, "jsonPath": path}
            | ({"priority": priority} if priority else {})
            for name, kind, path, priority in _COLUMNS
        ],
        "schema": {"openAPIV3Schema": build_schema()},
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": constants.FRAMEWORK_CRD_NAME},
        "spec": {
            "group": constants.GROUP,
            "scope": "Namespaced",
            # Said aloud, because one that was stored as v1beta1 may say true.
            "preserveUnknownFields": False,
            "names": {
                "kind": constants.FRAMEWORK_KIND,
                "listKind": f"{constants.FRAMEWORK_KIND}List",
                "plural": constants.FRAMEWORK_PLURAL,
                "singular": constants.FRAMEWORK_KIND.lower(),
                "shortNames": ["fw"],
                "categories": ["all"],
            },
            "versions": [version],
        },
    }


def build_schema() -> dict[str, Any]:
    """Build the structural schema of a whole Framework."""
    spec = _build(codec.SPEC.kind(), "spec", is_kept=False)
    status = _build(codec.STATUS.kind(), "status", is_kept=True)
    attempt = status["properties"]["attemptStatus"]["properties"]
    compressed = f"{_ATTEMPT}.{codec.TASK_ROLE_STATUSES_COMPRESSED}"
    attempt[codec.TASK_ROLE_STATUSES_COMPRESSED] = {
        "type": "string",
        "description": _DESCRIPTIONS[compressed],
        "nullable": True,
    }
    return {
        "type": "object",
        "description": "A gang of Pods that run, fail and are retried together.",
        "properties": {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "metadata": {
                "type": "object",
                "properties": {
                    "name": {
                        "type": "string",
                        "pattern": FRAMEWORK_NAME_PATTERN,
                        # Bounds the cost of the rule; the original's pattern had it too.
                        "maxLength": _MAX_NAME_LENGTH,
                        RULES_KEY: [dict(NAME_RULE)],
                    }
                },
            },
            "spec": spec,
            "status": status | {"nullable": True},
        },
    }


def _build(kind: Kind, path: str, *, is_kept: bool) -> dict[str, Any]:
    """Build the schema of one value; ``is_kept``: objects keep keys they do not know."""
    schema: dict[str, Any] = {"type": "string" if kind.name == "time" else kind.name}
    if kind.name == "time":
        schema["format"] = "date-time"
    if path in _DESCRIPTIONS:
        schema["description"] = _DESCRIPTIONS[path]
    # An enum of status would refuse to write back what a newer controller had stored.
    if kind.members and not is_kept:
        schema["enum"] = list(kind.members)
    fields = () if path == _OPAQUE else kind.fields
    if fields:
        schema["properties"] = {
            field.wire: _build_field(field, f"{path}.{field.wire}", is_kept=is_kept)
            for field in fields
        }
    if kind.name == "object" and (is_kept or not fields):
        schema["x-kubernetes-preserve-unknown-fields"] = True
    if kind.item is not None:
        schema["items"] = _build(kind.item, f"{path}[]", is_kept=is_kept)
    return schema | deepcopy(_RULES.get(path, {}))


def _build_field(field: Field, path: str, *, is_kept: bool) -> dict[str, Any]:
    schema = _build(field.kind, path, is_kept=is_kept)
    # Go writes a nil slice as null.
    if field.nullable or (is_kept and field.kind.name == "array"):
        schema["nullable"] = True
    return schema

"""The CustomResourceDefinition of a Framework, built from the codec's tables.

``tools/manifests.py`` writes it to deploy/base/crd.yaml. Types and nullability come from ``codec``.
This module has the limits, defaults and descriptions, by path, and the other parts of a CRD.

Four rules of the API server determine the CRD:

1. A null is dropped silently unless its schema is nullable.
2. Unknown keys are dropped unless the schema of *each* object that may have some keeps them.
3. A status write validates the stored spec, too. So the spec has no limit that the CRD of the
   original lacks, except on fields that are not in the original, on duplicate role names, and on
   changes of executionType. Fields that the controller writes have no limit.
4. The key of a list map must be present in every stored object, also in a write that removes a
   finalizer. So a role without a name has the name "".

CEL rules are for single values, with a message that contains the remedy. A write that does not
change a value may keep an invalid one (Kubernetes >= 1.30).

That is not true for taskRoles: a value that contains something without a schema (a Pod template) is
never regarded as unchanged. So the limits of roles and Tasks compare with the old value: a create
must keep them, and an update must not exceed them further. A stored Framework beyond the limits
accepts every status write, on every version of Kubernetes.

docs/api.md, "Framework", has the meaning of the fields.
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
_IN_PLACE = f"{_ROLE}.{constants.RECOVERY_FIELD}.{constants.IN_PLACE_FIELD}"
_LEAVE_NODES = f"{_ROLE}.{constants.RECOVERY_FIELD}.{constants.LEAVE_NODES_FIELD}"
_AVOID_NODES = f"{_ROLE}.{constants.RECOVERY_FIELD}.{constants.AVOID_NODES_FIELD}"
_ATTEMPT = "status.attemptStatus"

# Not validated: with a schema, a status write of 1,100 Tasks took 230 ms at the API server, without
# it 70 ms.
_OPAQUE = f"{_ATTEMPT}.{codec.TASK_ROLE_STATUSES}[]"

RULES_KEY = "x-kubernetes-validations"
_LISTED_BY_NAME = {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]}
_LISTED_BY_TYPE = {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]}


def _build_forward_rule() -> str:
    """Build a condition of ``oldSelf`` and ``self``; any value may follow an unknown one."""
    conditions = []
    for source, targets in EXECUTION_TRANSITIONS.items():
        allowed = [source.value, *sorted(target.value for target in targets)]
        if len(allowed) < len(ExecutionType):
            conditions.append(f"(oldSelf != '{source}' || self in {allowed})")
    return " && ".join(conditions)


EXECUTION_TYPE_RULE = {
    "rule": _build_forward_rule(),
    "message": (
        "executionType can change only from Create to Start to Stop; to run the Framework "
        "again, delete it and create it again"
    ),
}
# In addition to the pattern: its message contains the remedy.
NAME_RULE = {
    "rule": f"self.matches('{FRAMEWORK_NAME_PATTERN}')",
    "message": (
        "name the Framework with 1 to 63 characters of a-z, 0-9 and '-', beginning and ending "
        "with a letter or digit"
    ),
}


# Bounds the estimated cost of the rules, which the API server compares with a budget. More roles
# than this do not fit into an object that etcd stores, if they have a Pod template.
_MAX_STORED_ROLES = 65536
# With too many roles, the Tasks are not counted: the cost at run time has a limit, too.
_COUNT_TASKS = (
    f"(size({{0}}) > {constants.MAX_TASK_ROLES} ? 0 : "
    "{0}.map(r, has(r.taskNumber) ? r.taskNumber : 0).sum())"
)
# True for every update. On Kubernetes 1.29 the server drops optionalOldSelf, and oldSelf is the old
# list itself: these rules have no effect then, and only the controller limits new Frameworks.
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
"""Rules for creates and for updates, in this order."""
TASK_LIMIT_RULES = _limit_growth(
    _COUNT_TASKS, constants.MAX_TASKS, describe_task_limit(constants.MAX_TASKS)
)
"""Rules for creates and for updates, in this order."""

# Not in the tables of the codec. The keys of a list map must be required or have a default.
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
        # every item. A repeated index has no further effect.
        "x-kubernetes-list-type": "atomic",
        "maxItems": constants.MAX_ABSENT_TASK_INDICES,
    },
    f"{_ROLE}.{constants.ABSENT_TASK_INDICES_FIELD}[]": {"minimum": 0},
    f"{_ROLE}.{constants.MIN_MEMBER_COUNT_FIELD}": {"minimum": 0},
    f"{_ROLE}.{constants.DRAIN_FIELD}.{constants.DRAIN_TIMEOUT_FIELD}": {"minimum": 0},
    f"{_IN_PLACE}.{constants.MAX_RESTARTS_FIELD}": {
        "minimum": 1,
        "maximum": constants.MAX_IN_PLACE_RESTARTS,
    },
    f"{_IN_PLACE}.{constants.WITHIN_SECONDS_FIELD}": {
        "minimum": 1,
        "maximum": constants.MAX_IN_PLACE_SECONDS,
    },
    f"{_LEAVE_NODES}.{constants.TIMEOUT_SECONDS_FIELD}": {
        "minimum": 0,
        "maximum": constants.MAX_LEAVE_SECONDS,
    },
    f"{_LEAVE_NODES}.{constants.MAX_LEAVES_FIELD}": {
        "minimum": 1,
        "maximum": constants.MAX_LEAVES,
    },
    f"{_LEAVE_NODES}.{constants.WITHIN_SECONDS_FIELD}": {
        "minimum": 1,
        "maximum": constants.MAX_IN_PLACE_SECONDS,
    },
    f"{_AVOID_NODES}.{constants.FAILURES_FIELD}": {
        "minimum": 1,
        "maximum": constants.MAX_AVOIDED_FAILURES,
    },
    f"{_AVOID_NODES}.{constants.WITHIN_SECONDS_FIELD}": {
        "minimum": 1,
        "maximum": constants.MAX_IN_PLACE_SECONDS,
    },
    f"{_AVOID_NODES}.{constants.MAX_NODES_FIELD}": {
        "minimum": 1,
        "maximum": constants.MAX_AVOIDED_NODES,
    },
    f"{_TASK}.retryPolicy.maxRetryCount": {"minimum": constants.EXTENDED_UNLIMITED},
    f"spec.{constants.ACTIVE_DEADLINE_FIELD}": {"minimum": 0},
    f"spec.{constants.TTL_FIELD}": {"minimum": 0},
    f"status.{constants.CONDITIONS_FIELD}": _LISTED_BY_TYPE,
    f"status.{constants.CONDITIONS_FIELD}[]": {"required": ["type"]},
}

# Descriptions for `kubectl explain`. docs/api.md has more details.
_DESCRIPTIONS = {
    "spec": "The state that the user requests. The controller never writes it.",
    "spec.description": "Free text; the controller does not read it.",
    "spec.executionType": (
        "Create: wait; Start: run; Stop: complete now with code -210. Only in this order."
    ),
    "spec.retryPolicy": "When the Framework is retried.",
    "spec.retryPolicy.fancyRetryPolicy": (
        "Look at the completion type first: transient failures are retried and not counted, "
        "permanent ones never retried."
    ),
    "spec.retryPolicy.maxRetryCount": (
        "Maximum number of retries that count; -1: retry every failure; -2: retry every completion."
    ),
    "spec.taskRoles": "The roles of the gang, with unique names.",
    f"{_ROLE}.name": "Name of the role, unique: 1 to 63 characters of a-z and 0-9.",
    f"{_ROLE}.taskNumber": "Number of Tasks, with the indexes 0 to taskNumber - 1. May be changed.",
    _COUNTS: "Counts of Tasks that complete the attempt; 0 or -1: no such policy.",
    f"{_COUNTS}.minFailedTaskCount": "Number of Failed Tasks that completes the attempt as Failed.",
    f"{_COUNTS}.minSucceededTaskCount": (
        "Number of Succeeded Tasks that completes the attempt as Succeeded."
    ),
    _TASK: "Template of the Tasks of the role.",
    f"{_TASK}.retryPolicy": "When a Task is retried.",
    f"{_TASK}.retryPolicy.fancyRetryPolicy": "As in spec.retryPolicy.",
    f"{_TASK}.retryPolicy.maxRetryCount": "As in spec.retryPolicy.",
    f"{_TASK}.podGracefulDeletionTimeoutSec": (
        "Seconds after which a Pod being deleted is deleted by force; null: never."
    ),
    f"{_TASK}.pod": "Template of the Task's Pod: any PodTemplateSpec; {{FC_...}} is replaced.",
    f"{_ROLE}.{constants.ABSENT_TASK_INDICES_FIELD}": (
        "Indexes without a Task. Indexes from taskNumber on are ignored."
    ),
    f"{_ROLE}.{constants.MIN_MEMBER_COUNT_FIELD}": (
        "Number of Tasks with which the gang may start; null, or more than there are: all."
    ),
    f"{_ROLE}.{constants.DRAIN_FIELD}": (
        "A Task that is scaled down leaves the gang before its Pod is deleted."
    ),
    f"{_ROLE}.{constants.DRAIN_FIELD}.{constants.DRAIN_TIMEOUT_FIELD}": (
        "Maximum duration of the drain in seconds."
    ),
    f"{_ROLE}.{constants.COMPLETED_POD_POLICY_FIELD}": (
        "As in spec, for the Pods of this role. Default: as spec says."
    ),
    f"{_ROLE}.{constants.RECOVERY_FIELD}": "How the role recovers from failures of its processes.",
    _IN_PLACE: (
        "Processes that fail are restarted in their Pods, with those of the whole gang. Give it to "
        "exactly the roles that compute (master, chief, worker)."
    ),
    f"{_IN_PLACE}.{constants.MAX_RESTARTS_FIELD}": (
        "Maximum of restarts within withinSeconds; after that, a failure ends the Pod."
    ),
    f"{_IN_PLACE}.{constants.WITHIN_SECONDS_FIELD}": "Seconds in which restarts are counted.",
    _LEAVE_NODES: (
        "Tasks leave before their nodes go (cordon, taint, eviction): processes are told, and the "
        "retry is not counted."
    ),
    f"{_LEAVE_NODES}.{constants.TIMEOUT_SECONDS_FIELD}": (
        "Maximum time in seconds between the notice and the deletion of the Pod."
    ),
    f"{_LEAVE_NODES}.{constants.MAX_LEAVES_FIELD}": (
        "How often a Task leaves within withinSeconds. Default: 10."
    ),
    f"{_LEAVE_NODES}.{constants.WITHIN_SECONDS_FIELD}": (
        "Seconds in which a Task leaves at most maxLeaves times. Default: 86400."
    ),
    _AVOID_NODES: "Pods are not created on nodes on which their Task failed before.",
    f"{_AVOID_NODES}.{constants.FAILURES_FIELD}": (
        "Failures of a Task on a node within withinSeconds, after which it avoids it. Default: 2."
    ),
    f"{_AVOID_NODES}.{constants.WITHIN_SECONDS_FIELD}": (
        "Seconds in which failures are counted. Default: 86400."
    ),
    f"{_AVOID_NODES}.{constants.MAX_NODES_FIELD}": (
        "Maximum of nodes that a Task avoids; the latest failures count. Default: 3."
    ),
    f"spec.{constants.COMPLETED_POD_POLICY_FIELD}": (
        "Delete: the Pod of a Completed Task is deleted. RetainUntilEnd: it is deleted when the "
        "attempt ends. Retain: it stays after the last attempt. Default: Delete."
    ),
    f"spec.{constants.SUSPEND_FIELD}": (
        "true: end the Pods, and create none until it is false again. The attempt is not counted."
    ),
    f"spec.{constants.ACTIVE_DEADLINE_FIELD}": (
        "Seconds that the Framework may be active, with all its attempts, since its start or since "
        "it was resumed; then it fails with code -240."
    ),
    f"spec.{constants.TTL_FIELD}": (
        "Seconds after its end at which the Framework is deleted; null: as the controller is "
        "configured."
    ),
    "status": "Observed state. Only the controller writes it.",
    "status.state": "State of the Framework.",
    f"status.{constants.CONDITIONS_FIELD}": "Conditions as other Kubernetes objects have them.",
    f"status.{constants.OBSERVED_GENERATION_FIELD}": (
        "Generation of the spec to which this status belongs."
    ),
    f"status.{constants.ACTIVE_START_FIELD}": "Since when activeDeadlineSeconds counts.",
    _ATTEMPT: "The current attempt, or the last one.",
    f"{_ATTEMPT}.id": "Number of the attempt, from 0.",
    f"{_ATTEMPT}.completionStatus": "Why the attempt ended; null while it has not.",
    f"{_ATTEMPT}.{constants.TRAINING_PROGRESS_FIELD}": (
        "How far the training is, as the agents report it; at most 15 s behind, if they report."
    ),
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
    # InProgress, Succeeded, Failed, Stopped or DeadlineExceeded; empty with the Go original.
    ("Result", "string", '.status.conditions[?(@.type=="Completed")].reason', 0),
    ("Age", "date", ".metadata.creationTimestamp", 0),
    ("Execution", "string", ".spec.executionType", 1),
    ("Phrase", "string", ".status.attemptStatus.completionStatus.phrase", 1),
    ("Step", "integer", f".{_ATTEMPT}.{constants.TRAINING_PROGRESS_FIELD}.step", 1),
    ("Of", "integer", f".{_ATTEMPT}.{constants.TRAINING_PROGRESS_FIELD}.totalSteps", 1),
    ("Suspend", "boolean", ".spec.suspend", 1),
    ("Deadline", "integer", ".spec.activeDeadlineSeconds", 1),
    ("TTL", "integer", ".spec.ttlSecondsAfterFinished", 1),
)


def build_crd() -> dict[str, Any]:
    """Build the CustomResourceDefinition; each call returns a new dict."""
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
            # Explicit, because a CRD stored as v1beta1 may have true.
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
                        # Bounds the cost of the rule. The pattern of the original has the same
                        # limit.
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
    """Build the schema of a value; with ``is_kept``, objects keep unknown keys."""
    schema: dict[str, Any] = {"type": "string" if kind.name == "time" else kind.name}
    if kind.name == "time":
        schema["format"] = "date-time"
    if path in _DESCRIPTIONS:
        schema["description"] = _DESCRIPTIONS[path]
    # An enum in the status would refuse values that a newer controller has stored.
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
    # Go encodes a nil slice as null.
    if field.nullable or (is_kept and field.kind.name == "array"):
        schema["nullable"] = True
    return schema

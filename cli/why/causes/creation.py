"""Objects that cannot be created: a name that is taken, a quota, a refusal. Pure."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from cli.texts.diagnostics import explain_diagnostics
from cli.texts.reasons import read_readiness
from cli.why.cause import Cause, Kind, Remedy
from cli.why.names import hide_names
from cli.why.observation import Observation, TaskFacts, get_mapping, list_mappings, read_time
from cli.why.quantities import add_quantities
from cli.why.refusals import Refusal, Refuser, parse_refusal
from cli.why.remedies import (
    build_operation,
    change_spec,
    change_template,
    repeat,
    replace_framework,
)
from framework.api import constants
from framework.api.completion import POD_CREATION_PERMANENT_ERROR, POD_CREATION_UNKNOWN_ERROR
from framework.api.naming import parse_pod_name
from framework.api.states import TaskState
from framework.kube.resources import Object

# The beginning of the message of the condition Blocked.
_FAILED_CREATE = re.compile(r"(Pod|ConfigMap|Secret) (\S+) cannot be created: (.*)", re.DOTALL)
_NOT_CREATED = "Pod cannot be created: "
_REFUSED_CODES = frozenset({POD_CREATION_PERMANENT_ERROR, POD_CREATION_UNKNOWN_ERROR})
# Violations of Pod Security that `inject --restricted` corrects.
_MENDED = re.compile(
    r"^(?:allowPrivilegeEscalation != false|unrestricted capabilities|runAsNonRoot != true"
    r"|seccompProfile)\b"
)
_VIOLATION_END = re.compile(r"\), (?=[a-zA-Z])")
_RIGHTS_FILE = "deploy/base/clusterrole.yaml"
# The end of the controller's message about an older Pod that still exists.
_OLD_POD = "an older Pod of this name is being deleted, and still exists"

_WORDS = {
    Refuser.QUOTA: "the quota {name} is used up ({details})",
    Refuser.QUOTA_NEEDS: "the quota {name} requires that its containers state {details}",
    Refuser.LIMIT_RANGE: "a LimitRange of the namespace does not allow it: {details}",
    Refuser.POD_SECURITY: "the namespace enforces the level {name} of Pod Security: {details}",
    Refuser.POLICY: "the admission policy {name} denies it: {details}",
    Refuser.WEBHOOK: "the admission webhook {name} denies it: {details}",
    Refuser.WEBHOOK_DOWN: "the admission webhook {name} does not answer",
    Refuser.SERVICE_ACCOUNT: "the namespace has no service account {name}",
    Refuser.PRIORITY_CLASS: "the cluster has no priority class {name}",
    Refuser.NAMESPACE: "the namespace {name} is being deleted",
    Refuser.RIGHT: "the controller lacks the right to create {name}",
    Refuser.FINALIZERS_RIGHT: (
        "the controller lacks the right to update the finalizers of Frameworks and ConfigMaps"
    ),
    Refuser.INVALID: "its template is invalid: {details}",
}
_OF_POLICIES = (
    "change what the message names, or ask the administrator about this policy; edit the file"
)
_CORRECTIONS = {
    Refuser.QUOTA_NEEDS: "add the limits or requests to its containers in the file",
    Refuser.POLICY: _OF_POLICIES,
    Refuser.WEBHOOK: _OF_POLICIES,
}


@dataclass(frozen=True, slots=True)
class FailedCreate:
    """A create that failed."""

    kind: str
    """Kind of the object."""
    name: str
    """Name of the object; "" if only its Task is known."""
    message: str
    """Message of the API server."""
    tasks: tuple[TaskFacts, ...]
    """The Tasks that have no Pod for this reason; none for another object."""
    since: datetime | None


def find_taken_name(observation: Observation) -> Iterator[Cause]:
    """Find an object of another owner that has a name which the gang needs."""
    blocked = observation.find_blocked()
    if blocked.get("reason") != constants.NAME_TAKEN_REASON:
        return
    message = str(blocked.get("message") or "")
    found = _FAILED_CREATE.match(message)
    kind, name = (found.group(1), found.group(2)) if found else ("object", "of that name")
    is_deleted = bool(_get_holder_metadata(observation).get("deletionTimestamp"))
    is_old_pod = found is not None and found.group(3) == _OLD_POD
    text, remedy = (
        _end_deletion(observation, kind, name)
        if is_deleted or is_old_pod
        else _delete_holder(observation, kind, name)
    )
    tasks = _find_tasks(observation, name) if kind == "Pod" else ()
    yield Cause(
        Kind.NAME_TAKEN,
        f"cannot be created: {text}",
        tasks=tuple(task.key for task in tasks),
        since=read_time(blocked.get("lastTransitionTime")),
        quote=message,
        facts=() if is_deleted else tuple(_describe_holder(observation, kind)),
        remedies=(remedy,),
    )


def _get_holder_metadata(observation: Observation) -> Mapping[str, Any]:
    return get_mapping(observation.holder or {}, "metadata")


def _describe_holder(observation: Observation, kind: str) -> Iterator[str]:
    """Describe the object that has the name."""
    if observation.holder is not None:
        metadata = _get_holder_metadata(observation)
        owners = list_mappings(metadata.get("ownerReferences"))
        owner = f"{owners[0].get('kind')} {owners[0].get('name')}" if owners else "no object"
        created = metadata.get("creationTimestamp")
        yield f"that {kind} belongs to {owner} and was created at {created}"


def _delete_holder(observation: Observation, kind: str, name: str) -> tuple[str, Remedy]:
    delete = observation.commands.build_kubectl("delete", kind.lower(), name)
    text = "delete that object, or run the Framework under another name"
    return f"another {kind} has the name {name}", Remedy(text, (delete,))


def _end_deletion(observation: Observation, kind: str, name: str) -> tuple[str, Remedy]:
    commands = observation.commands
    change: Object = {"metadata": {"finalizers": None}}
    force = ("--ignore-not-found", "--force", "--grace-period=0")
    return f"a {kind} {name} that is being deleted still has the name, and does not go", Remedy(
        "end its deletion: remove its finalizers, and force it if its node is gone",
        (
            commands.build_merge(kind.lower(), name, change),
            commands.build_kubectl("delete", kind.lower(), name, *force),
        ),
    )


def find_refused(observation: Observation) -> Iterator[Cause]:
    """Find creates that the API server refuses, or refused until the attempt ended."""
    seen: set[tuple[str, str, Refuser, str]] = set()
    for failed in _list_failed_creates(observation):
        refusal = parse_refusal(failed.message)
        role = failed.tasks[0].key.role if failed.tasks else ""
        key = (failed.kind, role, refusal.refuser, refusal.name)
        if key not in seen:
            seen.add(key)
            yield _build_cause(observation, failed, refusal)


def _list_failed_creates(observation: Observation) -> Iterator[FailedCreate]:
    """List failed creates, those with the most facts first."""
    blocked = observation.find_blocked()
    found = _FAILED_CREATE.match(str(blocked.get("message") or ""))
    is_refused = blocked.get("reason") == constants.CREATION_REFUSED_REASON
    if is_refused and found is not None and not observation.is_completed:
        kind, name, message = found.groups()
        since = read_time(blocked.get("lastTransitionTime"))
        tasks = _find_tasks(observation, name) if kind == "Pod" else ()
        yield FailedCreate(kind, name, message, tasks, since)
    for tasks, message, since in _walk_refused_tasks(observation):
        yield FailedCreate("Pod", tasks[0].pod_name, message, tasks, since)
    if observation.is_attempt_over:
        return
    missing, _ = read_readiness(observation.configmap)
    by_key = {task.key: task for task in observation.tasks}
    for key, reason in missing.items():
        task = by_key.get(key)
        if reason.startswith(_NOT_CREATED) and task is not None and _is_uncreated(task):
            tasks = _find_tasks(observation, task.pod_name)
            since = task.status.transition_time
            message = reason.removeprefix(_NOT_CREATED)
            yield FailedCreate("Pod", task.pod_name, message, tasks, since)


def _walk_refused_tasks(
    observation: Observation,
) -> Iterator[tuple[tuple[TaskFacts, ...], str, datetime | None]]:
    """Yield the Tasks of each role whose attempts ended because their Pods were refused."""
    roles: dict[str, list[TaskFacts]] = {}
    for task in observation.tasks:
        end = task.status.attempt_status.completion_status
        if end is not None and end.code in _REFUSED_CODES:
            roles.setdefault(task.key.role, []).append(task)
    for tasks in roles.values():
        attempt = tasks[0].status.attempt_status
        end = attempt.completion_status
        message = explain_diagnostics(end.diagnostics if end else "")
        yield tuple(tasks), message.removeprefix("Pod refused: "), attempt.completion_time


def _find_tasks(observation: Observation, pod: str) -> tuple[TaskFacts, ...]:
    """Find the Tasks of the role of a Pod that wait for the creation of theirs."""
    parsed = parse_pod_name(pod)
    if parsed is None:
        return ()
    role, first = parsed[1].role, parsed[1]
    tasks = [t for t in observation.tasks if t.key.role == role and _is_uncreated(t)]
    named = [t for t in observation.tasks if t.key == first]
    return tuple(named + [t for t in tasks if t.key != first])


def _is_uncreated(task: TaskFacts) -> bool:
    return task.status.state is TaskState.ATTEMPT_CREATION_PENDING


def _build_cause(observation: Observation, failed: FailedCreate, refusal: Refusal) -> Cause:
    kind = Kind.QUOTA if refusal.refuser is Refuser.QUOTA else Kind.REFUSED
    what = "" if failed.tasks else f"needs the {failed.kind} {failed.name}, which "
    return Cause(
        kind,
        f"{what}cannot be created: {_describe(refusal)}",
        tasks=tuple(task.key for task in failed.tasks),
        since=failed.since,
        quote=failed.message,
        remedies=tuple(_list_remedies(observation, failed, refusal)),
    )


def _describe(refusal: Refusal) -> str:
    details = refusal.details
    if refusal.refuser is Refuser.QUOTA:
        details = _describe_amounts(refusal)
    elif refusal.refuser is Refuser.POD_SECURITY:
        details = "; ".join(_list_violations(details))
    words = _WORDS.get(refusal.refuser, "the API server refuses it")
    return words.format(name=refusal.name, details=details)


def _describe_amounts(refusal: Refusal) -> str:
    requested, used, limited = (refusal.amounts[k] for k in ("requested", "used", "limited"))
    return "; ".join(
        f"{resource}: {used.get(resource)} of {limited.get(resource)} used, a Pod needs {amount}"
        for resource, amount in requested.items()
    )


def _list_violations(details: str) -> list[str]:
    """Split the violations of a Pod Security level, which are separated by commas."""
    hidden = hide_names(details.removesuffix(")"))
    parts = _VIOLATION_END.split(hidden.text)
    ended = [part if part.endswith(")") or "(" not in part else f"{part})" for part in parts]
    return [hidden.restore(part) for part in ended]


def _list_remedies(
    observation: Observation, failed: FailedCreate, refusal: Refusal
) -> Iterator[Remedy]:
    commands = observation.commands
    match refusal.refuser:
        case Refuser.QUOTA:
            yield from _extend_quota(observation, failed, refusal)
            return
        case Refuser.POD_SECURITY if all(map(_MENDED.match, _list_violations(refusal.details))):
            text = "add the fields of the level, and the agents that the file lacks"
            yield _inject(observation, text)
            return
        case Refuser.SERVICE_ACCOUNT if refusal.name == f"frameworkbarrier-{observation.name}":
            yield _inject(observation, "add the objects of the agents")
            return
        case Refuser.SERVICE_ACCOUNT:
            create = commands.build_creation("serviceaccount", refusal.name)
            yield repeat(observation, Remedy("create it", (create,)))
            return
        case Refuser.WEBHOOK_DOWN:
            look = "validatingwebhookconfigurations,mutatingwebhookconfigurations"
            command = commands.build_global_kubectl("get", look)
            text = "repair the program of the webhook, or delete its configuration"
            yield repeat(observation, Remedy(f"{text} (an administrator)", (command,)))
            return
        case Refuser.PRIORITY_CLASS if failed.tasks:
            task = failed.tasks[0]
            path = f"/spec/taskRoles/{task.role_index}/task/pod/spec/priorityClassName"
            remove = build_operation("remove", path)
            yield change_template(observation, failed.tasks, "remove priorityClassName", remove)
            return
        case Refuser.RIGHT | Refuser.FINALIZERS_RIGHT:
            # The user who removed the right owns the field now, so the apply needs force.
            words = ("apply", "--server-side", "--force-conflicts", "-f", _RIGHTS_FILE)
            apply = commands.build_global_kubectl(*words)
            text = "give the controller the rights of its release again (an administrator)"
            yield repeat(observation, Remedy(text, (apply,)))
            return
        case _:
            pass
    text = _CORRECTIONS.get(refusal.refuser, "correct what the message names in the file")
    yield replace_framework(observation, f"{text}, and replace the Framework")


def _extend_quota(
    observation: Observation, failed: FailedCreate, refusal: Refusal
) -> Iterator[Remedy]:
    commands = observation.commands
    count = max(1, len(failed.tasks))
    hard = {
        resource: add_quantities(refusal.amounts["used"].get(resource, "0"), amount, count)
        or "QUANTITY"
        for resource, amount in refusal.amounts["requested"].items()
    }
    raise_quota = commands.build_merge("resourcequota", refusal.name, {"spec": {"hard": hard}})
    text = "raise the quota (an administrator), or delete what uses it"
    yield Remedy(text, (raise_quota, commands.build_kubectl("get", "frameworks,pods")))
    created = [
        t for t in observation.tasks if failed.tasks and t.key.role == failed.tasks[0].key.role
    ]
    fitting = len(created) - len(failed.tasks)
    if fitting > 0 and failed.tasks and failed.tasks[0].role_index is not None:
        path = f"/spec/taskRoles/{failed.tasks[0].role_index}/taskNumber"
        text = (
            f"run with the {fitting} Task{'s' * (fitting != 1)} of {created[0].key.role} that fit"
        )
        yield change_spec(observation, text, build_operation("replace", path, fitting))


def _inject(observation: Observation, text: str) -> Remedy:
    return Remedy(f"{text}, and run it again", observation.commands.build_injection())

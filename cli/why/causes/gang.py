"""Causes in the Framework itself: decisions of its user, reports of its controller. Pure."""

from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any

from cli.texts.reasons import explain_no_tasks
from cli.why.cause import Cause, Kind, Remedy
from cli.why.observation import Observation, get_mapping, list_mappings, read_time
from cli.why.remedies import build_operation, change_spec, replace_framework
from framework.api.completion import FRAMEWORK_DEADLINE_EXCEEDED, STOP_FRAMEWORK_REQUESTED
from framework.api.constants import ACTIVE_DEADLINE_FIELD, SUSPENDED_CONDITION
from framework.api.types import FrameworkAttemptCompletionStatus

# A controller sees a change within a second, a busy controller within some seconds.
_UNSEEN_SECONDS = 10.0
# A leader that releases the Lease may act for this long after its last renewal.
_RELEASED_SECONDS = 4.0
_UNREADABLE = frozenset({"UnreadableFramework", "UndecidableFramework", "StatusRefused"})
_LIMITS = frozenset({"TooManyRoles", "TooManyTasks", "TooLarge", "MemoryBudget"})
_INVALID_SPEC = "InvalidSpec"
_SYSTEM = ("-n", "frameworkbarrier-system")
_DEPLOYMENT = "deployment/framework-controller"
_FOREGROUND = "foregroundDeletion"
# ``add`` also works if the field is absent by then; ``replace`` and ``remove`` do not.
_NO_DEADLINE = build_operation("add", f"/spec/{ACTIVE_DEADLINE_FIELD}", value=None)


def find_unreadable(observation: Observation) -> Iterator[Cause]:
    """Find a Framework that its controller cannot read, decide or write."""
    blocked = observation.find_blocked()
    if blocked.get("reason") in _UNREADABLE:
        text = (
            "the API server refuses its status"
            if blocked.get("reason") == "StatusRefused"
            else "the controller cannot read it"
        )
        yield _build_blocked(observation, Kind.UNREADABLE, text, "correct the field of the message")
    elif observation.fault:
        yield Cause(
            Kind.UNREADABLE,
            "its status cannot be read",
            quote=observation.fault,
            remedies=(
                Remedy(
                    "run it again, so that it has a new status",
                    observation.commands.build_replacement(),
                ),
            ),
        )


def find_missing_controller(observation: Observation) -> Iterator[Cause]:
    """Find a Framework, or a change of it, that no controller has seen."""
    if observation.is_completed or observation.find_blocked():
        return
    lease = get_mapping(observation.lease or {}, "spec")
    renewed = _find_last_renewal(observation, lease)
    changed = _find_unseen_change(observation)
    if changed is None and renewed is None:
        return
    facts = []
    if renewed is not None:
        holder = lease.get("holderIdentity")
        end = f": {holder} renewed it last" if holder else ", and no controller holds it"
        facts.append(f"the Lease of the controller has run out{end}")
    what = "its last change" if observation.status is not None and changed is not None else "it"
    text = f"no controller has seen {what}" if changed else "its controller does not run any more"
    yield Cause(
        Kind.NO_CONTROLLER,
        text,
        since=changed or renewed,
        facts=tuple(facts),
        remedies=tuple(_start_controller(observation)),
    )


def _find_last_renewal(observation: Observation, lease: Mapping[str, Any]) -> datetime | None:
    """Return when the Lease was renewed last, if that controller has ended and no other works.

    A Framework that changed its state after the Lease had run out, or was released, has a
    controller that runs without leader election.
    """
    renewed = read_time(lease.get("renewTime"))
    seconds = lease.get("leaseDurationSeconds")
    if renewed is None or not isinstance(seconds, int):
        return None
    ran_out = renewed + timedelta(seconds=max(seconds, _UNSEEN_SECONDS))
    is_released = not lease.get("holderIdentity")
    acted_until = renewed + timedelta(seconds=_RELEASED_SECONDS) if is_released else ran_out
    changed = observation.status.transition_time if observation.status else renewed
    return renewed if changed <= acted_until and ran_out < observation.now else None


def find_deletion(observation: Observation) -> Iterator[Cause]:
    """Find a finalizer that holds the deletion of the Framework."""
    deleted_at = observation.metadata.get("deletionTimestamp")
    finalizers = observation.metadata.get("finalizers")
    if not deleted_at or not isinstance(finalizers, list):
        return
    held = [(i, str(name)) for i, name in enumerate(finalizers) if name != _FOREGROUND]
    if held:
        # From the end, so that each index is still that of its finalizer.
        operations = [build_operation("remove", f"/metadata/finalizers/{i}") for i, _ in held[::-1]]
        names = ", ".join(name for _, name in held)
        patch = observation.commands.build_patch(operations)
        yield Cause(
            Kind.DELETION,
            f"is being deleted, and the finalizer {names} holds the deletion",
            since=read_time(deleted_at),
            remedies=(
                Remedy("start the controller that removes this finalizer, or remove it", (patch,)),
            ),
        )


def find_user_decision(observation: Observation) -> Iterator[Cause]:
    """Find the first decision of a user that ended the Framework or keeps it from running."""
    for find in (_find_stop, _find_no_start, _find_suspension, _find_deadline):
        cause = find(observation)
        if cause is not None:
            yield cause
            return


def _find_stop(observation: Observation) -> Cause | None:
    end = _get_end(observation)
    is_stopped = end is not None and end.code == STOP_FRAMEWORK_REQUESTED
    mode = observation.spec.get("executionType")
    if not is_stopped and (mode != "Stop" or observation.is_completed):
        return None
    resumes = observation.spec.get("suspend") is True
    text = "a stopped Framework is not started again: " + (
        "run the job again"
        if observation.commands.job
        else "run its file again with `framework run FILE --replace`; without the file, "
        "replace it by a copy"
    )
    return Cause(
        Kind.STOPPED,
        "was stopped by a user" if is_stopped else "is being stopped by a user",
        since=observation.status.transition_time if observation.status else None,
        remedies=(Remedy(text, observation.commands.build_restart(resumes=resumes)),),
    )


def _find_no_start(observation: Observation) -> Cause | None:
    if observation.spec.get("executionType") != "Create":
        return None
    command = observation.commands.build_framework("start", observation.name)
    start = build_operation("add", "/spec/executionType", "Start")
    remedy = (
        change_spec(observation, "start it", start)
        if observation.is_completed
        else Remedy("start it", (command,))
    )
    return Cause(
        Kind.NOT_STARTED,
        "is created and not started: spec.executionType is Create",
        since=read_time(observation.metadata.get("creationTimestamp")),
        remedies=(remedy,),
    )


def _find_suspension(observation: Observation) -> Cause | None:
    if observation.spec.get("suspend") is not True or observation.is_completed:
        return None
    condition = observation.find_condition(SUSPENDED_CONDITION)
    job = observation.commands.job
    resume = observation.commands.build_framework("resume", observation.name)
    if job is not None:
        resume = observation.commands.build_kubectl("edit", job.resource)
    return Cause(
        Kind.SUSPENDED,
        "is suspended: spec.suspend is true",
        since=read_time(condition.get("lastTransitionTime")),
        remedies=(Remedy("resume it", (resume,)),),
    )


def _find_deadline(observation: Observation) -> Cause | None:
    end = _get_end(observation)
    if end is None or end.code != FRAMEWORK_DEADLINE_EXCEEDED or not observation.is_completed:
        return None
    # The user may have removed it since.
    seconds = observation.spec.get(ACTIVE_DEADLINE_FIELD)
    number = "" if seconds is None else f", {seconds}"
    return Cause(
        Kind.DEADLINE,
        f"was active for longer than its {ACTIVE_DEADLINE_FIELD}{number}",
        since=observation.status.transition_time if observation.status else None,
        remedies=(change_spec(observation, "run it again without a deadline", _NO_DEADLINE),),
    )


def _get_end(observation: Observation) -> FrameworkAttemptCompletionStatus | None:
    status = observation.status
    return status.attempt_status.completion_status if status is not None else None


def find_limit(observation: Observation) -> Iterator[Cause]:
    """Find a limit of the controller, or a spec that contradicts itself."""
    reason = observation.find_blocked().get("reason")
    if reason in _LIMITS:
        remedy = "reduce the number of the message, or raise the limit (docs/config.md, Limits)"
        if reason == "MemoryBudget":
            remedy = "give the controller more memory, or delete completed Frameworks"
        yield _build_blocked(
            observation, Kind.LIMIT, f"a limit of the controller holds it: {reason}", remedy
        )
    elif reason == _INVALID_SPEC:
        remedy = "correct the field of the message"
        yield _build_blocked(observation, Kind.INVALID_SPEC, "its spec contradicts itself", remedy)


def find_no_tasks(observation: Observation) -> Iterator[Cause]:
    """Find a gang of zero Tasks."""
    why = explain_no_tasks(observation.framework)
    if not why or observation.is_completed:
        return
    remedy = (
        Remedy("ask for a Task", (_build_scale(observation),))
        if observation.roles
        else replace_framework(observation, "add a role to spec.taskRoles")
    )
    yield Cause(
        Kind.NO_TASKS,
        f"has nothing to run: {why.removeprefix('it has no Tasks: ')}",
        since=read_time(observation.metadata.get("creationTimestamp")),
        remedies=(remedy,),
    )


def _build_scale(observation: Observation) -> str:
    size = f"{observation.roles[0].get('name')}=1"
    return observation.commands.build_framework("scale", observation.name, size)


def find_unreachable_policy(observation: Observation) -> Iterator[Cause]:
    """Find counts of the completion policy that no number of Tasks can reach."""
    if observation.is_completed:
        return
    for index, role in enumerate(observation.roles):
        policy = get_mapping(role, "frameworkAttemptCompletionPolicy")
        absent = role.get("absentTaskIndices")
        number = role.get("taskNumber")
        tasks = number - len(absent if isinstance(absent, list) else []) if number else 0
        for key in ("minFailedTaskCount", "minSucceededTaskCount"):
            count = policy.get(key)
            if not isinstance(count, int) or count <= tasks or not tasks:
                continue
            path = f"/spec/taskRoles/{index}/frameworkAttemptCompletionPolicy/{key}"
            remedy = change_spec(
                observation, "count all Tasks of the role", build_operation("replace", path, tasks)
            )
            yield Cause(
                Kind.POLICY,
                f"{role.get('name')} cannot reach its {key} of {count}: it has {tasks} "
                f"Task{'s' * (tasks != 1)}, so this count never ends the attempt",
                remedies=(remedy,),
            )


def _find_unseen_change(observation: Observation) -> datetime | None:
    created = read_time(observation.metadata.get("creationTimestamp"))
    limit = timedelta(seconds=_UNSEEN_SECONDS)
    if observation.status is None:
        is_old = created is not None and observation.now - created > limit
        return created if is_old and not observation.fault else None
    seen = observation.status.observed_generation
    generation = observation.metadata.get("generation")
    if seen is None or not isinstance(generation, int) or seen >= generation:
        return None
    writes = list_mappings(observation.metadata.get("managedFields"))
    times = [read_time(w.get("time")) for w in writes if not w.get("subresource")]
    changed = max((t for t in times if t is not None), default=created)
    return changed if changed is not None and observation.now - changed > limit else None


def _start_controller(observation: Observation) -> Iterator[Remedy]:
    commands = observation.commands
    if observation.is_local:
        text = "start a controller for this local cluster"
        yield Remedy(text, (commands.build_controller(),))
        return
    start = commands.build_global_kubectl("scale", _DEPLOYMENT, "--replicas=1", *_SYSTEM)
    yield Remedy(
        "look for the controller, and start it (an administrator)",
        (commands.build_controller_search(), start),
    )
    # A fixed folder could replace the image, namespace and settings of an overlay.
    install = commands.build_global_kubectl("apply", "--server-side", "-k", "FOLDER")
    text = (
        "if there is none, install it (docs/install.md): FOLDER is the folder of your overlay, "
        "or deploy/base if you have no overlay"
    )
    yield Remedy(text, (install,))


def _build_blocked(observation: Observation, kind: Kind, text: str, remedy: str) -> Cause:
    blocked = observation.find_blocked()
    return Cause(
        kind,
        text,
        since=read_time(blocked.get("lastTransitionTime")),
        quote=str(blocked.get("message") or ""),
        remedies=(replace_framework(observation, f"{remedy} in the file, and replace it"),),
    )

"""The rules of `lint`: faults of a Framework whose fields are all valid. Pure.

Each rule is one function, and its name is the name that users see. docs/cli-write.md lists the
rules, and a test compares the two.
"""

import re
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field

from cli.authoring.agentrules import agent_settings, agent_token, missing_agent, missing_slots
from cli.authoring.avoidingrules import unused_avoidance
from cli.authoring.findings import Finding, Severity, error, warning
from cli.authoring.originalfields import list_role_fields, list_spec_fields
from cli.authoring.placementrules import (
    endless_sidecar,
    service_account,
    shared_volume,
    unheard_drain,
)
from cli.authoring.podfields import misspelt_field
from cli.authoring.podrules import pod_template, reserved_key, restart_policy
from cli.authoring.progressrules import unwatched_progress
from cli.authoring.recoveryrules import incomplete_recovery, unheard_leaving, unwrapped_recovery
from cli.authoring.retryrules import find_misplaced_codes, retryable_exit_codes
from cli.files.fieldhints import list_lost_fields, list_unknown_fields, suggest_field, suggest_place
from cli.files.templates import (
    RoleTemplate,
    list_roles,
    list_task_numbers,
)
from framework.api import constants
from framework.api.codec import decode_framework
from framework.api.fielderrors import FieldErrors
from framework.kube.resources import Object

_ADDRESSES = re.compile(r"\bFB_([A-Z0-9]+)_ADDRESSES\b")
_RDZV_ID_FLAG = re.compile(r"--rdzv[-_]id(?:=|\s+)(\S+)")
# Some rules compare each container with each other.
_MOST_CONTAINERS = 100


@dataclass(frozen=True, slots=True)
class LintOptions:
    """Where the Framework will run."""

    for_original: bool = False
    """The Go original's controller runs it."""
    quota: Collection[str] = field(default=())
    """Resources a quota counts: cpu, memory, ..."""


Rule = Callable[[Object, RoleTemplate, LintOptions], Iterator[Finding]]


def missing_port(_: Object, role: RoleTemplate, __: LintOptions) -> Iterator[Finding]:
    """Find addresses that are read without a port being set."""
    for container in role.list_containers():
        text, env = " ".join(container.list_words()), container.get_env()
        # The rendezvous agent sets addresses with ports; the values of a ConfigMap are unknown.
        if container.is_wrapped or "current/env.sh" in text or container.body.get("envFrom"):
            continue
        for name in sorted(set(_ADDRESSES.findall(text))):
            variable = f"FB_{name}_PORT"
            if variable not in env and variable not in text and "FB_PORTS" not in env:
                yield error(
                    "missing-port",
                    f"{container.path}.env",
                    f"FB_{name}_ADDRESSES is read and {variable} is set nowhere: each address "
                    "ends with `:`",
                    f"`export {variable}=...` before injector.sh is sourced",
                )


def elastic_restarts(_: Object, role: RoleTemplate, __: LintOptions) -> Iterator[Finding]:
    """Find an elastic torchrun that ends when the first node leaves."""
    containers = role.list_containers()
    environments = [container.get_env() for container in containers]
    is_elastic = any(
        ":" in env.get("PET_NNODES", "") or env.get("FB_TORCH_MODE") == "elastic"
        for env in environments
    )
    # The rendezvous of this backend does not count a node that leaves as a restart.
    is_counted = not any(env.get("FB_TORCH_BACKEND") == "framework" for env in environments)
    if not (is_elastic and is_counted):
        return
    for container, env in zip(containers, environments, strict=True):
        for name in ("PET_MAX_RESTARTS", "FB_TORCH_MAX_RESTARTS"):
            if env.get(name) == "0":
                yield error(
                    "elastic-restarts",
                    f"{container.path}.env",
                    f"{name} is 0: elastic torchrun takes each node that leaves for a failed "
                    "worker, so that the first one ends the job",
                    "leave it out (100 is the default), or give a number above the departures to "
                    "expect",
                )


def fixed_rdzv_id(_: Object, role: RoleTemplate, __: LintOptions) -> Iterator[Finding]:
    """Find a run id with which an attempt can join the rendezvous of the attempt before."""
    for container in role.list_containers():
        given = container.get_env().get("PET_RDZV_ID", "")
        flag = _RDZV_ID_FLAG.search(" ".join(container.list_words()))
        given = given or (flag.group(1) if flag else "")
        if given and "$" not in given:
            yield warning(
                "fixed-rdzv-id",
                container.path,
                f"the run id {given!r} is the same in every attempt: a retried gang can meet "
                "processes of the attempt before, in a store that still runs (etcd)",
                "leave it out (PET_RDZV_ID of the agent has the attempt in it), or write "
                f"`$({constants.FRAMEWORK_ATTEMPT_INSTANCE_UID})`",
            )


def uncounted_failures(framework: Object, role: RoleTemplate, _: LintOptions) -> Iterator[Finding]:
    """Find gangs that succeed although all of their Tasks fail."""
    name = "minFailedTaskCount"
    counted = [r for r in list_roles(framework) if r.get_counts().get(name, 0) > 0]
    # -1 excludes failures on purpose; a Task that is retried without limit never fails.
    is_wanted = role.get_counts().get(name, 0) < 0
    is_endless = role.get_max_retry_count() < 0
    has_agent = any(c.is_agent for c in role.list_containers())
    if has_agent and not (counted or is_wanted or is_endless):
        yield warning(
            "uncounted-failures",
            f"{role.path}.frameworkAttemptCompletionPolicy.{name}",
            "failures of Tasks are not counted: the other Tasks wait for a failed Task, and if all "
            "Tasks fail, the Framework succeeds",
            f"write `frameworkAttemptCompletionPolicy: {{{name}: 1, minSucceededTaskCount: -1}}`, "
            f"or {name}: -1 if this is intended",
        )


def unreachable_count(_: Object, role: RoleTemplate, __: LintOptions) -> Iterator[Finding]:
    """Find a completion policy that can never end the attempt: the role has too few Tasks."""
    tasks = role.body.get("taskNumber")
    for name, count in role.get_counts().items():
        if isinstance(tasks, int) and count > tasks > 0:
            effect = "fail" if name == "minFailedTaskCount" else "succeed"
            yield warning(
                "unreachable-count",
                f"{role.path}.frameworkAttemptCompletionPolicy.{name}",
                f"is {count}, and the role has {tasks} Tasks: this policy can never make the "
                f"Framework {effect}",
                f"write a number from 1 to {tasks}, or -1 for no such policy",
            )


def dropped_field(_: Object, role: RoleTemplate, options: LintOptions) -> Iterator[Finding]:
    """Find fields that the Go original drops without a message."""
    if options.for_original:
        yield from (_report_dropped(path, lost) for path, lost in list_role_fields(role))


def missing_requests(_: Object, role: RoleTemplate, options: LintOptions) -> Iterator[Finding]:
    """Find Pods that a quota refuses."""
    for container in role.list_containers():
        resources = container.body.get("resources") or {}
        given = {**(resources.get("limits") or {}), **(resources.get("requests") or {})}
        missing = sorted(name for name in options.quota if name not in given)
        if missing:
            yield error(
                "missing-requests",
                f"{container.path}.resources.requests",
                f"no {' and no '.join(missing)}: with a quota for it, the API server refuses the "
                "Pod, and the controller retries without end",
                "write a request for each",
            )


RULES: tuple[Rule, ...] = (
    pod_template,
    reserved_key,
    restart_policy,
    service_account,
    shared_volume,
    missing_agent,
    missing_port,
    missing_slots,
    agent_settings,
    agent_token,
    uncounted_failures,
    unreachable_count,
    elastic_restarts,
    fixed_rdzv_id,
    dropped_field,
    endless_sidecar,
    missing_requests,
    unheard_drain,
    unheard_leaving,
    unused_avoidance,
    unwrapped_recovery,
    incomplete_recovery,
    retryable_exit_codes,
    unwatched_progress,
)


def lint(framework: Object, options: LintOptions) -> list[Finding]:
    """Find the faults of the Framework, then those of each role."""
    found = [
        *_find_unknown_fields(framework),
        *find_no_tasks(framework),
        *find_misplaced_codes(framework),
    ]
    if options.for_original:
        dropped = list_spec_fields(framework.get("spec"), "spec")
        found += [_report_dropped(path, lost) for path, lost in dropped]
    for role in list_roles(framework):
        count = len(role.list_containers())
        if count > _MOST_CONTAINERS:
            found.append(_report_size(role, count))
            continue
        of_role = [each for rule in RULES for each in rule(framework, role, options)]
        found += [*of_role, *misspelt_field(role, of_role)]
    return found


def _report_size(role: RoleTemplate, count: int) -> Finding:
    return warning(
        "pod-template",
        f"{role.spec_path}.containers",
        f"the Pod has {count} containers, so this role is not checked",
        f"write at most {_MOST_CONTAINERS}",
    )


def find_refused_templates(framework: Object) -> list[Finding]:
    """Find the parts of Pod templates that every API server refuses."""
    roles = list_roles(framework)
    return [
        found
        for role in roles
        for found in pod_template(framework, role, LintOptions())
        if found.severity is Severity.ERROR
    ]


def find_no_tasks(framework: Object) -> Iterator[Finding]:
    """Find a Framework without Tasks: its attempt runs until roles are scaled up, or for ever."""
    numbers = list_task_numbers(framework)
    if any(number != 0 for number in numbers):
        return
    yield warning(
        "no-tasks",
        "spec.taskRoles",
        "no role has a taskNumber above 0: nothing runs, and the Framework waits to be scaled up"
        if numbers
        else "is empty: nothing runs, and the Framework waits to be scaled up",
        "write a taskNumber of at least 1" if numbers else "add a role with a taskNumber above 0",
    )


def find_unreachable_ends(framework: Object) -> Iterator[Finding]:
    """Find why a Framework does not end as its author may expect: no Tasks, or a wrong count."""
    yield from find_no_tasks(framework)
    for role in list_roles(framework):
        yield from unreachable_count(framework, role, LintOptions())


def find_faults_after_injection(framework: Object) -> list[Finding]:
    """Find the faults that remain after the injection of the agents."""
    options = LintOptions()
    found = list(_find_unknown_fields(framework))
    for role in list_roles(framework):
        for rule in (missing_agent, agent_token, uncounted_failures):
            found += rule(framework, role, options)
    return found


def _find_unknown_fields(framework: Object) -> Iterator[Finding]:
    try:
        decoded = decode_framework(framework)
    except FieldErrors:
        return  # The loader of the file reports it.
    lost = set(list_lost_fields(decoded, framework))
    for path in list_unknown_fields(decoded):
        meant, place = suggest_field(path), suggest_place(path)
        fix = f"write `{meant}`" if meant else "remove it, or check its spelling (docs/api.md)"
        report = error if path in lost else warning
        yield report(
            "unknown-field",
            path,
            "unknown field: the API server drops it",
            f"move it to `{place}`" if place else fix,
        )


def _report_dropped(path: str, lost: str) -> Finding:
    return error(
        "dropped-field",
        path,
        f"the Go original drops it, and with it {lost}",
        "leave it out for that controller, or use this project's controller",
    )

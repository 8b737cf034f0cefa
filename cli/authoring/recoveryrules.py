"""The rules of `lint` about restarts in place. Pure.

Rules: docs/design/recovery.md, "Restart in place".
"""

from collections.abc import Iterator, Mapping

from cli.authoring.agentcalls import is_given, is_watch, read_call
from cli.authoring.findings import Finding, error, warning
from cli.files.templates import ContainerTemplate, RoleTemplate, list_role_names, list_roles
from framework.api import constants
from framework.api.gang_key import refers_to_gang_key
from framework.api.inplace import ANNOTATION_FORM, find_text, parse_annotation
from framework.kube.resources import Object
from rendezvous.settings.inplace import list_faults
from rendezvous.settings.kinds import RANKED_KINDS, map_roles

# An agent with these arguments acknowledges for the processes that it has started
# (docs/design/agents.md, "Scalers").
_WAITS_FOR_PROCESSES = "--scalers run"
_FIELD = f"{constants.RECOVERY_FIELD}.{constants.IN_PLACE_FIELD}"


def unwrapped_recovery(_: Object, role: RoleTemplate, __: object) -> Iterator[Finding]:
    """Find a restart in place without an agent that starts the process."""
    path = find_in_place_path(role)
    if path and not any(c.is_wrapped for c in role.list_containers()):
        yield warning(
            "unwrapped-recovery",
            path,
            "no container runs `rendezvous run`, which restarts processes: a failure ends its Pod",
            "add the wrapper (`framework inject --rendezvous wrapper`), or leave out `inPlace`",
        )


def leaves_nodes(role: RoleTemplate) -> bool:
    """Return whether Tasks of a role leave before their nodes go."""
    return _find_leave_nodes(role) is not None


def _find_leave_nodes(role: RoleTemplate) -> Mapping[str, object] | None:
    recovery = role.body.get(constants.RECOVERY_FIELD)
    found = recovery.get(constants.LEAVE_NODES_FIELD) if isinstance(recovery, Mapping) else None
    return found if isinstance(found, Mapping) else None


def unheard_leaving(framework: Object, role: RoleTemplate, _: object) -> Iterator[Finding]:
    """Find Tasks that leave without an agent that notifies processes, or without time."""
    spec = _find_leave_nodes(role)
    if spec is None or _has_waiting_launcher(framework):
        return
    path = f"{role.path}.{constants.RECOVERY_FIELD}.{constants.LEAVE_NODES_FIELD}"
    agents = [c for c in role.list_containers() if c.is_wrapped or is_watch(c)]
    if not agents:
        yield warning(
            "unheard-leaving",
            path,
            "no container runs `rendezvous watch` or `run`: a process that leaves has only SIGTERM "
            "and its grace period",
            "add the sidecar (`framework inject --rendezvous sidecar`), or leave out `leaveNodes`",
        )
    elif spec.get(constants.TIMEOUT_SECONDS_FIELD) and not any(
        _takes_time(role, agent) for agent in agents
    ):
        yield warning(
            "unheard-leaving",
            f"{path}.{constants.TIMEOUT_SECONDS_FIELD}",
            "the agents acknowledge as soon as their processes are notified, so that a Pod is "
            "deleted before its process has written a checkpoint",
            "set FB_ON_LEAVING=wait, or FB_NOTIFY_COMMAND to a command that writes the checkpoint",
        )


def _has_waiting_launcher(framework: Object) -> bool:
    """Return whether an agent in a launcher waits for its processes on Pods that leave."""
    words = (
        word
        for role in list_roles(framework)
        for container in role.list_containers()
        for word in container.list_words()
    )
    return any(_WAITS_FOR_PROCESSES in word for word in words)


def _takes_time(role: RoleTemplate, agent: ContainerTemplate) -> bool:
    """Return whether the agent of a Pod that leaves acknowledges after the work of its process."""
    call = read_call(agent)
    names = ("on_leaving", "command", "url")
    return any(is_given(role, agent, call, name) for name in names)


def incomplete_recovery(framework: Object, role: RoleTemplate, __: object) -> Iterator[Finding]:
    """Find restarts in place that lack what the agents need: they end with 210."""
    path, text = find_in_place_path(role), _find_text(role)
    if path and text is not None and parse_annotation(text) is None:
        yield error(
            "incomplete-recovery",
            path,
            f"{text!r:.100} cannot be read, so a failure ends its Pod",
            f"write `{ANNOTATION_FORM}`, with at most {constants.MAX_IN_PLACE_RESTARTS} restarts",
        )
        return
    wrapped = next((c for c in role.list_containers() if c.is_wrapped), None)
    if wrapped is None:
        return
    yield from _judge_roles(framework, role, wrapped)
    if not path:
        return
    metadata = framework.get("metadata")
    name = metadata.get("name") if isinstance(metadata, Mapping) else None
    if not refers_to_gang_key(role.body["task"]["pod"], str(name or "")):
        yield error(
            "incomplete-recovery",
            f"{role.spec_path}.volumes",
            "no volume has the gang key, which the start barrier needs: the agent ends with 210",
            "mount the Secret `{{FC_FRAMEWORK_NAME}}-gang-key` at /var/run/frameworkbarrier, as "
            "examples/recovery.yaml does",
        )
    options = read_call(wrapped).options
    restarted = [each.name for each in list_roles(framework) if find_in_place_path(each)]
    for fault in list_faults(options, restarted) if options is not None else ():
        what, _, remedy = fault.rpartition("; ")
        message = f"{what}: the agent ends with 210"
        yield error("incomplete-recovery", f"{wrapped.path}.env", message, remedy)


def _judge_roles(
    framework: Object, role: RoleTemplate, wrapped: ContainerTemplate
) -> Iterator[Finding]:
    """Judge whether exactly the roles that compute restart in place."""
    options = read_call(wrapped).options
    if options is None:
        return
    restarted = [each.name for each in list_roles(framework) if find_in_place_path(each)]
    kinds = map_roles(list_role_names(framework), options.roles)
    computes = kinds.get(role.name) in RANKED_KINDS
    path = find_in_place_path(role)
    if restarted and computes and not path:
        yield error(
            "incomplete-recovery",
            f"{role.path}.{_FIELD}",
            f"is missing: this role computes with {', '.join(restarted)}, whose processes restart "
            "in place, so the agents end with 210",
            "give `recovery.inPlace` to exactly the roles that compute, or say in FB_ROLES that "
            "this role does not",
        )
    elif path and not computes:
        yield error(
            "incomplete-recovery",
            path,
            f"the role {role.name} does not compute (master, chief or worker), so the agents end "
            "with 210",
            "leave it out, or say in FB_ROLES that this role computes, for example "
            f"`FB_ROLES={role.name}=worker`",
        )


def find_in_place_path(role: RoleTemplate) -> str:
    """Find where a role has its restart in place; "" if it has none."""
    recovery = role.body.get(constants.RECOVERY_FIELD)
    if isinstance(recovery, Mapping) and recovery.get(constants.IN_PLACE_FIELD):
        return f"{role.path}.{_FIELD}"
    if find_text(role.body["task"]["pod"]) is None:
        return ""
    return f"{role.path}.task.pod.metadata.annotations[{constants.IN_PLACE_ANNOTATION}]"


def _find_text(role: RoleTemplate) -> object:
    """Find the annotation, unless the field overrides it."""
    is_field = find_in_place_path(role).endswith(_FIELD)
    return None if is_field else find_text(role.body["task"]["pod"])

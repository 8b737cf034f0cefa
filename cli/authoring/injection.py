"""Adds the agents to a Framework: containers, volumes, token, and the rights they need. Pure.

Fields that the user wrote stay, except ``restartPolicy``. An agent that is already there stays in
its place and gets only the fields that it lacks, so a second injection changes nothing. Only an
account that the agents alone use gets the right to acknowledge a drain and to report processes and
progress. An account that the user named does not get this right, because all containers of a Pod
share one account.
"""

import copy
import json
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from cli.authoring.edits import (
    add_mount,
    add_volume,
    find_mount,
    restrict,
    restrict_container,
    set_default,
)
from cli.authoring.progressrules import reports_progress
from cli.authoring.recoveryrules import find_in_place_path, leaves_nodes
from cli.authoring.users import choose_agent_user
from cli.files.templates import (
    ContainerTemplate,
    RoleTemplate,
    get_account,
    list_roles,
)
from framework.api import constants, images
from framework.api.gang_key import refers_to_gang_key
from framework.kinds.agent_objects import (
    ACCOUNT,
    ACCOUNT_PREFIX,
    AGENT_RESOURCES,
    KEY_VOLUME,
    TOKEN_VOLUME,
    VOLUME,
    build_key_mount,
    build_key_volume,
    build_past_rights,
    build_rights,
    build_service,
    build_token_volume,
    is_added,
)
from framework.kube.resources import Object
from framework.version import VERSION

_AGENTS = frozenset({images.BARRIER, images.RENDEZVOUS})
_STARTUP_TRIES = 600
_MAX_LABEL = 63

# apiVersion, kind, namespace and name of an object.
_Identity = tuple[object, ...]


class Rendezvous(StrEnum):
    """How the files of the peers get into the Pod, besides the two that the barrier writes."""

    NONE = "none"
    INIT = "init"
    SIDECAR = "sidecar"
    WRAPPER = "wrapper"


class InjectionError(Exception):
    """The agents cannot be added; the message names the field and the remedy.

    Attributes:
        document_index: of the document of the file that has the Framework.
    """

    document_index = 0


@dataclass(frozen=True, slots=True)
class InjectionOptions:
    """Options of ``framework inject``."""

    rendezvous: Rendezvous = Rendezvous.SIDECAR
    registry: str = images.REGISTRY
    dns: bool = False
    """A headless Service, and names for the Pods."""
    restricted: bool = False
    """Every container gets the fields that Pod Security's level `restricted` requires."""


def inject_all(documents: Sequence[Object], options: InjectionOptions) -> list[Object]:
    """Build the objects to apply: those of the file, and those that its Frameworks need.

    An object that an earlier injection added is written again, or left out if no Framework needs
    it; an object of the user stays.

    Raises:
        InjectionError: a role cannot take the agents.
    """
    built: list[tuple[list[Object], bool]] = []
    ours: set[_Identity] = set()
    theirs: set[_Identity] = set()
    for index, document in enumerate(documents):
        is_framework = document.get("kind") == constants.FRAMEWORK_KIND
        if is_framework:
            *added, framework = _inject_document(index, document, options)
            ours |= {_identify(body) for body in (*added, *_build_all_rights(document))}
            built.append(([*added, framework], True))
        else:
            if not is_added(document):
                theirs.add(_identify(document))
            built.append(([document], False))
    objects: list[Object] = []
    for bodies, is_framework in built:
        left_out = theirs if is_framework else ours - theirs
        objects += [body for body in bodies if _identify(body) not in left_out]
    return objects


def _inject_document(index: int, document: Object, options: InjectionOptions) -> list[Object]:
    try:
        return inject(document, options)
    except InjectionError as e:
        e.document_index = index
        raise


def _build_all_rights(document: Object) -> list[Object]:
    """Build the rights that any injection of this Framework may have added.

    This includes the right to acknowledge: the Framework may have drained or restarted then.
    """
    return [*build_rights(document, [], reports=True), *build_past_rights(document)]


def _identify(body: Object) -> _Identity:
    metadata = body.get("metadata") or {}
    return (
        body.get("apiVersion"),
        body.get("kind"),
        metadata.get("namespace"),
        metadata.get("name"),
    )


def inject(framework: Object, options: InjectionOptions) -> list[Object]:
    """Build the objects to apply: account, rights, Service if asked for, then the Framework.

    Raises:
        InjectionError: a role cannot take the agents.
    """
    # A copy by JSON: roles that share a template through a YAML anchor get a copy each.
    injected: Object = json.loads(json.dumps(framework))
    roles = list(list_roles(injected))
    accounts = {_get_account(injected, role) for role in roles}
    reports = any(
        role.body.get(constants.DRAIN_FIELD)
        or find_in_place_path(role)
        or leaves_nodes(role)
        or reports_progress(role)
        for role in roles
    )
    for role in roles:
        if reports:
            _check_account(injected, role)
        _inject_role(injected, role, options)
        if not reports:
            _disable_acknowledgements(role)
    supporting = list(build_rights(injected, sorted(accounts), reports=reports))
    if options.dns:
        supporting.append(build_service(injected))
    return [*supporting, injected]


def is_account_of_agents(account: str) -> bool:
    """Return whether an account is for agents only: it has their prefix, or no role names it."""
    return not account or account == ACCOUNT or account.startswith(ACCOUNT_PREFIX)


def _check_account(framework: Object, role: RoleTemplate) -> None:
    """Refuse to give an account of the user the right to acknowledge."""
    account = get_account(role)
    if is_account_of_agents(account):
        return
    field = "serviceAccountName" if role.pod_spec.get("serviceAccountName") else "serviceAccount"
    name = ACCOUNT_PREFIX + str(framework["metadata"]["name"])
    raise InjectionError(
        f"{role.spec_path}.{field}: {account} is an account of your own, and a role of this "
        "Framework drains, leaves nodes, restarts in place or reports its progress, so that all "
        "Pods of the account would get the right to patch Pods, and lose every other right to "
        f"write Pods: leave it out, and bind to {name}, which is then made, what your program may "
        f"do (a ServiceAccount {name} of yours in the same file is kept); or leave out "
        f"`{constants.DRAIN_FIELD}`, `{constants.RECOVERY_FIELD}` and FB_PROGRESS_STATUS=on"
    )


def _inject_role(framework: Object, role: RoleTemplate, options: InjectionOptions) -> None:
    spec = role.pod_spec
    # With another policy the kubelet restarts an agent, and the controller never sees its exit
    # code.
    spec["restartPolicy"] = "Never"
    spec["serviceAccountName"] = _get_account(framework, role)
    set_default(spec, "automountServiceAccountToken", value=False)
    mount = find_mount(role)
    if mount is None:
        mount = {"name": VOLUME, "mountPath": constants.WORKING_DIR}
        _check_volume(role, VOLUME, "emptyDir")
    _check_volume(role, TOKEN_VOLUME, "projected")
    for container in _add_agents(role, options):
        _complete_agent(role, container, mount)
    token = {"name": TOKEN_VOLUME, "mountPath": constants.SERVICE_ACCOUNT_DIR, "readOnly": True}
    for container in role.list_containers():
        if not container.is_init:
            add_mount(container.body, mount)
        if container.is_agent:
            add_mount(container.body, token)
    add_volume(spec, {"name": mount["name"], "emptyDir": {}})
    add_volume(spec, build_token_volume())
    if any(container.is_rendezvous for container in role.list_containers()):
        _mount_gang_key(framework, role)
    if options.dns:
        _name_pods(framework, role)
    if options.restricted:
        restrict(role)


def _mount_gang_key(framework: Object, role: RoleTemplate) -> None:
    """Mount the gang key, the proof of belonging to this attempt; the user's own mount stays."""
    _check_volume(role, KEY_VOLUME, "secret")
    is_ours = any(volume.body.get("name") == KEY_VOLUME for volume in role.list_volumes())
    if refers_to_gang_key(role.body["task"]["pod"], framework["metadata"]["name"]) and not is_ours:
        return
    add_volume(role.pod_spec, build_key_volume())
    for container in role.list_containers():
        if container.is_rendezvous or not container.is_init:
            add_mount(container.body, build_key_mount())


def _name_pods(framework: Object, role: RoleTemplate) -> None:
    """Give the Pods the names that the barrier asks DNS for (BARRIER_DNS_NAME's default)."""
    name = framework["metadata"]["name"]
    if not name[0].isalpha():
        raise InjectionError(
            f"metadata.name: {name} begins with a digit, and the name of a Service with a letter: "
            "give the Framework such a name, or leave out --dns"
        )
    longest = f"{name}-{role.name}-{max(role.body.get('taskNumber') or 1, 1) - 1}"
    if len(longest) > _MAX_LABEL:
        raise InjectionError(
            f"{role.spec_path}.hostname: {longest} has {len(longest)} characters, and a name in "
            f"DNS at most {_MAX_LABEL}: shorten the name of the Framework or of the role, or leave "
            "out --dns"
        )
    set_default(role.pod_spec, "hostname", f"{{{{{constants.POD_NAME}}}}}")
    set_default(role.pod_spec, "subdomain", name)
    if role.pod_spec.get("hostNetwork"):
        # By default such a Pod asks the DNS of the node, which has no Services.
        set_default(role.pod_spec, "dnsPolicy", "ClusterFirstWithHostNet")


def _disable_acknowledgements(role: RoleTemplate) -> None:
    """Switch acknowledgements and reports off: nothing needs them, and agents lack the right."""
    for container in role.list_containers():
        if container.is_agent and container.program != images.BARRIER:
            env = set_default(container.body, "env", [])
            if "FB_ACKNOWLEDGE" not in container.get_env():
                env.append({"name": "FB_ACKNOWLEDGE", "value": "off"})


def _add_agents(role: RoleTemplate, options: InjectionOptions) -> list[ContainerTemplate]:
    """Add the missing agents; return all containers that run an image of an agent."""
    present = {c.program for c in role.list_containers()}
    added: list[Object] = []
    if images.BARRIER not in present and options.rendezvous is not Rendezvous.WRAPPER:
        added.append({"name": images.BARRIER, "image": _build_image(images.BARRIER, options)})
    if images.RENDEZVOUS not in present:
        added += _build_rendezvous(options)
        if options.rendezvous is Rendezvous.WRAPPER:
            _wrap(role)
    spec = role.pod_spec
    _check_names(role, added)
    if added:
        spec["initContainers"] = [*(spec.get("initContainers") or []), *added]
    return [c for c in role.list_containers() if c.program in _AGENTS]


def _build_rendezvous(options: InjectionOptions) -> list[Object]:
    image = _build_image(images.RENDEZVOUS, options)
    container: Object = {"name": images.RENDEZVOUS, "image": image}
    match options.rendezvous:
        case Rendezvous.NONE:
            return []
        case Rendezvous.INIT:
            return [{**container, "args": ["render"]}]
        case Rendezvous.WRAPPER:
            return [{**container, "args": ["install"]}]
        case Rendezvous.SIDECAR:
            return [{**container, **_build_sidecar()}]


def _build_sidecar() -> Object:
    """Build a native sidecar; the training container waits for its first generation."""
    written = f"{constants.WORKING_DIR}/current/env.sh"
    return {
        "args": ["watch"],
        "restartPolicy": "Always",
        "env": [{"name": "FB_SIDECAR_END", "value": "native"}],
        "startupProbe": {
            "exec": {"command": ["test", "-e", written]},
            "periodSeconds": 1,
            "failureThreshold": _STARTUP_TRIES,
        },
    }


def _wrap(role: RoleTemplate) -> None:
    """Let the first container start its command through the agent in the volume."""
    main = next((c for c in role.list_containers() if not c.is_init), None)
    if main is None:
        return  # A role without Tasks may have a template without containers.
    command = main.body.get("command")
    if not command:
        raise InjectionError(
            f"{main.path}.command: is missing, so the wrapper has no program to run: "
            "write the entry point of the image there, or use --rendezvous sidecar"
        )
    agent = f"{constants.WORKING_DIR}/{images.INSTALLED_AGENT}"
    main.body["command"] = ["python3", agent, "run", "--", *command]
    metadata = set_default(role.body["task"]["pod"], "metadata", {})
    annotations = set_default(metadata, "annotations", {})
    set_default(annotations, constants.WRAPPER_ANNOTATION, "true")


def _check_names(role: RoleTemplate, added: list[Object]) -> None:
    """Refuse two containers of one name, as the API server would for each Pod."""
    taken = {c.name: c for c in role.list_containers()}
    for container in added:
        if container["name"] in taken:
            raise InjectionError(
                f"{taken[container['name']].path}.name: {container['name']} is the name of the "
                "agent that inject adds, and container names in a Pod are unique: rename this "
                "container; or, if it is the agent itself, give it the image "
                f"{images.IMAGE_PREFIX}{container['name']}"
            )


def _complete_agent(role: RoleTemplate, container: ContainerTemplate, mount: Object) -> None:
    """Add to an agent the fields that it lacks: version, volume, user, least rights."""
    body = container.body
    if images.is_unversioned(container.image):
        body["image"] = f"{container.image}:{VERSION}"
    add_mount(body, mount)
    set_default(body, "resources", copy.deepcopy(AGENT_RESOURCES))
    context = set_default(body, "securityContext", {})
    set_default(context, "runAsNonRoot", value=True)
    chosen = choose_agent_user(role, container)
    if context.get("runAsUser") is None:
        set_default(context, "runAsGroup", chosen.group)
    set_default(context, "runAsUser", chosen.user)
    set_default(context, "readOnlyRootFilesystem", value=True)
    restrict_container(context)
    set_default(context, "seccompProfile", {"type": "RuntimeDefault"})


def _check_volume(role: RoleTemplate, name: str, source: str) -> None:
    """Refuse a volume of the user that has the name of an agent's volume."""
    for volume in role.list_volumes():
        body = volume.body
        if body.get("name") == name and body.keys() - {"name"} and source not in body:
            raise InjectionError(
                f"{role.spec_path}.volumes: {name} is the name of the agents' own volume, of type "
                f"{source}: give yours another"
            )


def _build_image(program: str, options: InjectionOptions) -> str:
    return f"{options.registry.rstrip('/')}/{images.IMAGE_PREFIX}{program}:{VERSION}"


def _get_account(framework: Object, role: RoleTemplate) -> str:
    return get_account(role) or ACCOUNT_PREFIX + str(framework["metadata"]["name"])

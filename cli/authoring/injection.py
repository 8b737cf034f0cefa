"""Adds the agents to a Framework: containers, volumes, token, and the rights they need. Pure.

Called by ``commands``. What the user wrote wins, but for ``restartPolicy``: an agent that is there
stays where it is and gets only what it lacks, so injecting twice changes nothing. The rights are
those of deploy/agents/one-framework (a test compares the two).
"""

import copy
import json
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from cli.authoring.templates import (
    AGENT_IMAGES,
    BARRIER_IMAGES,
    INSTALLED_AGENT,
    OUR_IMAGES,
    RENDEZVOUS_IMAGES,
    ContainerTemplate,
    RoleTemplate,
    get_image_name,
    list_roles,
)
from framework.api import constants
from framework.kube.resources import Object
from framework.version import VERSION

REGISTRY = "frameworkbarrier"
VOLUME = "frameworkbarrier-volume"
TOKEN_VOLUME = "frameworkbarrier-token"
ACCOUNT_PREFIX = "frameworkbarrier-"
USER_ID = 65532
_TOKEN_SECONDS = 600
_LABELS = {
    "app.kubernetes.io/name": "frameworkbarrier",
    "app.kubernetes.io/part-of": "frameworkbarrier",
}
# An agent's own: 20 MB of memory; little else but waiting.
_RESOURCES = {
    "requests": {"cpu": "10m", "memory": "32Mi"},
    "limits": {"cpu": "1", "memory": "128Mi"},
}
_STARTUP_TRIES = 600
_MAX_LABEL = 63


class Rendezvous(StrEnum):
    """How the peers' files get into the Pod, besides the barrier's two."""

    NONE = "none"
    INIT = "init"
    SIDECAR = "sidecar"
    WRAPPER = "wrapper"


class InjectionError(Exception):
    """The agents cannot be added; the message names the field and the remedy."""


@dataclass(frozen=True, slots=True)
class InjectionOptions:
    """What the user asked for."""

    rendezvous: Rendezvous = Rendezvous.SIDECAR
    registry: str = REGISTRY
    dns: bool = False
    """A headless Service, and names for the Pods."""
    restricted: bool = False
    """Every container as Pod Security's level `restricted` demands."""


def inject(framework: Object, options: InjectionOptions) -> list[Object]:
    """Build the objects to apply: account, rights, Service if asked for, then the Framework.

    Raises:
        InjectionError: a role cannot take the agents.
    """
    # By way of JSON: roles that share a template through a YAML anchor get one each.
    injected: Object = json.loads(json.dumps(framework))
    roles = list(list_roles(injected))
    accounts = {_get_account(injected, role) for role in roles}
    drains = any(role.body.get(constants.DRAIN_FIELD) for role in roles)
    for role in roles:
        _inject_role(injected, role, options)
        if not drains:
            _silence(role)
    supporting = list(_build_rights(injected, sorted(accounts), drains=drains))
    if options.dns:
        supporting.append(_build_service(injected))
    return [*supporting, injected]


def _inject_role(framework: Object, role: RoleTemplate, options: InjectionOptions) -> None:
    spec = role.pod_spec
    # Any other restarts an agent in place, and its exit code never reaches the controller.
    spec["restartPolicy"] = "Never"
    spec.setdefault("serviceAccountName", _get_account(framework, role))
    spec.setdefault("automountServiceAccountToken", False)
    volume = _find_volume(role)
    for container in _add_agents(role, options):
        _complete_agent(container, volume)
    for container in role.list_containers():
        if not container.is_init:
            _add_mount(container.body, volume, constants.WORKING_DIR)
        if container.is_agent:
            _add_mount(container.body, TOKEN_VOLUME, constants.SERVICE_ACCOUNT_DIR, read_only=True)
    _add_volume(spec, {"name": volume, "emptyDir": {}})
    _add_volume(spec, _build_token_volume())
    if options.dns:
        _name_pods(framework, role)
    if options.restricted:
        _restrict(role)


def _name_pods(framework: Object, role: RoleTemplate) -> None:
    """Give the Pods the names that the barrier asks DNS for (BARRIER_DNS_NAME's default)."""
    name = framework["metadata"]["name"]
    longest = f"{name}-{role.name}-{role.body.get('taskNumber', 1) - 1}"
    if len(longest) > _MAX_LABEL:
        raise InjectionError(
            f"{role.spec_path}.hostname: {longest} has {len(longest)} characters, and a name in "
            f"DNS at most {_MAX_LABEL}: shorten the name of the Framework or of the role, or leave "
            "out --dns"
        )
    role.pod_spec.setdefault("hostname", f"{{{{{constants.POD_NAME}}}}}")
    role.pod_spec.setdefault("subdomain", name)


def _silence(role: RoleTemplate) -> None:
    """Let no agent acknowledge where nobody waits for it: the right to is not given either."""
    for container in role.list_containers():
        if container.is_agent and container.image_name not in BARRIER_IMAGES:
            env = container.body.setdefault("env", [])
            if "FB_ACKNOWLEDGE" not in container.get_env():
                env.append({"name": "FB_ACKNOWLEDGE", "value": "off"})


def _add_agents(role: RoleTemplate, options: InjectionOptions) -> list[ContainerTemplate]:
    """Put in the agents that are missing; list all that run one of our images."""
    present = {c.image_name for c in role.list_containers()}
    added: list[Object] = []
    if not present & BARRIER_IMAGES and options.rendezvous is not Rendezvous.WRAPPER:
        added.append({"name": "barrier", "image": _build_image("barrier", options)})
    if not present & RENDEZVOUS_IMAGES:
        added += _build_rendezvous(options)
        if options.rendezvous is Rendezvous.WRAPPER:
            _wrap(role)
    spec = role.pod_spec
    if added:
        spec["initContainers"] = [*(spec.get("initContainers") or []), *added]
    return [c for c in role.list_containers() if c.image_name in AGENT_IMAGES]


def _build_rendezvous(options: InjectionOptions) -> list[Object]:
    image = _build_image("rendezvous", options)
    match options.rendezvous:
        case Rendezvous.NONE:
            return []
        case Rendezvous.INIT:
            return [{"name": "rendezvous", "image": image, "args": ["render"]}]
        case Rendezvous.WRAPPER:
            return [{"name": "rendezvous", "image": image, "args": ["install"]}]
        case Rendezvous.SIDECAR:
            return [_build_sidecar(image)]


def _build_sidecar(image: str) -> Object:
    """Build a native sidecar; the training container waits for its first generation."""
    written = f"{constants.WORKING_DIR}/current/env.sh"
    return {
        "name": "rendezvous",
        "image": image,
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
    main = next(c for c in role.list_containers() if not c.is_init)
    command = main.body.get("command")
    if not command:
        raise InjectionError(
            f"{main.path}.command: is missing, so that there is nothing for the wrapper to run: "
            "write the image's entry point there, or take --rendezvous sidecar"
        )
    agent = f"{constants.WORKING_DIR}{INSTALLED_AGENT}"
    main.body["command"] = ["python3", agent, "run", "--", *command]
    metadata = role.body["task"]["pod"].setdefault("metadata", {})
    annotations = metadata.setdefault("annotations", {})
    annotations.setdefault(constants.WRAPPER_ANNOTATION, "true")


def _complete_agent(container: ContainerTemplate, volume: str) -> None:
    """Give a container of ours what it lacks: a version, a volume, and least rights."""
    body = container.body
    name = get_image_name(body["image"])
    if name in OUR_IMAGES and body["image"].rpartition("/")[2] == name:
        # Nothing of ours is published as `latest`; the original's barrier is.
        body["image"] = f"{body['image']}:{VERSION}"
    _add_mount(body, volume, constants.WORKING_DIR)
    body.setdefault("resources", copy.deepcopy(_RESOURCES))
    context = body.setdefault("securityContext", {})
    context.setdefault("runAsNonRoot", True)
    context.setdefault("runAsUser", USER_ID)
    context.setdefault("readOnlyRootFilesystem", True)
    _restrict_container(context)
    context.setdefault("seccompProfile", {"type": "RuntimeDefault"})


def _restrict(role: RoleTemplate) -> None:
    pod = role.pod_spec.setdefault("securityContext", {})
    pod.setdefault("runAsNonRoot", True)
    pod.setdefault("runAsUser", USER_ID)
    pod.setdefault("seccompProfile", {"type": "RuntimeDefault"})
    for container in role.list_containers():
        _restrict_container(container.body.setdefault("securityContext", {}))


def _restrict_container(context: Object) -> None:
    context.setdefault("allowPrivilegeEscalation", False)
    context.setdefault("capabilities", {"drop": ["ALL"]})


def _find_volume(role: RoleTemplate) -> str:
    """Name the volume that is mounted where the agents write; ours if there is none."""
    for container in role.list_containers():
        for mount in container.body.get("volumeMounts") or []:
            if mount.get("mountPath") == constants.WORKING_DIR:
                return str(mount.get("name"))
    return VOLUME


def _add_volume(spec: Object, volume: Object) -> None:
    volumes = spec.setdefault("volumes", [])
    if not any(item.get("name") == volume["name"] for item in volumes):
        volumes.append(volume)


def _add_mount(container: Object, volume: str, path: str, *, read_only: bool = False) -> None:
    mounts = container.setdefault("volumeMounts", [])
    if not any(mount.get("mountPath") == path for mount in mounts):
        mount: Object = {"name": volume, "mountPath": path}
        mounts.append({**mount, "readOnly": True} if read_only else mount)


def _build_token_volume() -> Object:
    """Build what the kubelet mounts by itself otherwise, with a token of ten minutes."""
    field = {"path": "namespace", "fieldRef": {"fieldPath": "metadata.namespace"}}
    return {
        "name": TOKEN_VOLUME,
        "projected": {
            "sources": [
                {"serviceAccountToken": {"path": "token", "expirationSeconds": _TOKEN_SECONDS}},
                {
                    "configMap": {
                        "name": "kube-root-ca.crt",
                        "items": [{"key": "ca.crt", "path": "ca.crt"}],
                    }
                },
                {"downwardAPI": {"items": [field]}},
            ]
        },
    }


def _build_image(program: str, options: InjectionOptions) -> str:
    return f"{options.registry.rstrip('/')}/framework-{program}:{VERSION}"


def _get_account(framework: Object, role: RoleTemplate) -> str:
    own = role.pod_spec.get("serviceAccountName")
    return str(own or ACCOUNT_PREFIX + framework["metadata"]["name"])


def _build_rights(framework: Object, accounts: list[str], *, drains: bool) -> Iterator[Object]:
    """Build account, Role and RoleBinding; an account of the user's own is only bound."""
    name = ACCOUNT_PREFIX + framework["metadata"]["name"]
    if name in accounts:
        yield _build_object(framework, "v1", "ServiceAccount", name)
    yield from _build_role(framework, name, _build_rules(framework), accounts)
    if drains:
        # One annotation of its own Pod: deploy/agents/admission sees to that.
        rule = {"apiGroups": [""], "resources": ["pods"], "verbs": ["patch"]}
        yield from _build_role(framework, f"{name}-drain", [rule], accounts)


def _build_rules(framework: Object) -> list[Object]:
    name = framework["metadata"]["name"]
    return [
        {
            "apiGroups": [""],
            "resources": ["configmaps"],
            "resourceNames": [f"{name}-attempt"],
            "verbs": ["get", "list", "watch"],
        },
        {
            "apiGroups": [constants.GROUP],
            "resources": [constants.FRAMEWORK_PLURAL],
            "resourceNames": [name],
            "verbs": ["get"],
        },
    ]


def _build_role(
    framework: Object, name: str, rules: list[Object], accounts: list[str]
) -> Iterator[Object]:
    group = "rbac.authorization.k8s.io"
    yield {**_build_object(framework, f"{group}/v1", "Role", name), "rules": rules}
    yield {
        **_build_object(framework, f"{group}/v1", "RoleBinding", name),
        "roleRef": {"apiGroup": group, "kind": "Role", "name": name},
        "subjects": [{"kind": "ServiceAccount", "name": account} for account in accounts],
    }


def _build_service(framework: Object) -> Object:
    """Build the headless Service; unready Pods too, since a barrier waits while its Pod is not."""
    name = framework["metadata"]["name"]
    return {
        **_build_object(framework, "v1", "Service", name),
        "spec": {
            "clusterIP": "None",
            "publishNotReadyAddresses": True,
            "selector": {constants.FRAMEWORK_NAME: name},
        },
    }


def _build_object(framework: Object, api_version: str, kind: str, name: str) -> Object:
    metadata: dict[str, Any] = {"name": name, "labels": dict(_LABELS)}
    if framework["metadata"].get("namespace"):
        metadata["namespace"] = framework["metadata"]["namespace"]
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata}

"""Adds the agents to the Pod templates of compiled Frameworks. Pure.

The user's containers keep their command, or start it through the agent (``wrap``). Only containers
in which an agent runs have its token. ``agent_objects`` has the account and its rights.
"""

import copy
import shlex
from collections.abc import Mapping
from typing import Any

from framework.api import constants, images
from framework.kinds.agent_objects import (
    ACCOUNT_PREFIX,
    AGENT_RESOURCES,
    KEY_VOLUME,
    TOKEN_VOLUME,
    VOLUME,
    build_key_mount,
    build_key_volume,
    build_token_volume,
)
from framework.kinds.compiled import Object
from framework.kinds.templates import add_annotation, add_default_env, add_mount, add_volume
from framework.version import VERSION

BARRIER = images.BARRIER
RENDEZVOUS = images.RENDEZVOUS
INSTALLER = f"{RENDEZVOUS}-install"
RESERVED = {
    "initContainers": (BARRIER, RENDEZVOUS, INSTALLER),
    "containers": (BARRIER, RENDEZVOUS),
    "volumes": (VOLUME, TOKEN_VOLUME, KEY_VOLUME),
}
"""Names of what is added, for ``check_template``."""
_USER_ID = 65531
_STARTUP_TRIES = 1200
# No agent acknowledges a drain: this needs a right that is not given here.
_QUIET = {"FB_ACKNOWLEDGE": "off"}


def prepare(template: Object, job: str) -> None:
    """Add what each agent of a Pod needs: account, volumes, and their mounts in the containers."""
    spec = template["spec"]
    if not spec.get("serviceAccountName"):
        spec["serviceAccountName"] = spec.get("serviceAccount") or f"{ACCOUNT_PREFIX}{job}"
    if spec.get("automountServiceAccountToken") is None:
        spec["automountServiceAccountToken"] = False
    add_volume(spec, {"name": VOLUME, "emptyDir": {}})
    add_volume(spec, build_token_volume())
    for container in spec["containers"]:
        add_mount(container, _build_mount())


def add_barrier(template: Object, env: dict[str, str] | None = None) -> None:
    """Add the barrier, which holds the Pod until its gang is complete."""
    container = _build_agent(BARRIER)
    if env:
        add_default_env(container, env)
    _append_init(template, container)


def add_sidecar(template: Object, env: dict[str, str]) -> None:
    """Add a sidecar that writes the files of the peers.

    The containers start when the first files are written.
    """
    container = _build_agent(RENDEZVOUS)
    container |= {
        "args": ["watch"],
        "restartPolicy": "Always",
        "startupProbe": {
            "exec": {"command": ["test", "-e", f"{constants.WORKING_DIR}/current/env.sh"]},
            "periodSeconds": 1,
            "failureThreshold": _STARTUP_TRIES,
        },
    }
    add_default_env(container, {"FB_SIDECAR_END": "native", **_QUIET, **env})
    _append_init(template, container)


def add_installer(template: Object) -> None:
    """Add an init container that copies the agent and its Python modules into the volume."""
    container = _build_agent(RENDEZVOUS, has_token=False)
    container["args"] = ["install"]
    names = [each.get("name") for each in template["spec"].get("initContainers") or []]
    if RENDEZVOUS in names:  # the name of a sidecar
        container["name"] = INSTALLER
    _append_init(template, container)


def wrap(template: Object, container: Object, env: dict[str, str]) -> None:
    """Start the command of a container through the agent that ``add_installer`` copies."""
    agent = f"{constants.WORKING_DIR}/{images.INSTALLED_AGENT}"
    container["command"] = ["python3", agent, "run", "--", *container["command"]]
    add_default_env(container, {**_QUIET, **env})
    add_mount(container, _build_token_mount())
    add_annotation(template, constants.WRAPPER_ANNOTATION, "true")


def serve_remote_commands(template: Object, container: Object) -> None:
    """Let the members start commands in a container that ``wrap`` has changed."""
    mount_gang_key(template, container)
    add_default_env(container, {"FB_RSH": "on"})


def mount_gang_key(template: Object, container: Object) -> None:
    """Mount the secrets of the attempt."""
    add_volume(template["spec"], build_key_volume())
    add_mount(container, build_key_mount())


def add_companion(container: Object, flags: Mapping[str, str]) -> None:
    """Start the agent that ``add_installer`` copies beside the command of a container.

    It sees the processes of the command, and has its files. The command gets no variables of the
    agent, and runs also where there is no Python.
    """
    agent = f"{constants.WORKING_DIR}/{images.INSTALLED_AGENT}"
    words = " ".join(f"--{name} {shlex.quote(value)}" for name, value in flags.items())
    start = f"python3 {agent} watch --sidecar-end native {words}"
    script = f'if command -v python3 >/dev/null; then {start} </dev/null & fi; exec "$@"'
    container["command"] = ["sh", "-c", script, "sh", *container["command"]]
    add_mount(container, _build_token_mount())


def _append_init(template: Object, container: Object) -> None:
    spec = template["spec"]
    spec["initContainers"] = [*(spec.get("initContainers") or []), container]


def _build_agent(program: str, *, has_token: bool = True) -> Object:
    mounts = [_build_mount(), *([_build_token_mount()] if has_token else [])]
    return {
        "name": program,
        "image": f"{images.REGISTRY}/{images.IMAGE_PREFIX}{program}:{VERSION}",
        "volumeMounts": mounts,
        "resources": copy.deepcopy(AGENT_RESOURCES),
        "securityContext": _build_security_context(),
    }


def _build_security_context() -> dict[str, Any]:
    return {
        "runAsNonRoot": True,
        "runAsUser": _USER_ID,
        "runAsGroup": _USER_ID,
        "readOnlyRootFilesystem": True,
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "seccompProfile": {"type": "RuntimeDefault"},
    }


def _build_mount() -> Object:
    return {"name": VOLUME, "mountPath": constants.WORKING_DIR}


def _build_token_mount() -> Object:
    return {"name": TOKEN_VOLUME, "mountPath": constants.SERVICE_ACCOUNT_DIR, "readOnly": True}

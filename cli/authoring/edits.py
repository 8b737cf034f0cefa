"""Edits of a Pod template that keep the fields of the user. Pure."""

from typing import Any

from cli.authoring.users import USER_ID
from cli.files.templates import RoleTemplate, get_mount_path
from framework.api import constants
from framework.kube.resources import Object


def set_default(body: Object, key: str, value: Any) -> Any:
    """Set a field that is absent or null, which the API server treats alike; return its value."""
    if body.get(key) is None:
        body[key] = value
    return body[key]


def find_mount(role: RoleTemplate) -> Object | None:
    """Find the mount of the folder where the agents write, to add it to the other containers."""
    for container in role.list_containers():
        for mount in container.body.get("volumeMounts") or []:
            if get_mount_path(mount) == constants.WORKING_DIR:
                kept = {key: mount[key] for key in ("subPath", "subPathExpr") if mount.get(key)}
                return {"name": mount.get("name"), "mountPath": constants.WORKING_DIR, **kept}
    return None


def add_volume(spec: Object, volume: Object) -> None:
    """Add a volume, unless the Pod has a volume with this name."""
    volumes = set_default(spec, "volumes", [])
    if not any(item.get("name") == volume["name"] for item in volumes):
        volumes.append(volume)


def add_mount(container: Object, mount: Object) -> None:
    """Add a mount, unless the container has a mount at this path."""
    mounts = set_default(container, "volumeMounts", [])
    if not any(get_mount_path(item) == mount["mountPath"] for item in mounts):
        mounts.append(dict(mount))


def restrict(role: RoleTemplate) -> None:
    """Add the fields that Pod Security's level `restricted` requires to a Pod."""
    pod = set_default(role.pod_spec, "securityContext", {})
    set_default(pod, "runAsNonRoot", value=True)
    set_default(pod, "runAsUser", USER_ID)
    set_default(pod, "seccompProfile", {"type": "RuntimeDefault"})
    for container in role.list_containers():
        restrict_container(set_default(container.body, "securityContext", {}))


def restrict_container(context: Object) -> None:
    """Add the fields that this level requires to the security context of a container."""
    set_default(context, "allowPrivilegeEscalation", value=False)
    set_default(set_default(context, "capabilities", {}), "drop", ["ALL"])

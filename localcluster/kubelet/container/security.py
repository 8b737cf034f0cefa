"""The users, groups and capabilities of a container, by its securityContext and this host. Pure.

A field is honoured where the host allows it; ``list_ignored`` names the others, for an Event.
Rules:

1. ``runAsUser``, ``runAsGroup``, ``supplementalGroups`` and ``fsGroup`` are honoured where the
   kubelet is root and containers have a private root, through which they reach their volumes. The
   groups hold for user 0 too. Another user without ``runAsGroup`` gets the group of its number:
   group 0 could read files of this host. With none of the four fields, nothing changes.
2. ``runAsNonRoot`` without ``runAsUser``: no image is pulled, so its user is unknown, and the
   container runs as 65532. Where that is not possible and the container would run as root, it
   fails with the message of the kubelet.
3. Capabilities matter only for root; other users have none, and get none.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from framework.kube.resources import Object
from localcluster.kubelet.fields import FieldError

UNCHANGED = -1
"""Stands for the user or group of the kubelet."""
DEFAULT_USER = 65532
"""The user of this project's images, and of most images that have a user without rights."""
_ALL = "ALL"
# linux/capability.h, in the order of the numbers.
CAPABILITIES = (
    *("CHOWN", "DAC_OVERRIDE", "DAC_READ_SEARCH", "FOWNER", "FSETID", "KILL", "SETGID", "SETUID"),
    *("SETPCAP", "LINUX_IMMUTABLE", "NET_BIND_SERVICE", "NET_BROADCAST", "NET_ADMIN", "NET_RAW"),
    *("IPC_LOCK", "IPC_OWNER", "SYS_MODULE", "SYS_RAWIO", "SYS_CHROOT", "SYS_PTRACE", "SYS_PACCT"),
    *("SYS_ADMIN", "SYS_BOOT", "SYS_NICE", "SYS_RESOURCE", "SYS_TIME", "SYS_TTY_CONFIG", "MKNOD"),
    *("LEASE", "AUDIT_WRITE", "AUDIT_CONTROL", "SETFCAP", "MAC_OVERRIDE", "MAC_ADMIN", "SYSLOG"),
    *("WAKE_ALARM", "BLOCK_SUSPEND", "AUDIT_READ", "PERFMON", "BPF", "CHECKPOINT_RESTORE"),
)
_NEEDS_A_RUNTIME = (
    "seccompProfile",
    "seLinuxOptions",
    "appArmorProfile",
    "procMount",
    "windowsOptions",
    "sysctls",
)


@dataclass(frozen=True, slots=True)
class Privileges:
    """The privileges of a container's processes."""

    user: int = UNCHANGED
    """The user id; -1 keeps the kubelet's."""
    group: int = UNCHANGED
    """The group id; -1 keeps the kubelet's."""
    groups: tuple[int, ...] | None = None
    """The supplementary groups; None for the kubelet's."""
    dropped_capabilities: tuple[int, ...] = ()
    """Numbers of the capabilities to drop."""
    no_new_privileges: bool = False
    """Whether exec may not add privileges."""
    read_only_root: bool = False
    """Whether the private root is read-only."""

    @property
    def changes_user(self) -> bool:
        """Return whether the container runs as another user than the kubelet."""
        return self.user != UNCHANGED


@dataclass(frozen=True, slots=True)
class Host:
    """The properties of this host that limit containers."""

    uid: int
    """User id of the kubelet."""
    has_private_root: bool
    has_user_namespace: bool
    """Whether containers are in a user namespace, which has only this user."""
    can_write_protect: bool
    """Whether a mount can be made read-only with all mounts below it."""

    @property
    def can_change_user(self) -> bool:
        """Return whether a container may run as another user than the kubelet."""
        return self.uid == 0 and self.has_private_root and not self.has_user_namespace


def plan_privileges(pod: Object, container: Object, host: Host) -> Privileges:
    """Compute the privileges of a container."""
    spec, own = _read_context(pod["spec"]), _read_context(container)
    user = _choose_user(spec, own, host)
    group = _pick(spec, own, "runAsGroup") if host.can_change_user else None
    groups = _list_groups(spec) if host.can_change_user else ()
    is_changed = bool(groups) or group is not None or user != UNCHANGED
    return Privileges(
        user=user,
        group=user if group is None else group,
        groups=groups if is_changed else None,
        dropped_capabilities=_list_dropped(own) if host.uid == 0 else (),
        no_new_privileges=own.get("allowPrivilegeEscalation") is False,
        read_only_root=bool(own.get("readOnlyRootFilesystem"))
        and host.has_private_root
        and host.can_write_protect,
    )


def get_volume_group(pod: Object, host: Host) -> int | None:
    """Return the group that the Pod's own volumes belong to."""
    group = _read_context(pod["spec"]).get("fsGroup")
    return group if host.can_change_user else None


def list_ignored(pod: Object, host: Host) -> list[str]:
    """List the fields of security contexts that have no effect here, each with the reason."""
    found = list(_explain("spec.securityContext", _read_context(pod["spec"]), host))
    for field in ("initContainers", "containers"):
        for container in pod["spec"].get(field) or ():
            path = f"spec.{field}{{{container['name']}}}.securityContext"
            found += _explain(path, _read_context(container), host)
            if _has_unknown_user(pod, container) and host.can_change_user:
                found.append(
                    f"{path}.runAsNonRoot without runAsUser: the image's user is unknown here, so "
                    f"the container runs as user {DEFAULT_USER}; set runAsUser"
                )
    return found


def _explain(path: str, context: Object, host: Host) -> Iterator[str]:
    if not host.can_change_user:
        for field in ("runAsUser", "runAsGroup", "supplementalGroups", "fsGroup"):
            if context.get(field) is not None and context[field] != host.uid:
                yield f"{path}.{field}: {_explain_user(host)}"
    if context.get("readOnlyRootFilesystem") and not host.has_private_root:
        yield f"{path}.readOnlyRootFilesystem: this host forbids mount namespaces"
    elif context.get("readOnlyRootFilesystem") and not host.can_write_protect:
        yield f"{path}.readOnlyRootFilesystem: this kernel lacks mount_setattr (Linux 5.12)"
    if host.uid != 0 and context.get("privileged"):
        yield f"{path}.privileged: the local cluster does not run as root"
    for field in _NEEDS_A_RUNTIME:
        if context.get(field) and context[field] != {"type": "Unconfined"}:
            yield f"{path}.{field}: the local cluster has no container runtime that could apply it"


def _explain_user(host: Host) -> str:
    if host.uid != 0:
        return f"only root can change users, so containers run as user {host.uid}"
    return "this host gives containers no private root, so they run as root"


def _choose_user(spec: Object, own: Object, host: Host) -> int:
    """Return the user that the container runs as, UNCHANGED for the kubelet's.

    The messages begin with the words of kubelet's ``verifyRunAsNonRoot``.
    """
    wanted = _pick(spec, own, "runAsUser")
    is_never_root = bool(_pick(spec, own, "runAsNonRoot"))
    if is_never_root and wanted == 0:
        raise FieldError(
            "container's runAsUser breaks non-root policy: runAsNonRoot is true and runAsUser is "
            "0; set runAsUser to another number, or runAsNonRoot to false"
        )
    if wanted is None and is_never_root and host.uid == 0:
        wanted = DEFAULT_USER
    if wanted is None or wanted == host.uid:
        return UNCHANGED
    if host.can_change_user:
        return int(wanted)
    if is_never_root and host.uid == 0:
        raise FieldError(
            "container has runAsNonRoot and image will run as root: "
            f"{_explain_user(host)}; run the local cluster as an ordinary user"
        )
    return UNCHANGED


def _has_unknown_user(pod: Object, container: Object) -> bool:
    spec, own = _read_context(pod["spec"]), _read_context(container)
    return bool(_pick(spec, own, "runAsNonRoot")) and _pick(spec, own, "runAsUser") is None


def _list_dropped(own: Object) -> tuple[int, ...]:
    capabilities = own.get("capabilities") or {}
    dropped = {_name(text) for text in capabilities.get("drop") or ()}
    added = {_name(text) for text in capabilities.get("add") or ()}
    if own.get("privileged") or _ALL in added:
        return ()
    return tuple(
        number
        for number, name in enumerate(CAPABILITIES)
        if name in dropped - added or (_ALL in dropped and name not in added)
    )


def _name(capability: str) -> str:
    return capability.upper().removeprefix("CAP_")


def _read_context(owner: Object) -> Object:
    return owner.get("securityContext") or {}


def _pick(spec: Object, own: Object, field: str) -> Any:
    """Return a field that the container's context overrides."""
    value = own.get(field)
    return spec.get(field) if value is None else value


def _list_groups(spec: Object) -> tuple[int, ...]:
    """List the supplementary groups that the Pod asks for."""
    given = [*(spec.get("supplementalGroups") or ()), spec.get("fsGroup")]
    return tuple(dict.fromkeys(group for group in given if group is not None))

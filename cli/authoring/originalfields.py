"""Fields of a Framework that the Go original drops without a message. Pure.

Its types have none of this project's extensions. It also decodes Pod templates into the types of
k8s.io/api v0.16.15 (its go.mod), so fields that are younger than Kubernetes 1.16 are lost. This
project keeps them.
"""

from collections.abc import Iterator, Mapping

from cli.files.templates import ContainerTemplate, RoleTemplate
from framework.api import constants

# Fields of the spec and of a role -> the function that is lost with each.
_SPEC_FIELDS: Mapping[str, str] = {
    constants.COMPLETED_POD_POLICY_FIELD: "the choice to keep completed Pods",
    constants.SUSPEND_FIELD: "the suspension: the Framework runs",
    constants.ACTIVE_DEADLINE_FIELD: "the deadline: the Framework runs on",
    constants.TTL_FIELD: "the time of the deletion: it is that of the config of the controller",
}
_ROLE_FIELDS: Mapping[str, str] = {
    constants.COMPLETED_POD_POLICY_FIELD: "the choice to keep completed Pods",
    constants.ABSENT_TASK_INDICES_FIELD: "the gaps, so that these Tasks run",
    constants.DRAIN_FIELD: "the drain, so that Pods leave at once",
    constants.RECOVERY_FIELD: "restarts in place and free retries of evictions",
    constants.MIN_MEMBER_COUNT_FIELD: "the quorum, so that the whole gang must be complete",
}
# Fields of a Pod's spec -> the function that is lost with each.
_POD_FIELDS: Mapping[str, str] = {
    "hostUsers": "the Pod's user namespace",
    "os": "the Pod's operating system",
    "resourceClaims": "devices of dynamic resource allocation",
    "resources": "resources of the whole Pod",
    "schedulingGates": "gates, for example Kueue's",
    "setHostnameAsFQDN": "the full host name",
}
_SECURITY_FIELDS: Mapping[str, str] = {
    "appArmorProfile": "the AppArmor profile",
    "fsGroupChangePolicy": "how volumes change their group",
    "seccompProfile": "the seccomp profile, so that Pod Security's `restricted` refuses the Pod",
    "supplementalGroupsPolicy": "the policy of groups",
}
_VOLUME_FIELDS: Mapping[str, str] = {"ephemeral": "the volume"}
_CONTAINER_FIELDS: Mapping[str, str] = {
    "resizePolicy": "resizing in place",
    "restartPolicy": "what makes it a native sidecar: as an init container it never ends",
}
_PROBES = ("livenessProbe", "readinessProbe", "startupProbe")


def list_spec_fields(spec: object, path: str) -> Iterator[tuple[str, str]]:
    """List the fields of a Framework's spec that are dropped, and the lost functions."""
    yield from _list_present(spec, path, _SPEC_FIELDS)


def list_role_fields(role: RoleTemplate) -> Iterator[tuple[str, str]]:
    """List the fields of a role and of its Pod template's spec that would be dropped."""
    yield from _list_present(role.body, role.path, _ROLE_FIELDS)
    spec, path = role.pod_spec, role.spec_path
    yield from _list_present(spec, path, _POD_FIELDS)
    yield from _list_present(
        spec.get("securityContext"), f"{path}.securityContext", _SECURITY_FIELDS
    )
    for volume in role.list_volumes():
        yield from _list_present(volume.body, volume.path, _VOLUME_FIELDS)
    for container in role.list_containers():
        yield from _list_container_fields(container)


def _list_container_fields(template: ContainerTemplate) -> Iterator[tuple[str, str]]:
    container, path = template.body, template.path
    yield from _list_present(container, path, _CONTAINER_FIELDS)
    yield from _list_present(
        container.get("securityContext"), f"{path}.securityContext", _SECURITY_FIELDS
    )
    yield from _list_present(
        container.get("resources"), f"{path}.resources", {"claims": "devices it asked for"}
    )
    for probe in _PROBES:
        yield from _list_present(container.get(probe), f"{path}.{probe}", {"grpc": "the probe"})


def _list_present(value: object, path: str, fields: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    if isinstance(value, dict):
        yield from ((f"{path}.{name}", lost) for name, lost in fields.items() if name in value)

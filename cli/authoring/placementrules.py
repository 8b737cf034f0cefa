"""The rules of `lint` about the needs of agents in a Pod: token, volume, and an end. Pure."""

from collections.abc import Iterator

from cli.authoring.agentcalls import is_watch
from cli.authoring.findings import Finding, error, warning
from cli.files.templates import ContainerTemplate, RoleTemplate, get_account, get_mount_path
from framework.api import constants, images
from framework.kube.resources import Object

_INJECT = "let `framework inject` add it"
_ENDING_SETTING = "FB_SIDECAR_END"


def service_account(_: Object, role: RoleTemplate, __: object) -> Iterator[Finding]:
    """Find agents that lack the right to read the ConfigMap of their gang."""
    agents = [c for c in role.list_containers() if c.is_agent and not _asks_dns_only(c)]
    if not agents:
        return
    if not get_account(role):
        yield error(
            "service-account",
            f"{role.spec_path}.serviceAccountName",
            f"is missing: `{agents[0].name}` runs as `default`, which may not read its gang's "
            "ConfigMap, and ends with 210",
            f"{_INJECT}, or `kubectl apply -k deploy/agents/namespace` and write "
            "`serviceAccountName: frameworkbarrier`",
        )
    if role.pod_spec.get("automountServiceAccountToken") is False:
        yield from (
            error(
                "service-account",
                f"{agent.path}.volumeMounts",
                "no token: automountServiceAccountToken is false, and nothing is mounted at "
                f"{constants.SERVICE_ACCOUNT_DIR}",
                f"mount a projected serviceAccountToken volume there; {_INJECT}",
            )
            for agent in agents
            if not _has_mount(agent, constants.SERVICE_ACCOUNT_DIR)
        )


def shared_volume(_: Object, role: RoleTemplate, __: object) -> Iterator[Finding]:
    """Find files that an agent writes and no container reads."""
    containers = role.list_containers()
    if not any(c.is_agent for c in containers):
        return
    path = _find_working_dir(containers)
    lacking = [c for c in containers if not _has_mount(c, path)]
    readers = [c for c in containers if not c.is_init and c not in lacking]
    for container in lacking:
        if container.is_agent:
            yield error(
                "shared-volume",
                f"{container.path}.volumeMounts",
                f"no volume at {path}, where it writes",
                f"mount an emptyDir volume there, in the containers too; {_INJECT}",
            )
    if not readers:
        yield error(
            "shared-volume",
            f"{role.spec_path}.containers",
            f"no container mounts {path}, so no container can read the files of the agents",
            f"mount the agents' volume there; {_INJECT}",
        )


def endless_sidecar(_: Object, role: RoleTemplate, __: object) -> Iterator[Finding]:
    """Find a sidecar that would keep its Pod from completing."""
    containers = role.list_containers()
    for container in containers:
        if not is_watch(container) or container.is_native_sidecar:
            continue
        if container.is_init:
            yield error(
                "endless-sidecar",
                f"{container.path}.restartPolicy",
                "`watch` never ends, and the containers start when it has: the Pod stays in Init",
                "write `restartPolicy: Always` (a native sidecar, Kubernetes 1.29), or take "
                "`render`",
            )
        elif not _can_end(container, role):
            yield error(
                "endless-sidecar",
                f"{container.path}.env",
                "this sidecar cannot detect when the other containers have ended: it refuses to "
                "start, because the Pod would never complete",
                "move it to initContainers with `restartPolicy: Always`, or set "
                f"`shareProcessNamespace: true`, or {_ENDING_SETTING}=pod with the right to watch "
                "its Pod",
            )


def unheard_drain(_: Object, role: RoleTemplate, __: object) -> Iterator[Finding]:
    """Find a drain without an agent in the Pod that notifies its processes."""
    has_agent = any(c.is_wrapped or is_watch(c) for c in role.list_containers())
    if role.body.get(constants.DRAIN_FIELD) and not has_agent:
        yield warning(
            "unheard-drain",
            f"{role.path}.{constants.DRAIN_FIELD}",
            "no container runs `rendezvous watch` or `run`: no process is notified that it leaves, "
            "and a scale-in does not wait",
            "add the sidecar (`framework inject --rendezvous sidecar`), or leave out `drain`",
        )


def _asks_dns_only(container: ContainerTemplate) -> bool:
    """Return whether a barrier uses DNS names only, so that it needs no token."""
    env = container.get_env()
    return container.program == images.BARRIER and constants.BARRIER_EXPECT_ENV in env


def _has_mount(container: ContainerTemplate, path: str) -> bool:
    return any(get_mount_path(m) == path.rstrip("/") for m in container.list_mounts())


def _find_working_dir(containers: list[ContainerTemplate]) -> str:
    for container in containers:
        if container.is_agent:
            return container.get_env().get(constants.WORKING_DIR_ENV) or constants.WORKING_DIR
    return constants.WORKING_DIR


def _can_end(container: ContainerTemplate, role: RoleTemplate) -> bool:
    chosen = container.get_env().get(_ENDING_SETTING, "")
    if chosen in {"pod", "auto"}:
        return True
    if role.pod_spec.get("shareProcessNamespace") is True:
        return True
    return any(c.is_wrapped for c in role.list_containers())

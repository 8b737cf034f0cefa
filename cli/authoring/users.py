"""Users of a Pod's containers: which container can read an agent's token through /proc. Pure.

With ``shareProcessNamespace`` every container sees the processes of all others. Linux lets a
process read another's /proc/PID/root, environ and memory if the user and the group of both are
equal (ptrace(2), "Ptrace access mode checking"), or with the capability SYS_PTRACE. A process may
send a signal if the users alone are equal. A process of root can become any user, unless its
capabilities were dropped.
"""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from cli.authoring.agentcalls import read_call
from cli.files.templates import ContainerTemplate, RoleTemplate

USER_ID = 65532
"""User of a container that names none, with `inject --restricted`."""
AGENT_USER_ID = 65531
_ROOT = 0
_SIGNAL_ENV = "FB_NOTIFY_SIGNAL"


class User(NamedTuple):
    """User and group of a container's processes; None if its image decides."""

    user: int | None
    group: int | None


def get_user(role: RoleTemplate, container: ContainerTemplate) -> User:
    """Return user and group of a container; its own fields come before those of the Pod."""
    own, pod = _get_context(container.body), _get_context(role.pod_spec)
    user, group = (
        next((value for context in (own, pod) if (value := context.get(key)) is not None), None)
        for key in ("runAsUser", "runAsGroup")
    )
    return User(_get_number(user), _get_number(group))


def choose_agent_user(role: RoleTemplate, agent: ContainerTemplate) -> User:
    """Choose user and group that no other container has; an agent that signals shares the user."""
    users = [get_user(role, container) for container in _list_user_containers(role)]
    user = group = next(
        number
        for number in range(AGENT_USER_ID, _ROOT, -1)
        if all(number not in other for other in users) and number != USER_ID
    )
    if _sends_signals(agent) and shares_processes(role):
        target = next((u.user for u in users if u.user is not None), None)
        user = user if target in {None, _ROOT} else target
    return User(user, group)


def shares_processes(role: RoleTemplate) -> bool:
    """Return whether the containers of its Pods see one another's processes."""
    return role.pod_spec.get("shareProcessNamespace") is True


def list_token_readers(
    role: RoleTemplate, agent: ContainerTemplate
) -> Iterator[tuple[ContainerTemplate, bool]]:
    """List containers that can read an agent's files, and whether as its own user.

    The others run as root, or their image may run as root: they can become the agent's user.
    """
    runs_beside = not agent.is_init or agent.is_native_sidecar
    if not (shares_processes(role) and runs_beside):
        return
    its = get_user(role, agent)
    for container in _list_user_containers(role):
        if container.path == agent.path:
            continue
        user = get_user(role, container)
        if user.user is not None and user == its:
            yield container, True
        elif user.user in {None, _ROOT} and not _drops_all(container):
            yield container, False


def _list_user_containers(role: RoleTemplate) -> list[ContainerTemplate]:
    return [c for c in role.list_containers() if c.is_wrapped or c.program is None]


def _sends_signals(agent: ContainerTemplate) -> bool:
    call = read_call(agent)
    return "signal" in call.flags or _SIGNAL_ENV in call.env


def _drops_all(container: ContainerTemplate) -> bool:
    capabilities = _get_context(container.body).get("capabilities")
    dropped = capabilities.get("drop") if isinstance(capabilities, Mapping) else None
    added = capabilities.get("add") if isinstance(capabilities, Mapping) else None
    return isinstance(dropped, list) and "ALL" in dropped and not added


def _get_context(body: Mapping[str, Any]) -> Mapping[str, Any]:
    context = body.get("securityContext")
    return context if isinstance(context, Mapping) else {}


def _get_number(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None

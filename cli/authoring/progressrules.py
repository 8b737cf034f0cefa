"""The rule of `lint` about progress and hangs. Pure.

Rules: docs/rendezvous.md, "Progress and hangs".
"""

from collections.abc import Iterator

from cli.authoring.agentcalls import Call, is_given, read_call
from cli.authoring.findings import Finding, error, warning
from cli.files.templates import ContainerTemplate, RoleTemplate, list_role_names, list_roles
from framework.kube.resources import Object
from rendezvous.settings.arguments import RUN
from rendezvous.settings.kinds import RANKED_KINDS, map_roles
from rendezvous.settings.options import OPTIONS, Options

_RULE = "unwatched-progress"
_LIMIT = "FB_PROGRESS_TIMEOUT_SEC"
_STATUS_ENV = "FB_PROGRESS_STATUS"
_STATUS = f"{_STATUS_ENV}=on"
_FIRST_LIMIT = "FB_FIRST_PROGRESS_TIMEOUT_SEC"
_FIRST = {"first_progress_seconds": _FIRST_LIMIT}
_PARTS = {
    "progress_file": "FB_PROGRESS_FILE",
    "progress_pattern": "FB_PROGRESS_PATTERN",
}


def unwatched_progress(framework: Object, role: RoleTemplate, __: object) -> Iterator[Finding]:
    """Find settings with which hangs are not found, or not in all ranks."""
    for container in role.list_containers():
        if not container.is_rendezvous:
            continue
        call = read_call(container)
        limit = _find_limit(role, container, call, _LIMIT)
        if limit is None or call.arguments is None:
            continue
        is_reported = call.options is not None and call.options.progress_status == "on"
        if (limit or is_reported) and call.arguments.command != RUN:
            setting = _LIMIT if limit else _STATUS
            yield warning(
                _RULE,
                container.path,
                f"{setting} has no effect: `{call.arguments.command}` does not look for hangs",
                "start the training by `rendezvous run` (`framework inject --rendezvous wrapper`)",
            )
        elif not limit:
            yield from _judge_parts(role, container, call, is_reported=is_reported)
        if is_reported and call.options is not None and not call.options.acknowledge:
            yield error(
                _RULE,
                f"{container.path}.env",
                f"{_STATUS} patches the Pod, and FB_ACKNOWLEDGE is off: the agent ends with 210",
                "leave out FB_ACKNOWLEDGE, and inject the agents again: `framework inject` gives "
                "their account the right",
            )
        if call.arguments.command == RUN:
            yield from _compare_limits(role, container, call, limit)
            yield from _compare_roles(framework, role, container, limit)


def reports_progress(role: RoleTemplate) -> bool:
    """Return whether a role is to report how far the training is, also before it has agents."""
    (option,) = (each for each in OPTIONS if each.env_name == _STATUS_ENV)
    given = [each.get_env().get(option.env_name) for each in role.list_containers()]
    return "on" in (*given, role.annotations.get(option.annotation))


def _judge_parts(
    role: RoleTemplate, container: ContainerTemplate, call: Call, *, is_reported: bool
) -> Iterator[Finding]:
    """Find settings that have no effect without a limit."""
    parts = _FIRST if is_reported else {**_FIRST, **_PARTS}
    given = [env for name, env in parts.items() if is_given(role, container, call, name)]
    if given and not container.body.get("envFrom"):
        yield warning(
            _RULE,
            f"{container.path}.env",
            f"{', '.join(given)} has no effect without {_LIMIT}: no hang is looked for",
            f"write {_LIMIT}, several times as long as the longest step",
        )


def _compare_limits(
    role: RoleTemplate, container: ContainerTemplate, call: Call, limit: float
) -> Iterator[Finding]:
    """Find a limit of the first step below that of the others, though it takes longer."""
    first = _find_limit(role, container, call, _FIRST_LIMIT)
    if first and first < limit:
        yield warning(
            _RULE,
            f"{container.path}.env",
            f"{_FIRST_LIMIT} is {first:g}, below {_LIMIT} ({limit:g}): a first step, which also "
            "loads data and compiles code, is taken for a hang sooner than any other",
            f"write {_FIRST_LIMIT}, at least as long as {_LIMIT}; 0 for no limit",
        )


def _compare_roles(
    framework: Object, role: RoleTemplate, container: ContainerTemplate, limit: float
) -> Iterator[Finding]:
    """Find a role that computes with others, and has another limit than the first of them."""
    limits = dict(_list_limits(framework))
    given = [name for name, found in limits.items() if found]
    if role.name not in limits or not given:
        return
    usual = limits[given[0]]
    if limit != usual:
        effect = "a hang of its ranks is not found" if not limit else "only that of rank 0 is used"
        yield warning(
            _RULE,
            f"{container.path}.env",
            f"{_LIMIT} is {limit:g}, but {usual:g} in the role {given[0]}: {effect}",
            "write the same value in all roles that compute",
        )


def _list_limits(framework: Object) -> Iterator[tuple[str, float]]:
    """List the roles that compute and are started by `run`, with their limits."""
    names = list_role_names(framework)
    for role in list_roles(framework):
        wrapped = next((each for each in role.list_containers() if each.is_wrapped), None)
        if wrapped is None:
            continue
        call = read_call(wrapped)
        limit = _find_limit(role, wrapped, call, _LIMIT)
        if limit is None or call.options is None:
            continue
        if map_roles(names, call.options.roles).get(role.name) in RANKED_KINDS:
            yield role.name, limit


def _find_limit(
    role: RoleTemplate, container: ContainerTemplate, call: Call, env_name: str
) -> float | None:
    """Find a limit in seconds; None if it is not known here."""
    (option,) = (each for each in OPTIONS if each.env_name == env_name)
    if call.options is None or container.body.get("envFrom"):
        return None
    if option.name in call.flags or option.env_name in call.env:
        return _get_seconds(call.options, option.name)
    if option.env_name in container.get_env():
        return None
    text = role.annotations.get(option.annotation) if option.by_annotation else None
    try:
        return float(text) if text is not None else _get_seconds(call.options, option.name)
    except (TypeError, ValueError):
        return None


def _get_seconds(options: Options, name: str) -> float:
    return options.first_progress_seconds if name in _FIRST else options.progress_seconds

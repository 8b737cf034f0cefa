"""The rules of `lint` about agents: missing agents, their settings, tokens and slots. Pure."""

import re
from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from typing import NamedTuple

from barrier.config import ConfigError
from cli.authoring.agentcalls import (
    Call,
    is_given,
    list_barrier_faults,
    load_barrier_config,
    read_call,
)
from cli.authoring.findings import Finding, error, warning
from cli.authoring.users import AGENT_USER_ID, list_token_readers
from cli.files.templates import (
    ContainerTemplate,
    RoleTemplate,
    get_mount_path,
    list_role_names,
    list_roles,
)
from framework.api import constants, images
from framework.kube.resources import Object
from rendezvous.renderers.registry import BUILT_IN
from rendezvous.settings.arguments import INSTALL, RENDER, RUN, WATCH
from rendezvous.settings.unused_settings import list_misspelt, list_named_roles

_COMMANDS = (RENDER, WATCH, RUN, INSTALL)
_SLOTTED_FORMATS = frozenset({"openmpi", "hydra", "deepspeed", "horovod", "horovodrun"})
_GPU = re.compile(r"(^|[./])gpu$")
_INJECTOR = re.compile(r"(?<!\S)\S*/" + re.escape(constants.INJECTOR_FILE) + r"(?!\w)")
_ENV_FILE = re.compile(r"(?<!\S)\S*/current/env\.sh\b")
# The beginning of a command: a separate word, or a command in a shell script.
_COMMAND_START = r"(?:^|[\n;&|({][^\S\n]*|\b(?:exec|then|do|else|time|env)\s+)(?:[^\s;&|({]*/)?"
_HOST_LAUNCHER = re.compile(_COMMAND_START + r"(mpirun|mpiexec|horovodrun|deepspeed)(?=\s|$)")
_TORCHRUN = re.compile(_COMMAND_START + r"(torchrun)(?=\s|$)|(torch\.distributed\.run)\b")
_OWN_HOSTS = re.compile(
    r"(?:^|\s)(?:-H|-f|--?host(?:s|file)?|--?machinefile)[ =]+(?!\S*(?:FB_|/current/))\S"
)
_OWN_COUNTS = re.compile(
    r"(?:^|\s)(?:-N|-ppn|-perhost|--?n?pernode|--oversubscribe|--map-by|--num_gpus)\b"
)
_OWN_PROCESSES = re.compile(r"--(?:nproc[-_]per[-_]node|standalone)\b")


class _AgentFile(NamedTuple):
    """A file that only an agent writes."""

    pattern: "re.Pattern[str]"
    writer: str
    is_written: bool


def missing_agent(_: Object, role: RoleTemplate, __: object) -> Iterator[Finding]:
    """Find commands that read a file of an agent that the Pod does not have."""
    containers = role.list_containers()
    files = _list_agent_files(containers)
    nameless = {c.path for c in containers if not c.image}
    # The argument `install` counts, whatever the name of the image.
    is_installed = any(c.is_init and "install" in c.list_words() for c in containers)
    for container in containers:
        text = " ".join(container.list_words())
        # Another container without an image may be the agent: `pod_template` reports it.
        is_known = nameless <= {container.path}
        for file in files:
            read = file.pattern.search(text)
            if read and is_known and not file.is_written:
                yield warning(
                    "missing-agent",
                    container.path,
                    f"reads {read.group()}, but no container is an agent that writes it: "
                    f"{file.writer}",
                    "check the spelling of initContainers and of the agent's image, or let "
                    "`framework inject` add it (--rendezvous sidecar, its default)",
                )
        if container.is_wrapped and not is_installed:
            yield from _report_no_installer(container, role)


def agent_settings(framework: Object, role: RoleTemplate, __: object) -> Iterator[Finding]:
    """Find arguments and settings with which an agent ends with 210, or that it does not know."""
    names = list_role_names(framework)
    for container in role.list_containers():
        if container.program == images.BARRIER:
            yield from _judge_barrier(container, role, names)
        elif container.program == images.RENDEZVOUS or container.is_wrapped:
            yield from _judge_rendezvous(container, names)


def agent_token(_: Object, role: RoleTemplate, __: object) -> Iterator[Finding]:
    """Find containers that read an agent's token through the shared process namespace."""
    for agent in role.list_containers():
        if not agent.is_agent:
            continue
        for reader, is_same_user in list_token_readers(role, agent):
            if is_same_user:
                yield error(
                    "agent-token",
                    f"{agent.path}.securityContext.runAsUser",
                    f"user and group are those of `{reader.name}`, which sees the agent's "
                    "processes (shareProcessNamespace), so it can read the agent's token in /proc",
                    f"write another user, for example `runAsUser: {AGENT_USER_ID}` and "
                    f"`runAsGroup: {AGENT_USER_ID}`; where the agent sends signals "
                    "(FB_NOTIFY_SIGNAL), the same user and another group",
                )
            else:
                yield warning(
                    "agent-token",
                    f"{reader.path}.securityContext",
                    "may run as root, which can become the user of any process it sees "
                    f"(shareProcessNamespace), and so read the token of `{agent.name}` through "
                    "/proc",
                    "write `runAsUser` with a user that is not root, or `capabilities: {drop: "
                    "[ALL]}`; `framework inject --restricted` writes both",
                )


def missing_slots(framework: Object, role: RoleTemplate, __: object) -> Iterator[Finding]:
    """Find launchers that start one process in each Pod although the Pods have several GPUs."""
    containers = role.list_containers()
    text = "\n".join(word for c in containers if _has_variables(c) for word in _list_own_words(c))
    # Launchers start processes in all Pods; torchrun only in its own Pod.
    on_torchrun = _count_gpus([role]) if _find_torchrun(text) else 0
    on_hosts = _count_gpus([*list_roles(framework)]) if _finds_hosts(text) else 0
    for agent in containers:
        if not agent.is_rendezvous:
            continue
        call = read_call(agent)
        if call.fault:
            continue
        formats = _SLOTTED_FORMATS.intersection(call.env.get("FB_FORMATS", "").split(","))
        gpus = max(on_hosts, _count_gpus([role]) if formats else 0)
        if not is_given(role, agent, call, "slots"):
            if gpus > 1:
                yield _report_slots(agent, "the host files offer one slot a Pod", gpus)
            elif on_torchrun > 1 and not is_given(role, agent, call, "torch_nproc"):
                yield _report_slots(agent, "torchrun starts one process a Pod", on_torchrun)


def _list_agent_files(containers: list[ContainerTemplate]) -> list[_AgentFile]:
    has_barrier = any(c.program == images.BARRIER for c in containers)
    has_rendezvous = any(c.is_rendezvous for c in containers)
    return [
        _AgentFile(_INJECTOR, "it is the barrier's (image framework-barrier)", has_barrier),
        _AgentFile(
            _ENV_FILE,
            "it is that of `render`, `watch` and `run` (image framework-rendezvous)",
            has_rendezvous,
        ),
    ]


def _report_no_installer(container: ContainerTemplate, role: RoleTemplate) -> Iterator[Finding]:
    """Report an agent in an emptyDir volume that nothing installs; an image may have its own."""
    empty = {v.body.get("name") for v in role.list_volumes() if "emptyDir" in v.body}
    for mount in container.list_mounts():
        agent = f"{get_mount_path(mount)}/{images.INSTALLED_AGENT}"
        if mount.get("name") in empty and any(agent in word for word in container.list_words()):
            yield warning(
                "missing-agent",
                container.path,
                f"starts {agent}, but no container installs it",
                "check the spelling of initContainers and of the agent's image: an init "
                "container of framework-rendezvous with `args: [install]`",
            )


def _judge_barrier(
    container: ContainerTemplate, role: RoleTemplate, names: list[str]
) -> Iterator[Finding]:
    path = f"{container.path}.env"
    for fault in list_barrier_faults(container, role):
        message, _, remedy = fault.rpartition("; ")
        yield error(
            "agent-settings",
            path,
            f"{message or fault}: the barrier ends with 210",
            remedy or "correct it (docs/barrier.md)",
        )
    try:
        requirements = load_barrier_config(container, role).requirements
    except ConfigError:
        return
    for requirement in requirements:
        if requirement.role not in names:
            yield error(
                "agent-settings",
                path,
                f"{constants.BARRIER_REQUIRE_ENV}: {requirement} names a role that this gang "
                "does not have: the barrier ends with 210",
                f"its roles are: {', '.join(names)}",
            )


def _judge_rendezvous(container: ContainerTemplate, names: list[str]) -> Iterator[Finding]:
    call = read_call(container)
    words_path = f"{container.path}.{'args' if container.body.get('args') else 'command'}"
    if call.fault:
        yield error(
            "agent-settings",
            words_path,
            f"{call.fault}: the rendezvous agent ends with 210",
            _find_remedy(call.fault),
        )
    if call.is_installing:
        return
    path = f"{container.path}.env"
    for problem in call.problems:
        yield error(
            "agent-settings",
            words_path if problem.name.startswith("--") else path,
            f"{problem.name}={problem.value!r:.100}: {problem.reason}: the agent ends with 210",
            problem.remedy,
        )
    for line in list_misspelt(call.env):
        message, _, question = line.partition("; ")
        yield warning("agent-settings", path, message, question)
    yield from _judge_names(call, path, names)


def _judge_names(call: Call, path: str, names: list[str]) -> Iterator[Finding]:
    """Judge roles and formats that settings name."""
    if call.options is None:
        return
    for setting, roles in list_named_roles(call.options, call.env).items():
        for role in roles:
            if role not in names:
                yield warning(
                    "agent-settings",
                    path,
                    f"{setting}: the gang has no role {role!r}",
                    f"its roles are: {', '.join(names)}",
                )
    for name in call.options.formats or ():
        # A plugin of the image may have any other name.
        close = [] if name in BUILT_IN else get_close_matches(name, BUILT_IN, n=1, cutoff=0.75)
        if close:
            yield warning(
                "agent-settings",
                path,
                f"FB_FORMATS: {name} is not a built-in format, and the agent ends with 210 if no "
                "plugin renders it",
                f"write {close[0]}, if that is meant",
            )


def _find_remedy(fault: str) -> str:
    quoted = re.search(r"unknown command '(.*)'", fault)
    close = get_close_matches(quoted.group(1), _COMMANDS, n=1) if quoted else []
    if close:
        return f"write `{close[0]}`"
    return "write render, watch, install or `run -- COMMAND` (docs/rendezvous.md)"


def _report_slots(agent: ContainerTemplate, consequence: str, gpus: int) -> Finding:
    return warning(
        "missing-slots",
        f"{agent.path}.env",
        f"FB_SLOTS is not set: {consequence}, which has {gpus} GPUs",
        f'write `- {{name: FB_SLOTS, value: "{gpus}"}}` ("1" if one process uses them all)',
    )


def _has_variables(container: ContainerTemplate) -> bool:
    """Return whether its command gets the agents' variables."""
    return container.is_wrapped or any("/current/" in word for word in container.list_words())


def _list_own_words(container: ContainerTemplate) -> list[str]:
    """List the command without the wrapper as one line, then each of its scripts."""
    words = container.list_words()
    if container.is_wrapped and "--" in words:
        words = words[words.index("--") + 1 :]
    scripts = [word for word in words if "\n" in word or " " in word]
    return [" ".join(words), *scripts]


def _find_torchrun(text: str) -> bool:
    return bool(_TORCHRUN.search(text)) and not _OWN_PROCESSES.search(text)


def _finds_hosts(text: str) -> bool:
    chosen = _OWN_HOSTS.search(text) or _OWN_COUNTS.search(text)
    return bool(_HOST_LAUNCHER.search(text)) and not chosen


def _count_gpus(roles: list[RoleTemplate]) -> int:
    """Return the number of GPUs of the container that has the most."""
    return max((_count_own(c) for role in roles for c in role.list_containers()), default=0)


def _count_own(container: ContainerTemplate) -> int:
    limits: Mapping[str, object] = (container.body.get("resources") or {}).get("limits") or {}
    counts = [str(value) for name, value in limits.items() if _GPU.search(name)]
    return sum(int(count) for count in counts if count.isdecimal())

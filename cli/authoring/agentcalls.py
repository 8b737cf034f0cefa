"""How a container calls an agent: its arguments and its settings. Pure.

The agents' own parsers read them. Values that only the cluster knows (``$(NAME)``,
``{{FC_NAME}}``, ``valueFrom``) are left out.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from barrier.config import Config, ConfigError, load_config
from cli.files.templates import ContainerTemplate, RoleTemplate, is_open
from framework.api import constants, images
from rendezvous.settings.arguments import Arguments, UsageError, parse_arguments
from rendezvous.settings.option import OptionsError, Problem
from rendezvous.settings.options import BEHAVIOUR, OPTIONS, Options, parse_options

_BEHAVIOUR = {name for setting in BEHAVIOUR for name in (setting.flag, setting.env_name)}
_PROGRAM_NAME = images.IMAGE_PREFIX + images.RENDEZVOUS


@dataclass(frozen=True, slots=True)
class Call:
    """A rendezvous agent as a container calls it."""

    arguments: Arguments | None
    """Its command line; None if a shell or another program builds it, or if it is wrong."""
    fault: str
    """The fault of the command line; "" if there is none."""
    env: dict[str, str]
    options: Options | None
    """The parsed options; None if there is a problem."""
    problems: tuple[Problem, ...]

    @property
    def flags(self) -> dict[str, str]:
        """The flags, keyed by the settings' names."""
        return self.arguments.flags if self.arguments else {}

    @property
    def is_installing(self) -> bool:
        """Return whether it reads no settings."""
        return self.arguments is not None and self.arguments.command == "install"


def read_call(container: ContainerTemplate) -> Call:
    """Read how a container calls the rendezvous agent."""
    words, env = _find_words(container), read_settings(container)
    arguments, fault = None, ""
    if words is not None and words not in (["--help"], ["-h"], ["--version"]):
        try:
            arguments = parse_arguments(words)
        except UsageError as e:
            fault = str(e)
    flags = arguments.flags if arguments else {}
    flags = {name: text for name, text in flags.items() if not is_open(text)}
    options: Options | None = None
    problems: tuple[Problem, ...] = ()
    try:
        options = parse_options(env, flags)
    except OptionsError as e:
        problems = e.problems
        if all(problem.name in _BEHAVIOUR for problem in problems):
            options = _parse_rendering(env, flags)
    return Call(arguments, fault, env, options, problems)


def _parse_rendering(env: dict[str, str], flags: dict[str, str]) -> Options:
    """Parse the options of rendering, which faults in the settings of behaviour must not hide."""
    hidden = {name for setting in BEHAVIOUR for name in (setting.name, setting.env_name)}
    env = {name: text for name, text in env.items() if name not in hidden}
    return parse_options(env, {name: text for name, text in flags.items() if name not in hidden})


def read_settings(container: ContainerTemplate) -> dict[str, str]:
    """Map the variables of a container to their values, without those that are unknown here."""
    env = container.get_env()
    return {name: text for name, text in env.items() if text and not is_open(text)}


def is_watch(container: ContainerTemplate) -> bool:
    """Return whether it runs the rendezvous agent's `watch`."""
    return container.program == images.RENDEZVOUS and "watch" in container.list_words()


def is_given(role: RoleTemplate, agent: ContainerTemplate, call: Call, name: str) -> bool:
    """Return whether the user chose a setting here, or may have chosen it by ``envFrom``."""
    (option,) = (option for option in OPTIONS if option.name == name)
    return bool(
        name in call.flags
        or option.env_name in agent.get_env()
        or (option.by_annotation and option.annotation in role.annotations)
        or agent.body.get("envFrom")
    )


def load_barrier_config(container: ContainerTemplate, role: RoleTemplate) -> Config:
    """Read a barrier's settings as in a Pod that the controller creates.

    Raises:
        ConfigError: With every fault found.
    """
    identity = {
        constants.FRAMEWORK_NAMESPACE: "default",
        constants.FRAMEWORK_NAME: "framework",
        constants.CONFIGMAP_NAME: "framework-attempt",
        constants.FRAMEWORK_ATTEMPT_INSTANCE_UID: "0_uid",
        constants.CONFIGMAP_UID: "uid",
        constants.TASKROLE_NAME: role.name,
        constants.TASK_INDEX: "0",
        constants.TASK_ATTEMPT_ID: "0",
        constants.POD_UID: "uid",
    }
    return load_config({**read_settings(container), **identity})


def list_barrier_faults(container: ContainerTemplate, role: RoleTemplate) -> Iterator[str]:
    """List the faults of a barrier's settings, each with its remedy."""
    try:
        load_barrier_config(container, role)
    except ConfigError as e:
        # The loader of the file reports a bad name of a role.
        yield from (fault for fault in e.faults if constants.TASKROLE_NAME not in fault)


def _find_words(container: ContainerTemplate) -> list[str] | None:
    """Find the arguments of the agent; None if a shell or another program builds them."""
    words = container.list_words()
    if container.is_wrapped:
        agents = [i for i, w in enumerate(words) if w.endswith("/" + images.INSTALLED_AGENT)]
        return words[agents[0] + 1 :] if agents else None
    if not container.body.get("command"):
        return words
    return words[1:] if words and words[0].rpartition("/")[2] == _PROGRAM_NAME else None

"""One setting of the agent, and how it is given: flag, variable or annotation. Pure.

Used by ``options``, which lists them. A value is found so:

1. The flag, if it is given.
2. The variable, if it is set and not empty.
3. The annotation of the Pod, if it is there and the name is in ``BY_ANNOTATION``.
4. The default.

All bad values are reported together, each with the name it was given by and the remedy.
"""

from typing import Any, Callable, Dict, Iterable, List, Mapping, NamedTuple, Tuple

from framework.api import constants

_ENV_PREFIX = "FB_"
# What an annotation of the Pod may give. Clients that may
# not create Pods may still write annotations. So none of these chooses what is executed or
# signalled, a path, or a host that is connected to.
BY_ANNOTATION = frozenset(
    [
        "acknowledge",
        "container-name",
        "debounce-sec",
        "notify-command-timeout-sec",
        "on-change",
        "reach",
        "reach-timeout-sec",
        "sidecar-end",
        "stop-grace-sec",
        "timeout-sec",
        "coordinator",
        "formats",
        "host-style",
        "ip-family",
        "jax-coordinator-port",
        "ports",
        "roles",
        "slots",
        "tf-environment",
        "tf-master-type",
        "tf-mode",
        "tf-rpc-layer",
        "torch-master-port",
        "torch-max-restarts",
        "torch-mode",
        "torch-nodes",
        "torch-nproc",
        "torch-rdzv-port",
    ]
)


class Option(NamedTuple):
    """One setting. ``name`` is its field of ``Options``."""

    name: str
    default: str
    parse: Callable[[str], Any]
    form: str
    summary: str
    env: str = ""

    @property
    def flag(self) -> str:
        """The flag of the command line."""
        return "--" + self.word

    @property
    def env_name(self) -> str:
        """The variable."""
        return self.env or _ENV_PREFIX + self.name.upper()

    @property
    def annotation(self) -> str:
        """The annotation of the Pod."""
        return constants.ANNOTATION_PREFIX + self.word

    @property
    def word(self) -> str:
        """The name in flags and annotations."""
        is_ours = self.env.startswith(_ENV_PREFIX)
        name = self.env[len(_ENV_PREFIX) :].lower() if is_ours else self.name
        return name.replace("_", "-")


class Problem(NamedTuple):
    """A bad value: by which name it was given, what is wrong and what to write instead."""

    name: str
    value: str
    reason: str
    remedy: str

    def __str__(self) -> str:
        """Say it on one line."""
        return f"{self.name}={self.value!r:.100}: {self.reason}; {self.remedy}"


class OptionsError(ValueError):
    """The settings are bad; ``problems`` lists every one."""

    def __init__(self, problems: Tuple[Problem, ...]) -> None:
        super().__init__("\n".join(str(problem) for problem in problems))
        self.problems = problems


def parse_each(
    options: Iterable[Option],
    env: Mapping[str, str],
    flags: Mapping[str, str],
    annotations: Mapping[str, str],
) -> Tuple[Dict[str, Any], List[Problem]]:
    """Parse these settings; return the good ones by name, and what is wrong with the others."""
    parsed: Dict[str, Any] = {}
    problems: List[Problem] = []
    for option in options:
        source, text = _find_text(option, env, flags, annotations)
        try:
            parsed[option.name] = option.parse(text)
        except ValueError as e:
            problems.append(Problem(source, text, str(e), f"write {option.form}"))
    return parsed, problems


def _find_text(
    option: Option,
    env: Mapping[str, str],
    flags: Mapping[str, str],
    annotations: Mapping[str, str],
) -> Tuple[str, str]:
    """Find the value and the name under which the user gave it."""
    if option.name in flags:
        return option.flag, flags[option.name]
    if env.get(option.env_name):
        return option.env_name, env[option.env_name]
    if option.word in BY_ANNOTATION and option.annotation in annotations:
        return option.annotation, annotations[option.annotation]
    return option.env_name, option.default

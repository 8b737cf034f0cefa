"""One setting of the agent, and how it is given: flag, variable or annotation. Pure.

The value of a setting is the first of these:

1. The flag, if it is given.
2. The variable, if it is set and not empty.
3. The annotation of the Pod, if it is there and may give the setting.
4. The default.

All bad values are reported together, each with the name it was given by and the remedy.
"""

from typing import (
    Any,
    Callable,
    Dict,
    Generic,
    Iterable,
    List,
    Mapping,
    NamedTuple,
    Tuple,
    TypeVar,
    overload,
)

from framework.api import constants

_ENV_PREFIX = "FB_"
# The remedies for forms that are only placeholders.
_WORDS = {
    "HUP, USR1, ...": "the name of a signal, for example HUP",
    "HOST:PORT": "a host and a port, for example etcd:2379",
    "KEY=VALUE,...": "settings, for example join_timeout=600,last_call_timeout=30",
    "MIN:MAX": "a number of nodes or a range, for example 2:4",
    "MODULE:FUNCTION,...": "the names of functions, for example mymodule:render",
    "N": "a number, for example 3",
    "N, auto, gpu, xpu or cpu": "auto, gpu, xpu, cpu or a number, for example 8",
    "NAME": "a name, for example train",
    "PORT": "the number of a port, for example 2222",
    "PORT or PORT+index": "the number of a port, for example 2222 or 2222+index",
    "PORT or 127.0.0.1:PORT": "the number of a port, for example 8080, or 127.0.0.1:8080",
    "ROLE": "the name of a role, for example worker",
    "ROLE,...": "names of roles, for example worker,ps",
    "SECONDS": "a number of seconds, for example 300",
    "SHELL COMMAND": "a command of one line, for example kill -HUP 1",
    "http://HOST:PORT/PATH": "a URL, for example http://127.0.0.1:8080/changed",
    "/ABSOLUTE/PATH": "an absolute path, for example /mnt/training/file",
}

T = TypeVar("T")


class Option(Generic[T]):
    """One setting, an attribute of the class ``Options``; of its instances, the value.

    Clients that may not create Pods may still write annotations. So an annotation may not give a
    setting that chooses a program, a process to signal, a path or a host to connect to.
    """

    def __init__(
        self,
        default: str,
        parse: Callable[[str], T],
        form: str,
        summary: str,
        env: str = "",
        *,
        by_annotation: bool = False,
    ) -> None:
        """``parse`` raises ``ValueError``; ``env`` is the variable if its name is not FB_<NAME>."""
        self.name = ""
        self.default = default
        self.parse = parse
        self.form = form
        self.summary = summary
        self.by_annotation = by_annotation
        self._env = env

    def __set_name__(self, _owner: type, name: str) -> None:
        """Take the name of the attribute."""
        self.name = name

    @overload
    def __get__(self, instance: None, _owner: type) -> "Option[T]": ...

    @overload
    def __get__(self, instance: object, _owner: type) -> T: ...

    def __get__(self, instance: Any, _owner: type) -> Any:
        """Return the option itself: instances have their values in ``__dict__``."""
        return self

    @property
    def flag(self) -> str:
        """The flag of the command line."""
        return "--" + self.word

    @property
    def env_name(self) -> str:
        """The variable."""
        return self._env or _ENV_PREFIX + self.name.upper()

    @property
    def annotation(self) -> str:
        """The annotation of the Pod."""
        return constants.ANNOTATION_PREFIX + self.word

    @property
    def word(self) -> str:
        """The name in flags and annotations."""
        is_ours = self._env.startswith(_ENV_PREFIX)
        name = self._env[len(_ENV_PREFIX) :].lower() if is_ours else self.name
        return name.replace("_", "-")


class Problem(NamedTuple):
    """A bad value."""

    name: str
    """The name under which it was given: a flag, a variable or an annotation."""
    value: str
    """The value."""
    reason: str
    """Why it is bad."""
    form: str
    """The form of a good value."""

    @property
    def remedy(self) -> str:
        """Return the remedy: the form of a good value."""
        return f"write {_WORDS.get(self.form, self.form)}"

    def __str__(self) -> str:
        """Return the problem in one line."""
        return f"{self.name}={self.value!r:.100}: {self.reason}; {self.remedy}"


class OptionsError(ValueError):
    """The settings are bad; ``problems`` lists every one."""

    def __init__(self, problems: Tuple[Problem, ...]) -> None:
        super().__init__("\n".join(str(problem) for problem in problems))
        self.problems = problems


def list_options(owner: type) -> Tuple[Option[Any], ...]:
    """List the settings of a class, in their order."""
    return tuple(value for value in vars(owner).values() if isinstance(value, Option))


def parse_each(
    options: Iterable[Option[Any]],
    env: Mapping[str, str],
    flags: Mapping[str, str],
    annotations: Mapping[str, str],
) -> Tuple[Dict[str, Any], List[Problem]]:
    """Parse these settings; return the good values by name, and the problems of the others."""
    parsed: Dict[str, Any] = {}
    problems: List[Problem] = []
    for option in options:
        source, text = _find_text(option, env, flags, annotations)
        try:
            parsed[option.name] = option.parse(text)
        except ValueError as e:
            problems.append(Problem(source, text, str(e), option.form))
    return parsed, problems


def _find_text(
    option: Option[Any],
    env: Mapping[str, str],
    flags: Mapping[str, str],
    annotations: Mapping[str, str],
) -> Tuple[str, str]:
    """Find the value and the name under which the user gave it."""
    if option.name in flags:
        return option.flag, flags[option.name]
    if env.get(option.env_name):
        return option.env_name, env[option.env_name]
    if option.by_annotation and option.annotation in annotations:
        return option.annotation, annotations[option.annotation]
    return option.env_name, option.default

"""How the agent behaves: what it waits for, what it notifies, how it ends. Pure.

What is rendered is in ``options``, how a setting is given in ``option``. ``SETTINGS`` is what
``--help`` shows.
"""

import re
import signal
from typing import Mapping, NamedTuple, Optional, Tuple

from framework.api.naming import is_framework_name
from rendezvous.settings.addresses import MAX_PORT
from rendezvous.settings.option import Option, OptionsError, parse_each
from rendezvous.settings.values import RolePort, build_choice, is_printable, parse_ports

NOTIFY = "notify"
RESTART = "restart"

END_AUTO = "auto"
END_NATIVE = "native"
END_WRAPPER = "wrapper"
END_SHARED = "shared"
END_POD = "pod"

_SECONDS = re.compile(r"[0-9]{1,6}(\.[0-9]{1,3})?\Z")
_URL = re.compile(r"http://[A-Za-z0-9.:\[\]_-]{1,260}(/[!-~]*)?\Z")
_LISTEN = re.compile(r"(127\.0\.0\.1|\[::1\]|localhost):([0-9]{1,5})\Z")
_PROCESS = re.compile(r"[!-.0-~]{1,200}\Z")


class Settings(NamedTuple):
    """What users may choose; ``SETTINGS`` says what each means. Empty text: not chosen."""

    timeout_seconds: float = 600.0
    debounce_seconds: float = 2.0
    on_change: str = NOTIFY
    signal: int = 0
    process: str = ""
    command: str = ""
    command_timeout_seconds: float = 60.0
    url: str = ""
    listen: Optional[Tuple[str, int]] = None
    stop_grace_seconds: float = 30.0
    end: str = END_AUTO
    container: str = ""
    acknowledge: bool = True
    reach: Mapping[str, RolePort] = {}
    reach_seconds: float = 60.0


def _parse_seconds(text: str) -> float:
    if not _SECONDS.match(text):
        raise ValueError("it is no number of seconds")
    return float(text)


def _parse_signal(text: str) -> int:
    if not text:
        return 0
    name = text if text.startswith("SIG") else "SIG" + text
    number = getattr(signal, name, None) if name.isalnum() else None
    if not isinstance(number, signal.Signals):
        raise ValueError("it is no signal's name")  # noqa: TRY004  (of what a user wrote)
    return int(number)


def _parse_process(text: str) -> str:
    if text and not _PROCESS.match(text):
        raise ValueError("it is no name of a program")
    return text


def _parse_command(text: str) -> str:
    if not is_printable(text):
        raise ValueError("it is not one line")
    return text


def _parse_url(text: str) -> str:
    if text and not _URL.match(text):
        raise ValueError("it is no http:// URL")
    return text


def _parse_listen(text: str) -> Optional[Tuple[str, int]]:
    if not text:
        return None
    match = _LISTEN.match(text if ":" in text else "127.0.0.1:" + text)
    if match is None or not 0 <= int(match.group(2)) <= MAX_PORT:
        raise ValueError("it is no port of this host's loopback")
    return match.group(1).strip("[]"), int(match.group(2))


def _parse_container(text: str) -> str:
    if text and not is_framework_name(text):
        raise ValueError("it is no name of a container")
    return text


def _parse_flag(text: str) -> bool:
    if text not in {"auto", "off"}:
        raise ValueError("it is neither auto nor off")
    return text == "auto"


SETTINGS = (
    Option("timeout_seconds", "600", _parse_seconds, "SECONDS",
           "how long render and run wait for the gang, and watch for those it serves; 0: no end",
           "FB_TIMEOUT_SEC"),
    Option("debounce_seconds", "2", _parse_seconds, "SECONDS",
           "the shortest time between two generations; the first change is shown at once",
           "FB_DEBOUNCE_SEC"),
    Option("on_change", NOTIFY, build_choice(NOTIFY, RESTART),
           "notify or restart", "what run does to its command when the gang changes",
           "FB_ON_CHANGE"),
    Option("signal", "", _parse_signal, "HUP, USR1, ...",
           "send this signal: run to its command, watch to FB_NOTIFY_PROCESS", "FB_NOTIFY_SIGNAL"),
    Option("process", "", _parse_process, "NAME",
           "the program that gets the signal (shareProcessNamespace)", "FB_NOTIFY_PROCESS"),
    Option("command", "", _parse_command, "SHELL COMMAND",
           "run this with the new variables, and the change as JSON on its input",
           "FB_NOTIFY_COMMAND"),
    Option("command_timeout_seconds", "60", _parse_seconds,
           "SECONDS", "after this the command is killed", "FB_NOTIFY_COMMAND_TIMEOUT_SEC"),
    Option("url", "", _parse_url, "http://HOST:PORT/PATH",
           "POST the change as JSON to this URL", "FB_NOTIFY_URL"),
    Option("listen", "", _parse_listen, "PORT or 127.0.0.1:PORT",
           "serve long-polls: GET /changes?after=NUMBER", "FB_LISTEN"),
    Option("stop_grace_seconds", "30", _parse_seconds, "SECONDS",
           "from SIGTERM to SIGKILL when run restarts or ends its command", "FB_STOP_GRACE_SEC"),
    Option("end", END_AUTO,
           build_choice(END_AUTO, END_NATIVE, END_WRAPPER, END_SHARED, END_POD),
           "auto, native, wrapper, shared or pod", "how watch learns that it is no longer needed",
           "FB_SIDECAR_END"),
    Option("container", "", _parse_container, "NAME",
           "the name of the container that watch runs in", "FB_CONTAINER_NAME"),
    Option("acknowledge", "auto", _parse_flag, "auto or off",
           "tell the controller which generation was applied, where that is permitted",
           "FB_ACKNOWLEDGE"),
    Option("reach", "", parse_ports, "2222 or worker=2222,ps=2223",
           "show a member that comes later only when it answers on this port", "FB_REACH"),
    Option("reach_seconds", "60", _parse_seconds, "SECONDS",
           "after this it is shown all the same", "FB_REACH_TIMEOUT_SEC"),
)  # fmt: skip


def parse_settings(
    env: Mapping[str, str],
    flags: Mapping[str, str] = {},
    annotations: Mapping[str, str] = {},
) -> Settings:
    """Parse all settings; flags are keyed by the setting's name, an empty env value is not given.

    Raises:
        OptionsError: Any are bad; it lists all of them.
    """
    parsed, problems = parse_each(SETTINGS, env, flags, annotations)
    if problems:
        raise OptionsError(tuple(problems))
    return Settings(**parsed)

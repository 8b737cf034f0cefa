"""Telling processes what changed: signal, command, HTTP POST; long-polls are in ``longpoll``.

Called by ``agent`` after a generation is in force, or at once when the Pod itself is to leave. A
notification that fails is logged and not repeated: the files tell the same. Nothing here raises.
"""

import json
import os
import signal
import socket
from typing import Any, Callable, Dict, Iterator, List, Mapping, NamedTuple

from framework.agent.clock import AgentClock
from framework.api.text import describe_server
from rendezvous.core.diff import Diff, PeerChange
from rendezvous.process.children import Children, StartError
from rendezvous.process.signalling import Signaller
from rendezvous.report import Reporter
from rendezvous.settings.addresses import MAX_PORT

CHANGED = "changed"
LEAVING = "leaving"
COMPLETING = "completing"

_HTTP_PORT = 80
_POST_TIMEOUT_SECONDS = 5.0
_MAX_HEAD_BYTES = 4096
# One variable may have 128 KiB; the whole change is on the command's input.
_MAX_VALUE_BYTES = 100 * 1000


class Notification(NamedTuple):
    """What happened. ``deadline`` is when a leaving Pod is deleted at the latest."""

    event: str
    diff: Diff
    deadline: str = ""

    def to_wire(self) -> Dict[str, Any]:
        """Build the JSON object."""
        wire: Dict[str, Any] = {"event": self.event, **self.diff.to_wire()}
        if self.deadline:
            wire["deadline"] = self.deadline
        return wire

    def to_json(self) -> bytes:
        """Build the bytes on the wire."""
        return json.dumps(self.to_wire(), separators=(",", ":")).encode() + b"\n"

    def to_env(self) -> Dict[str, str]:
        """Build the variables of a command; a list that is too long is left out."""
        env = {
            "FB_EVENT": self.event,
            "FB_GENERATION": str(self.diff.generation),
            "FB_PREVIOUS_GENERATION": str(self.diff.previous_generation),
        }
        for name, changes in (
            ("FB_ADDED", self.diff.added),
            ("FB_REMOVED", self.diff.removed),
            ("FB_MOVED", self.diff.moved),
        ):
            text = ",".join(map(_render_change, changes))
            if len(text) <= _MAX_VALUE_BYTES:
                env[name] = text
        if self.deadline:
            env["FB_DEADLINE"] = self.deadline
        return env


# Takes a notification and the variables of the generation that is in force.
Notifier = Callable[[Notification, Mapping[str, str]], None]


class CommandNotifier:
    """Runs a command of the shell, with the change in variables and as JSON on its input."""

    def __init__(
        self, command: str, timeout_seconds: float, children: Children, reporter: Reporter
    ) -> None:
        """Run ``command``, and kill it after the timeout."""
        self._command = command
        self._timeout_seconds = timeout_seconds
        self._children = children
        self._reporter = reporter

    def __call__(self, notification: Notification, env: Mapping[str, str]) -> None:
        """Run it and wait for its end."""
        variables = {**os.environ, **env, **notification.to_env()}
        argv = ["/bin/sh", "-c", self._command]
        try:
            pid = self._children.start(argv, variables, notification.to_json())
        except StartError as e:
            self._reporter.say(f"the command of FB_NOTIFY_COMMAND: {e}", "warning")
            return
        code = self._children.wait(pid, self._timeout_seconds)
        if code is None:
            self._children.kill_session(pid)
            self._children.wait(pid, 1.0)
            text = f"killed after {self._timeout_seconds:g} s"
            self._reporter.say(f"the command of FB_NOTIFY_COMMAND was {text}", "warning")
        elif code != 0:
            self._reporter.say(f"the command of FB_NOTIFY_COMMAND: exit {code}", "warning")


class PostNotifier:
    """POSTs the change to a URL."""

    def __init__(self, url: str, reporter: Reporter, clock: AgentClock) -> None:
        """POST to ``url``: http, as it is for processes of the same Pod."""
        self._url = url
        self._reporter = reporter
        self._clock = clock

    def __call__(self, notification: Notification, _env: Mapping[str, str]) -> None:
        """POST it and wait for the status."""
        try:
            status = self._post(notification.to_json())
        except (OSError, ValueError) as e:
            self._reporter.say(f"POST {describe_server(self._url)}: {e}", "warning")
            return
        if not status.startswith("2"):
            self._reporter.say(f"POST {describe_server(self._url)}: HTTP {status}", "warning")

    def _post(self, body: bytes) -> str:
        authority, _, path = self._url[len("http://") :].partition("/")
        host, port = _split_authority(authority)
        lines = [
            f"POST /{path} HTTP/1.1",
            f"Host: {authority}",
            "Content-Type: application/json",
            f"Content-Length: {len(body)}",
            "Connection: close",
        ]
        deadline = self._clock.monotonic() + _POST_TIMEOUT_SECONDS
        with socket.create_connection((host, port), _POST_TIMEOUT_SECONDS) as connection:
            connection.sendall("\r\n".join([*lines, "", ""]).encode() + body)
            head = b""
            while b"\r\n" not in head and len(head) < _MAX_HEAD_BYTES:
                # One that sends a byte now and then must not hold the agent.
                left = deadline - self._clock.monotonic()
                if left <= 0:
                    raise ValueError("no answer in time")
                connection.settimeout(left)
                part = connection.recv(_MAX_HEAD_BYTES)
                if not part:
                    break
                head += part
        words = head.decode("latin-1").split(" ", 2)
        if not words[0].startswith("HTTP/") or not words[1:]:
            raise ValueError("no HTTP answer")
        return words[1].strip()


class SignalNotifier:
    """Sends a signal to processes found by the name of their program.

    The first generation is not signalled: a process reads the files at its start anyway.
    """

    def __init__(
        self,
        number: int,
        find: Callable[[], List[int]],
        name: str,
        reporter: Reporter,
        clock: AgentClock,
    ) -> None:
        """Send signal ``number`` to what ``find`` finds; ``name`` is for the log."""
        self._number = number
        self._find = find
        self._name = name
        self._reporter = reporter
        self._signaller = Signaller(number, self._send, reporter, clock)

    def __call__(self, notification: Notification, _env: Mapping[str, str]) -> None:
        """Send it."""
        if notification.event == CHANGED and notification.diff.previous_generation == 0:
            return
        found = self._find()
        for pid in found:
            self._signaller.signal(pid)
        if not found:
            name = signal.Signals(self._number).name
            self._reporter.say(f"{name}: there is no process {self._name}", "warning")

    def _send(self, pid: int) -> None:
        try:
            os.kill(pid, self._number)
        except ProcessLookupError:
            return
        except PermissionError as e:
            self._reporter.say_once(f"signal to {self._name}: {e}; run as its user", "warning")


def find_processes(name: str, root: str = "/proc") -> List[int]:
    """Find processes by their program's name: of the command line, or of its first script."""
    found = []
    for pid in list_processes(root):
        try:
            with open(f"{root}/{pid}/cmdline", "rb") as file:
                words = file.read(4096).decode("utf-8", "replace").split("\0")
        except OSError:
            continue
        # "python3 -u /app/train.py" is train.py to everybody but the kernel.
        script = next((word for word in words[1:] if word and not word.startswith("-")), "")
        if name in {os.path.basename(words[0]), os.path.basename(script)} and pid != os.getpid():
            found.append(pid)
    return found


def list_processes(root: str = "/proc") -> Iterator[int]:
    """List all processes that can be seen."""
    for name in os.listdir(root):
        if name.isdigit():
            yield int(name)


def _render_change(change: PeerChange) -> str:
    return f"{change.role}/{change.index}={change.address}"


def _split_authority(authority: str) -> "tuple[str, int]":
    host, found, port = authority.rpartition(":")
    if not found or authority.endswith("]"):
        return authority.strip("[]"), _HTTP_PORT
    if not port.isdigit() or not 0 < int(port) <= MAX_PORT:
        raise ValueError(f"{port!r} is no port")
    return host.strip("[]"), int(port)

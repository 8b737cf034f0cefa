"""Ways to notify processes: signal, command, HTTP POST; long-polls are in ``longpoll``.

A notification that fails is logged and not repeated: the files hold the same. A notifier raises
nothing but RuntimeError: no thread can be started.
"""

import contextlib
import os
import signal
import socket
import threading
from typing import Any, Callable, List, Mapping

from framework.agent.clock import AgentClock
from framework.agent.report import LineReporter
from framework.api.text import describe_server
from rendezvous.core.notification import CHANGED, Notify
from rendezvous.process.children import Children, StartError
from rendezvous.process.signalling import Signaller
from rendezvous.settings.addresses import MAX_PORT

_POST_TIMEOUT_SECONDS = 5.0
_SUCCESSES = range(200, 300)
# Takes a notification and the variables of the generation that is in force.
Notifier = Callable[[Notify, Mapping[str, str]], None]


class CommandNotifier:
    """Runs a command of the shell, with the change in variables and as JSON on its input."""

    def __init__(
        self, command: str, timeout_seconds: float, children: Children, reporter: LineReporter
    ) -> None:
        """Run ``command``, and kill it after the timeout."""
        self._command = command
        self._timeout_seconds = timeout_seconds
        self._children = children
        self._reporter = reporter

    def __call__(self, notification: Notify, env: Mapping[str, str]) -> None:
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

    def __init__(self, url: str, reporter: LineReporter) -> None:
        """POST to ``url``: http, as it is for processes of the same Pod."""
        self._url = url
        self._reporter = reporter

    def __call__(self, notification: Notify, _env: Mapping[str, str]) -> None:
        """POST it and wait for the status."""
        try:
            self._post(notification.to_json())
        except (OSError, ValueError) as e:
            self._reporter.say(f"POST {describe_server(self._url)}: {e}", "warning")

    def _post(self, body: bytes) -> None:
        # Only here: it loads ``email``, which takes longer than the rest of the agent.
        from http.client import HTTPConnection, HTTPException

        authority, _, path = self._url[len("http://") :].partition("/")
        is_late = threading.Event()
        try:
            connection = HTTPConnection(authority, timeout=_POST_TIMEOUT_SECONDS)
            if not 0 < connection.port <= MAX_PORT:
                raise ValueError(f"{connection.port} is no port")
            # A server that sends a byte now and then must not hold the agent.
            timer = threading.Timer(_POST_TIMEOUT_SECONDS, _cut_off, [connection, is_late])
            timer.start()
            try:
                connection.connect()
                if is_late.is_set():  # it was not connected yet when the time was over
                    raise OSError("no answer in time")
                connection.request("POST", "/" + path, body, {"Content-Type": "application/json"})
                status = connection.getresponse().status
            finally:
                timer.cancel()
                connection.close()
        except (OSError, HTTPException) as e:
            raise OSError("no answer in time" if is_late.is_set() else e) from e
        if status not in _SUCCESSES:
            raise OSError(f"HTTP {status}")


class SignalNotifier:
    """Sends a signal to processes found by the name of their program.

    The first generation is not signalled: a process reads the files at its start anyway.
    """

    def __init__(
        self,
        number: int,
        find: Callable[[], List[int]],
        name: str,
        reporter: LineReporter,
        clock: AgentClock,
    ) -> None:
        """Send signal ``number`` to what ``find`` finds; ``name`` is for the log."""
        self._number = number
        self._find = find
        self._name = name
        self._reporter = reporter
        self._signaller = Signaller(number, self._send, reporter, clock)

    def __call__(self, notification: Notify, _env: Mapping[str, str]) -> None:
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


def _cut_off(connection: Any, is_late: threading.Event) -> None:
    is_late.set()
    with contextlib.suppress(OSError, AttributeError):  # it is not connected
        connection.sock.shutdown(socket.SHUT_RDWR)

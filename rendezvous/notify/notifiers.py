"""Ways to notify processes: signal, command, HTTP POST; long-polls are in ``longpoll``.

A failed notification is logged and not repeated: the files have the same content. A notifier raises
only RuntimeError, if no thread can be started.
"""

import contextlib
import os
import signal
import socket
import threading
from typing import Any, Callable, Mapping

from framework.agent.addresses import MAX_PORT
from framework.agent.clock import AgentClock
from framework.agent.report import LineReporter
from framework.api.text import describe_server
from rendezvous.core.notifying.notification import CHANGED, FAILED, PEER_LEAVING, Notify
from rendezvous.process.children import Children, StartError
from rendezvous.process.processes import find_processes
from rendezvous.process.signalling import Signaller

_POST_TIMEOUT_SECONDS = 5.0
_SUCCESSES = range(200, 300)
# Takes a notification and the variables of the current generation.
Notifier = Callable[[Notify, Mapping[str, str]], None]


def build_command_notifier(
    command: str, timeout_seconds: float, children: Children, reporter: LineReporter
) -> Notifier:
    """Run a shell command, with the change in variables and as JSON on its input.

    The notifier waits for its end, and kills it after the timeout.
    """

    def notify(notification: Notify, env: Mapping[str, str]) -> None:
        variables = {**os.environ, **env, **notification.to_env()}
        argv = ["/bin/sh", "-c", command]
        try:
            pid = children.start(argv, variables, notification.to_json())
        except StartError as e:
            reporter.say(f"the command of FB_NOTIFY_COMMAND: {e}", "warning")
            return
        code = children.wait(pid, timeout_seconds)
        if code is None:
            children.kill_session(pid)
            children.wait(pid, 1.0)
            text = f"killed after {timeout_seconds:g} s"
            reporter.say(f"the command of FB_NOTIFY_COMMAND was {text}", "warning")
        elif code != 0:
            reporter.say(f"the command of FB_NOTIFY_COMMAND ended with {code}", "warning")

    return notify


def build_post_notifier(url: str, reporter: LineReporter) -> Notifier:
    """POST the change to a URL and wait for the status: http, for processes of the same Pod."""

    def notify(notification: Notify, _env: Mapping[str, str]) -> None:
        try:
            _post(url, notification.to_json())
        except (OSError, ValueError) as e:
            reporter.say(f"POST {describe_server(url)}: {e}", "warning")

    return notify


def build_signal_notifier(
    number: int, name: str, reporter: LineReporter, clock: AgentClock
) -> Notifier:
    """Send a signal to the processes of a program, found by its name.

    The first generation is not signalled: a process reads the files at its start anyway. Nor is a
    failure: a signal means that there is a new generation.
    """

    def send(pid: int) -> None:
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            return
        except PermissionError as e:
            reporter.say_once(f"signal to {name}: {e}; run as its user", "warning")

    signaller = Signaller(number, send, reporter, clock)

    def notify(notification: Notify, _env: Mapping[str, str]) -> None:
        if notification.event == CHANGED and notification.diff.previous_generation == 0:
            return
        if notification.event in (FAILED, PEER_LEAVING):
            return
        found = find_processes(name)
        for pid in found:
            signaller.signal(pid)
        if not found:
            missing = f"there is no process {name} (FB_NOTIFY_PROCESS)"
            reporter.say(f"{signal.Signals(number).name}: {missing}", "warning")

    return notify


def _post(url: str, body: bytes) -> None:
    # Imported here: it loads ``email``, which takes longer than the rest of the agent.
    from http.client import HTTPConnection, HTTPException

    authority, _, path = url[len("http://") :].partition("/")
    is_late = threading.Event()
    try:
        connection = HTTPConnection(authority, timeout=_POST_TIMEOUT_SECONDS)
        if not 0 < connection.port <= MAX_PORT:
            raise ValueError(f"{connection.port} is not a port")
        # A server that sends single bytes slowly must not block the agent.
        timer = threading.Timer(_POST_TIMEOUT_SECONDS, _cut_off, [connection, is_late])
        timer.start()
        try:
            connection.connect()
            if is_late.is_set():  # the timer found no socket to close
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


def _cut_off(connection: Any, is_late: threading.Event) -> None:
    is_late.set()
    with contextlib.suppress(OSError, AttributeError):  # it is not connected
        connection.sock.shutdown(socket.SHUT_RDWR)

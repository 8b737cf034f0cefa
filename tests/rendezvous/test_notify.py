"""Notifications: what a command, a URL and a process are given, and what a failing one costs."""

import contextlib
import http.client
import http.server
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, ClassVar

import pytest

from framework.agent.clock import AgentClock
from framework.agent.report import LineReporter
from rendezvous.core.notifying.diff import Diff, compute_diff
from rendezvous.core.notifying.notification import CHANGED, COMPLETING, LEAVING, Notify
from rendezvous.notify.longpoll import Changes, serve
from rendezvous.notify.notifiers import (
    build_command_notifier,
    build_post_notifier,
    build_signal_notifier,
)
from rendezvous.process import signalling
from rendezvous.process.children import Children, StartError
from rendezvous.process.signalling import Signaller
from tests.rendezvous.gangs import build_gang
from tests.support.waiting import HANG_SECONDS, wait_until


def build_notification(before: int = 2, after: int = 3) -> Notify:
    old = build_gang(before)
    return Notify(CHANGED, compute_diff(old, build_gang(after)._replace(generation=2)))


class Log(LineReporter):
    def __init__(self) -> None:
        super().__init__("rendezvous", is_json=False)
        self.lines: list[str] = []

    def say(self, message: str, level: str = "info", **_fields: Any) -> None:
        self.lines.append(f"{level}: {message}")


@pytest.fixture
def log() -> Log:
    return Log()


@pytest.fixture
def run_command(log: Log) -> Callable[..., None]:
    """Notify by a command."""

    def run(command: str, notification: Notify, seconds: float = HANG_SECONDS) -> None:
        children = Children(AgentClock())
        build_command_notifier(command, seconds, children, log)(notification, {"OWN": "x y"})

    return run


def test_command_gets_variables_and_json(
    tmp_path: Path, log: Log, run_command: Callable[..., None]
) -> None:
    file = tmp_path / "notified"
    words = "$FB_EVENT $FB_PREVIOUS_GENERATION $FB_GENERATION $FB_ADDED $OWN"
    run_command(f'{{ echo "{words}"; cat; }} >{file}', build_notification())
    line, wire = file.read_text().splitlines()
    assert line == "changed 1 2 worker/2=10.0.0.4 x y"
    assert json.loads(wire)["added"] == [{"role": "worker", "index": 2, "address": "10.0.0.4"}]
    assert log.lines == []


def test_command_that_reads_nothing_is_not_waited_for(
    log: Log, run_command: Callable[..., None]
) -> None:
    notification = build_notification(0, 10000)
    assert len(notification.to_json()) > 65536, "it would fit into a pipe"
    run_command("exec true", notification)
    assert log.lines == []
    assert "FB_ADDED" not in notification.to_env()


def test_command_that_fails_or_hangs_is_logged(log: Log, run_command: Callable[..., None]) -> None:
    run_command("exit 3", build_notification())
    run_command("sleep 1000", build_notification(), 0.1)
    assert "ended with 3" in log.lines[0]
    assert "killed after 0.1 s" in log.lines[1]


class Receiver(http.server.BaseHTTPRequestHandler):
    received: ClassVar[list[tuple[str, Any]]] = []
    status = 200

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.received.append((self.path, json.loads(body)))
        self.send_response(self.status)
        self.end_headers()

    def log_message(self, *_arguments: Any) -> None:
        pass


@pytest.fixture
def receiver(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setattr("rendezvous.notify.notifiers._POST_TIMEOUT_SECONDS", HANG_SECONDS)
    server = http.server.HTTPServer(("127.0.0.1", 0), Receiver)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    yield f"127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    thread.join()
    server.server_close()
    Receiver.received.clear()


def test_post_sends_the_change(receiver: str, log: Log) -> None:
    build_post_notifier(f"http://{receiver}/change?x=1", log)(build_notification(), {})
    ((path, wire),) = Receiver.received
    assert path == "/change?x=1"
    assert (wire["event"], wire["generation"]) == ("changed", 2)
    assert log.lines == []


def test_post_that_fails_is_logged(
    receiver: str, log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Receiver, "status", 503)
    for address, fault in (
        (receiver, "HTTP 503"),
        ("127.0.0.1:1/", "refused"),
        ("127.0.0.1:99999/", "not a port"),
    ):
        build_post_notifier(f"http://{address}", log)(build_notification(), {})
        assert fault in log.lines[-1]


class Dripper(threading.Thread):
    """Answers a byte now and then, and never a line."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"

    def run(self) -> None:
        connection, _ = self._listener.accept()
        with self._listener, connection, contextlib.suppress(OSError):
            while True:
                connection.sendall(b"x")
                time.sleep(0.05)


@pytest.mark.parametrize("is_late", [False, True], ids=["drips", "connects_late"])
def test_post_ends_in_time(log: Log, monkeypatch: pytest.MonkeyPatch, *, is_late: bool) -> None:
    monkeypatch.setattr("rendezvous.notify.notifiers._POST_TIMEOUT_SECONDS", 0.5)
    connect = http.client.HTTPConnection.connect

    def connect_late(connection: http.client.HTTPConnection) -> None:
        for timer in threading.enumerate():
            if isinstance(timer, threading.Timer):
                timer.join(HANG_SECONDS)
        connect(connection)

    if is_late:
        monkeypatch.setattr(http.client.HTTPConnection, "connect", connect_late)
    dripper = Dripper()
    dripper.start()
    build_post_notifier(f"http://{dripper.address}/", log)(build_notification(), {})
    (line,) = log.lines
    assert "no answer in time" in line or ("timed out" in line and not is_late)


def notify_of(changes: Changes, generation: int) -> None:
    old, new = build_gang(2)._replace(generation=generation - 1), build_gang(generation + 2)
    diff = compute_diff(old, new._replace(generation=generation))
    changes(Notify(CHANGED, diff), {})


def poll(changes: Changes, after: int) -> tuple[list[int], int, bool]:
    answer = changes.wait(after, 0.01)
    generations = [change["generation"] for change in answer["changes"]]
    return generations, answer["number"], answer["isComplete"]


def test_long_poll_misses_nothing_and_repeats_nothing_over_restarts_of_the_agent() -> None:
    changes = Changes()
    notify_of(changes, 1)
    notify_of(changes, 2)
    seen, number, is_complete = poll(changes, 0)
    assert (seen, is_complete) == ([1, 2], True)
    changes = Changes(generation=2)  # the agent was killed and has started again
    assert poll(changes, number) == ([], changes.wait(number, 0)["number"], True)
    notify_of(changes, 3)
    seen, number, is_complete = poll(changes, number)
    assert (seen, is_complete) == ([3], True)
    changes = Changes(generation=2)  # killed before it had recorded generation 3
    notify_of(changes, 3)
    assert poll(changes, number)[0] == []
    notify_of(changes, 4)
    assert poll(changes, number)[0] == [4]


def test_long_poll_says_when_it_has_forgotten_some() -> None:
    assert poll(Changes(generation=5), 0)[2] is False
    assert poll(Changes(generation=5), 100)[2] is False
    changes = Changes()
    for generation in range(1, 150):
        notify_of(changes, generation)
    seen, number, is_complete = poll(changes, 0)
    assert (seen, is_complete) == (list(range(50, 150)), False)
    assert poll(changes, number) == ([], number, True)


def test_long_poll_numbers_leaving_and_completing_of_one_generation() -> None:
    changes = Changes()
    empty = Diff(3, 3, (), (), ())
    for event in (CHANGED, LEAVING, COMPLETING):
        changes(Notify(event, empty), {})
    answer = changes.wait(0, 0.01)
    assert [change["event"] for change in answer["changes"]] == [CHANGED, LEAVING, COMPLETING]
    numbers = [change["number"] for change in answer["changes"]]
    assert numbers == sorted(set(numbers))


WAITS_FOR_SIGNAL = """
import signal, sys
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
print("ready", flush=True)
signal.sigwait([signal.SIGUSR1])
sys.exit(9)
"""
START_SLOWLY = """
import signal, sys, time
print("ready", flush=True)
sys.stdin.readline()
signal.signal(signal.SIGHUP, lambda *_: sys.exit(9))
while True:
    time.sleep(0.01)  # pause would miss a signal that has just come
"""
BLOCKS_ALL = """
import signal
signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
print("ready", flush=True)
input()
signal.pthread_sigmask(signal.SIG_UNBLOCK, signal.valid_signals())
print("unblocked", flush=True)
input()
"""


class Child:
    """A program that has written its first line."""

    def __init__(self, script: Path) -> None:
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(
            [sys.executable, "-u", str(script)], stdin=pipe, stdout=pipe, text=True
        )
        self.pid = self.process.pid
        assert self.read_line() == "ready\n"

    def read_line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline()

    def go_on(self) -> None:
        """End its wait for a line."""
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()


@contextlib.contextmanager
def start_program(folder: Path, text: str, name: str = "program.py") -> Iterator[Child]:
    script = folder / name
    script.write_text(text)
    child = Child(script)
    with child.process:
        yield child
        child.process.kill()


def test_signal_reaches_a_process_found_by_its_script(tmp_path: Path, log: Log) -> None:
    name = f"train_by_signal_{os.getpid()}.py"
    with start_program(tmp_path, WAITS_FOR_SIGNAL, name) as child:
        # On its way into sigwait it seems to have no handler.
        wait_until(lambda: "sigtimedwait" in Path(f"/proc/{child.pid}/wchan").read_text())
        notify = build_signal_notifier(signal.SIGUSR1, name, log, AgentClock())
        first = build_notification()
        # It reads the files at its start; a signal before it listens would end it.
        notify(first._replace(diff=first.diff._replace(previous_generation=0)), {})
        notify(first, {})
        assert child.process.wait(HANG_SECONDS) == 9
    notify(first, {})
    assert log.lines == [f"warning: SIGUSR1: there is no process {name} (FB_NOTIFY_PROCESS)"]


@pytest.mark.usefixtures("hangup_by_default")
def test_signal_waits_until_the_process_has_a_handler(tmp_path: Path, log: Log) -> None:
    name = f"train_that_starts_slowly_{os.getpid()}.py"
    with start_program(tmp_path, START_SLOWLY, name) as child:
        notify = build_signal_notifier(signal.SIGHUP, name, log, AgentClock())
        for _ in range(2):
            notify(build_notification(), {})
        child.go_on()
        assert child.process.wait(HANG_SECONDS) == 9
    assert len(log.lines) == 1
    assert "no handler" in log.lines[0]


def list_waiting() -> set[threading.Thread]:
    """List the threads of Signallers that wait for a process."""
    return {thread for thread in threading.enumerate() if thread.name.endswith("(_wait)")}


@pytest.mark.parametrize("is_reaped", [True, False])
def test_signal_does_not_wait_for_a_process_that_has_ended(log: Log, *, is_reaped: bool) -> None:
    sent: list[int] = []
    before = list_waiting()
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        Signaller(signal.SIGUSR2, sent.append, log, AgentClock()).signal(child.pid)
        (waiting,) = list_waiting() - before
        child.kill()
        if is_reaped:
            child.wait()
        waiting.join(HANG_SECONDS)
        assert not waiting.is_alive()
    assert sent == []


class SteppedClock(AgentClock):
    """Every sleep lasts until the test ends it."""

    def __init__(self) -> None:
        self._begun, self._ended = threading.Semaphore(0), threading.Semaphore(0)

    def sleep(self, _seconds: float) -> None:
        self._begun.release()
        self._ended.acquire()

    def step(self, count: int = 1) -> None:
        """Wait for so many sleeps and end each."""
        for _ in range(count):
            self.await_sleep()
            self.end_sleep()

    def await_sleep(self) -> None:
        assert self._begun.acquire(timeout=HANG_SECONDS)

    def end_sleep(self) -> None:
        self._ended.release()


def test_signal_waits_for_a_process_that_just_starts_another(tmp_path: Path, log: Log) -> None:
    """A shell and posix_spawn block all signals while they start a program, and have no handler."""
    sent: list[int] = []
    clock = SteppedClock()
    before = list_waiting()
    with start_program(tmp_path, BLOCKS_ALL) as child:
        Signaller(signal.SIGUSR1, sent.append, log, clock).signal(child.pid)
        assert sent == []
        (waiting,) = list_waiting() - before
        clock.step()
        child.go_on()
        assert child.read_line() == "unblocked\n"
        clock.step(100)
        # The process is killed during a sleep. Between two sleeps the thread may or may not see it.
        clock.await_sleep()
        assert sent == []
    clock.end_sleep()
    waiting.join(HANG_SECONDS)
    assert sent == []


def test_signal_is_sent_to_a_process_that_keeps_all_blocked(tmp_path: Path, log: Log) -> None:
    """One of its threads waits for it by sigwait, if it does so with all signals blocked."""
    sent: list[int] = []
    clock = SteppedClock()
    before = list_waiting()
    with start_program(tmp_path, BLOCKS_ALL) as child:
        Signaller(signal.SIGUSR1, sent.append, log, clock).signal(child.pid)
        (waiting,) = list_waiting() - before
        clock.step(20)
        waiting.join(HANG_SECONDS)
        assert sent == [child.pid]


def test_signal_waits_for_each_of_two_processes_with_one_id(
    log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first has just ended; the second must get its signal."""
    start_times, ready, gate = [b"1"], set[bytes](), threading.Event()
    sent: list[int] = []
    monkeypatch.setattr(signalling, "_read_start_time", lambda _: start_times[0])
    monkeypatch.setattr(signalling, "is_ready", lambda *_: start_times[0] in ready)

    class Clock(AgentClock):
        def sleep(self, seconds: float) -> None:
            gate.wait(200 * seconds)

    signaller = Signaller(signal.SIGUSR2, sent.append, log, Clock())
    before = list_waiting()
    signaller.signal(7)
    start_times[0] = b"2"
    signaller.signal(7)
    ready.add(b"2")
    gate.set()
    for thread in list_waiting() - before:
        thread.join(HANG_SECONDS)
    assert sent == [7]


def test_children_keep_codes_from_whoever_reaps(tmp_path: Path) -> None:
    children = Children(AgentClock())
    pids = [children.start(["sh", "-c", f"exit {i}"], os.environ) for i in range(5)]
    assert [children.wait(pid, HANG_SECONDS) for pid in reversed(pids)] == [4, 3, 2, 1, 0]
    assert children.take_code(pids[0]) is None
    with pytest.raises(StartError):
        children.start([str(tmp_path / "missing")], os.environ)


@pytest.mark.parametrize("query", ["timeout=nan", "timeout=soon", "after=x"])
def test_long_poll_of_what_is_no_number_is_refused(query: str) -> None:
    port = serve(("127.0.0.1", 0), Changes())
    with pytest.raises(urllib.error.HTTPError, match="400"):
        urllib.request.urlopen(f"http://127.0.0.1:{port}/changes?{query}", timeout=HANG_SECONDS)

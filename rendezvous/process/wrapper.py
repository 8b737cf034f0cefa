"""``run -- CMD``: PID 1 of the training container.

It waits for the gang, starts the command with the variables of the generation, forwards signals,
reaps every orphan, signals or restarts the command when the gang changes, ends it when the attempt
completes, and exits with the command's code.

Two threads. The agent's thread puts orders into a queue and waits until each is carried out. The
main thread owns the command, so neither a slow API server nor a slow notification delays a signal
or an exit:

1. Wait for a signal, an order, the end of a child, or the end of the grace period.
2. Forward signals to the command. Reap children.
3. If the command has ended: exit with its code, or start it again if a restart was ordered.
4. Carry out orders: start, pause (SIGTERM now), restart (SIGTERM now, start at the end), stop,
   exit, end (SIGTERM now; restarts in place), kill (SIGKILL now), fail (SIGKILL now, and exit),
   leave (exit if there is no command).
5. If the grace period is over, kill the command's session.

With restart in place (``follow_ends``), ``process.recovery`` is told of the end of the command at
once, and then that nothing is left of it. That orders the next start, and FB_ON_CHANGE has no
effect.

With FB_ON_CHANGE=restart, a failed peer leads to a pause: the command gets SIGTERM at once, and is
started again by the restart that the next generation orders. While a peer leaves without which the
gang is not complete, a command that fails leads to a pause, too: it may have lost its connection.

Invariants: at most one command runs; after SIGTERM or SIGINT to the wrapper, or a stop, no command
is started again; between SIGTERM and its end the command gets no second SIGTERM.

Example: FB_ON_CHANGE=restart, and the gang grows. The agent orders a restart. The command gets
SIGTERM, writes its checkpoint and ends with 143. What it left behind is killed, and it is started
with the new variables.
"""

import contextlib
import fcntl
import os
import queue
import select
import signal
import threading
from types import FrameType
from typing import Callable, Dict, List, Mapping, NamedTuple, Optional

from framework.agent.exitcodes import ExitCode
from framework.agent.signals import ENDING_SIGNALS, SIGNAL_EXIT_BASE
from rendezvous.agent import Setup
from rendezvous.core.diff import Diff
from rendezvous.core.notification import CHANGED, FAILED, LEAVING, PEER_LEAVING, Notify
from rendezvous.process.children import Children, StartError, become_subreaper
from rendezvous.process.ending import ENDED_FILE, RUNNING_FILE
from rendezvous.process.outputtap import OutputTap
from rendezvous.process.signalling import Signaller
from rendezvous.settings.options import RESTART

FORWARDED = (
    *ENDING_SIGNALS,
    signal.SIGUSR1,
    signal.SIGUSR2,
    signal.SIGALRM,
    signal.SIGCONT,
    signal.SIGTSTP,
    signal.SIGWINCH,
)
_ORDER_SECONDS = 5.0
# Between two looks whether what a command left is gone.
_LEFTOVER_SECONDS = 0.5
# A process that waits in the kernel does not end by SIGKILL.
_FAIL_SECONDS = 10.0


class _Order(NamedTuple):
    """What the agent's thread asks the main one for.

    ``word`` is start, pause, restart, end, kill, fail, leave, stop or exit; ``done`` is set when it
    was carried out.
    """

    word: str
    done: threading.Event
    env: Mapping[str, str] = {}
    exit_code: int = 0


class Wrapper:
    """The main thread: the command, signals, orphans."""

    def __init__(self, argv: List[str], setup: Setup, children: Children) -> None:
        """Run ``argv`` for the Task of ``setup``."""
        self._argv = argv
        self._options = options = setup.options
        self._identity = setup.target.identity
        self._children = children
        self._reporter = setup.reporter
        self._clock = setup.clock
        self._signaller = Signaller(
            options.signal,
            lambda pid: children.kill(pid, options.signal),
            setup.reporter,
            setup.clock,
        )
        self._orders: queue.Queue[_Order] = queue.Queue()
        self._wakeup_read, self._wakeup_write = os.pipe()
        for descriptor in (self._wakeup_read, self._wakeup_write):
            os.set_blocking(descriptor, False)
        self._pid = 0
        self._restart: Optional[_Order] = None
        self._is_ending = False
        self._is_leaving = False
        self._is_terminated = False
        self._is_paused = False
        self._has_leaving_peer = False
        self._on_end: Optional[Callable[[int], None]] = None
        self._on_gone: Callable[[], None] = _do_nothing
        self._has_leftovers = False
        self._on_start: Optional[Callable[[], None]] = None
        self._fail_code: Optional[int] = None
        self._fail_at = float("inf")
        self._tap: Optional[OutputTap] = None
        self._lock = -1
        self._kill_at: Optional[float] = None
        self._exit_code: Optional[int] = None

    # --- The agent's thread -----------------------------------------------------------------------

    def notify(self, notification: Notify, env: Mapping[str, str]) -> None:
        """Notify the command: this is a notifier."""
        if self._options.on_change != RESTART or self._on_end is not None:
            # A signal means that there is a new generation.
            if (
                self._options.signal
                and self._pid
                and notification.event not in (FAILED, PEER_LEAVING)
            ):
                self._signaller.signal(self._pid)
        elif notification.event == LEAVING or self._is_removed_by(notification):
            self._is_leaving = True  # it may write its checkpoint, and has no gang to return to
            self._order("leave", exit_code=SIGNAL_EXIT_BASE + signal.SIGTERM)
        elif notification.event == FAILED and not self._is_leaving:
            self._order("pause")
        elif notification.event == PEER_LEAVING:
            self._has_leaving_peer = True
        elif notification.event == CHANGED and self._is_another_world(notification.diff):
            self._order("restart", env=dict(env))
        elif notification.event == CHANGED:
            self._has_leaving_peer = False

    def _is_another_world(self, diff: Diff) -> bool:
        if self._is_leaving:
            return False
        # A member that has succeeded is not waited for: the others end in a moment, too. But a
        # command that was ended for a failure must be started again.
        return self._is_paused or not (diff.is_empty or diff.is_only_success)

    def _is_removed_by(self, notification: Notify) -> bool:
        own = (self._identity.role, self._identity.index)
        return any((peer.role, peer.index) == own for peer in notification.diff.removed)

    def start(self, env: Mapping[str, str]) -> None:
        """Have the command started."""
        self._order("start", env=dict(env))

    def follow_ends(self, on_end: Callable[[int], None], on_gone: Callable[[], None]) -> None:
        """Call ``on_end`` with the code of each command that ends; do not end the program then.

        ``on_gone`` is called after that, when all that the command left is gone.
        """
        self._on_end, self._on_gone = on_end, on_gone

    def follow_starts(self, on_start: Callable[[], None]) -> None:
        """Call ``on_start`` before each start of the command, in the main thread."""
        self._on_start = on_start

    def follow_output(self, tap: OutputTap) -> None:
        """Let the output of each command that starts go through ``tap``."""
        self._tap = tap

    @property
    def is_running(self) -> bool:
        """Whether the command runs."""
        return self._pid != 0

    def kill(self) -> None:
        """Have the command killed, and nothing else."""
        self._order("kill")

    def fail(self, exit_code: int) -> None:
        """Have the command killed, and the program ended with this code, in 10 s at most."""
        self._order("fail", exit_code=exit_code)

    def end(self) -> None:
        """Have the command ended, and nothing else."""
        self._order("end")

    def stop(self) -> None:
        """Have the command ended, because the attempt completes."""
        self._order("stop")

    def give_up(self, exit_code: int) -> None:
        """Have the program ended before there was a command."""
        self._order("exit", exit_code=exit_code)

    def _order(self, word: str, env: Mapping[str, str] = {}, exit_code: int = 0) -> None:
        order = _Order(word, threading.Event(), env, exit_code)
        self._orders.put(order)
        self._wake()
        order.done.wait(self._options.stop_grace_seconds + _ORDER_SECONDS)

    # --- The main thread --------------------------------------------------------------------------

    def run(self, run_agent: Callable[[], None]) -> int:
        """Run the agent in a thread and the command here; return the exit code."""
        signal.set_wakeup_fd(self._wakeup_write, warn_on_full_buffer=False)
        for number in (*FORWARDED, signal.SIGCHLD):
            signal.signal(number, _note_signal)
        become_subreaper()
        self._mark_running()
        threading.Thread(target=run_agent, name="agent", daemon=True).start()
        while self._exit_code is None:
            self._turn()
        if self._tap is not None:
            self._tap.drain()
        self._mark_ended()
        return self._exit_code

    def _turn(self) -> None:
        timeout = None
        if self._kill_at is not None:
            timeout = max(0.0, self._kill_at - self._clock.monotonic())
        elif self._has_leftovers:
            timeout = _LEFTOVER_SECONDS
        if self._fail_code is not None:
            timeout = min(timeout or _FAIL_SECONDS, _LEFTOVER_SECONDS)
        readable, _, _ = select.select([self._wakeup_read], [], [], timeout)
        for number in os.read(self._wakeup_read, 4096) if readable else b"":
            if number and number != signal.SIGCHLD:
                self._forward(number)
        self._children.reap()
        self._take_end()
        self._end_leftovers()
        if self._exit_code is None and self._clock.monotonic() >= self._fail_at:
            self._reporter.say("the command does not end though it is killed", "error")
            self._exit_code = self._fail_code
        while self._exit_code is None and not self._orders.empty():
            self._obey(self._orders.get())
        if self._kill_at is not None and self._clock.monotonic() >= self._kill_at:
            self._kill_at = None
            self._reporter.say("the command did not end in time, it is killed", "warning")
            self._children.kill_session(self._pid)

    def _forward(self, number: int) -> None:
        if self._pid:
            # A second SIGTERM is not forwarded: some programs abort the checkpoint that they
            # write after the first.
            if number != signal.SIGTERM or self._kill_at is None:
                self._children.kill(self._pid, number)
            self._is_terminated = self._is_terminated or number == signal.SIGTERM
        elif number in ENDING_SIGNALS:
            self._exit_code = SIGNAL_EXIT_BASE + number
        if number in (signal.SIGTERM, signal.SIGINT):
            self._is_ending = True  # no restart after this

    def _obey(self, order: _Order) -> None:
        if order.word == "restart" and self._pid and not self._is_ending:
            if self._restart is not None:
                self._restart.done.set()
            self._restart = order
            self._end_command()
            return
        if order.word == "restart" and self._is_paused and not self._is_ending:
            self._is_paused = False
            self._start(order.env)
        elif order.word == "pause" and self._pid and not self._is_ending:
            self._is_paused = True
            self._end_command()
        elif order.word in {"end", "kill", "fail"} and self._pid:
            self._end_process(order)
        has_nothing_to_end = self._is_paused and not self._pid
        if order.word == "exit" or (order.word == "leave" and has_nothing_to_end):
            self._exit_code = order.exit_code
        elif order.word == "start" and not self._is_ending:
            self._start(order.env)
        elif order.word == "stop":
            self._is_ending = True
            if self._pid:
                self._end_command()
            else:
                self._exit_code = SIGNAL_EXIT_BASE + signal.SIGTERM
        order.done.set()

    def _end_process(self, order: _Order) -> None:
        if order.word == "end":
            self._end_command()
            return
        if order.word == "fail":
            self._fail_code = order.exit_code
            self._fail_at = min(self._fail_at, self._clock.monotonic() + _FAIL_SECONDS)
        self._children.kill_session(self._pid)

    def _end_command(self) -> None:
        if self._kill_at is None and not self._is_terminated:
            self._kill_at = self._clock.monotonic() + self._options.stop_grace_seconds
            self._children.kill(self._pid, signal.SIGTERM)

    def _start(self, env: Mapping[str, str]) -> None:
        self._has_leaving_peer = False
        if self._on_start is not None:
            self._on_start()
        output, errors = self._tap.open() if self._tap is not None else (None, None)
        variables = self._build_env(env)
        try:
            self._pid = self._children.start(self._argv, variables, None, output, errors)
        except StartError as e:
            self._reporter.say(str(e), "error")
            self._exit_code = e.exit_code
        for descriptor in (output, errors):
            if descriptor is not None:
                os.close(descriptor)

    def _take_end(self) -> None:
        """Exit if the command has ended, or start it again if it was ended for that."""
        code = self._children.take_code(self._pid) if self._pid else None
        if code is None:
            return
        pid, self._pid, self._kill_at = self._pid, 0, None
        self._is_terminated = False
        if self._fail_code is not None:
            self._children.kill_leftovers()
            self._exit_code = code and self._fail_code  # it may have succeeded meanwhile
            return
        if code == ExitCode.HUNG:
            self._reporter.say("the command ended with 202, which is reported as a hang", "warning")
        restart, self._restart = self._restart, None
        if restart is not None:
            restart.done.set()
        has_lost_peer = self._has_leaving_peer and not self._is_leaving and code != 0
        self._is_paused = self._is_paused or has_lost_peer
        is_last = restart is None and not self._is_paused and self._on_end is None
        if self._is_ending or is_last:
            self._exit_code = code
            return
        # What it started would hold ports and devices.
        self._children.kill_session(pid)
        if self._on_end is not None:
            self._has_leftovers = True
            self._reporter.say(f"the command ended with {code}")
            self._on_end(code)
            return
        self._children.kill_leftovers()
        if restart is None:
            self._reporter.say(
                f"the command ended with {code}, it is started again when the gang is complete"
            )
            return
        self._is_paused = False
        self._reporter.say(f"the command ended with {code}, it is started again")
        self._start(restart.env)

    def _end_leftovers(self) -> None:
        """Kill what the command left, and tell the recovery when it is gone."""
        if self._has_leftovers and self._children.kill_leftovers(with_piped=True):
            self._has_leftovers = False
            self._on_gone()

    def _build_env(self, env: Mapping[str, str]) -> Dict[str, str]:
        variables = {**os.environ, **env}
        site = os.path.join(self._options.directory, "agent", "site")
        if os.path.isdir(site):
            paths = [p for p in os.environ.get("PYTHONPATH", "").split(os.pathsep) if p]
            if site not in paths:
                variables["PYTHONPATH"] = os.pathsep.join([site, *paths])
        return variables

    def _wake(self) -> None:
        try:
            os.write(self._wakeup_write, b"\0")
        except BlockingIOError:
            return  # full: the main thread wakes up anyway

    def _mark_ended(self) -> None:
        """Write the file by which a sidecar of this Pod learns of the end."""
        try:
            flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
            os.close(os.open(os.path.join(self._options.directory, ENDED_FILE), flags, 0o444))
        except OSError as e:
            self._reporter.say_once(f"a sidecar does not learn of the end: {e}", "warning")

    def _mark_running(self) -> None:
        """Hold a lock until this process ends, in whatever way; a sidecar checks it."""
        path = os.path.join(self._options.directory, RUNNING_FILE)
        temporary = f"{path}.{os.urandom(6).hex()}.tmp"
        with contextlib.suppress(OSError):
            flags = os.O_RDONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
            self._lock = os.open(temporary, flags, 0o444)
            os.fchmod(self._lock, 0o444)  # whatever the umask is
            fcntl.flock(self._lock, fcntl.LOCK_EX)
            os.rename(temporary, path)
        with contextlib.suppress(OSError):
            os.unlink(os.path.join(self._options.directory, ENDED_FILE))


def _do_nothing() -> None:
    """No caller waits for the end of what the command left."""


def _note_signal(_number: int, _frame: Optional[FrameType]) -> None:
    """Nothing: its number is in the wake-up pipe."""

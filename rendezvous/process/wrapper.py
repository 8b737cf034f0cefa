"""``run -- CMD``: PID 1 of the training container.

It waits for the gang, starts the command with the variables of the generation, forwards signals,
reaps every orphan, signals or restarts the command when the gang changes, ends it when the attempt
completes, and exits with the command's code. ``core.command`` decides; this module executes.

Two threads. The agent's thread puts orders into a queue and waits until each is carried out. The
main thread owns the command, so neither a slow API server nor a slow notification delays a signal
or an exit:

1. Wait for a signal, an order, the end of a child, or the end of a time limit.
2. Decide on each signal. Reap children.
3. Decide on the end of the command, and on the end of all processes that it left.
4. Decide on each order, and last on the end of the grace period.

Invariant: only the main thread executes actions; a lock guards the memory of ``core.command``,
because notifications change it, too.

Example: the agent orders a restart, and wakes the main thread through the pipe. Its decision sends
SIGTERM. SIGCHLD wakes it at the end of the command: the decision starts it again, and ``Finish``
lets the agent's thread go on.

Rules: docs/design/agents.md, "Notifications".
"""

import itertools
import os
import queue
import select
import signal
import threading
from typing import Callable, Dict, List, Mapping, NamedTuple, Optional, Union

from framework.agent.signals import ENDING_SIGNALS
from rendezvous.agent import Setup
from rendezvous.core.command import (
    Action,
    CommandMemory,
    CommandSettings,
    Ended,
    Event,
    FailTimeOver,
    Finish,
    Gone,
    GraceOver,
    KillLeftovers,
    KillSession,
    Order,
    OrderKind,
    Process,
    ReportEnd,
    ReportGone,
    Say,
    SendSignal,
    Signalled,
    StartCommand,
    StartFailed,
    choose_order,
    compute_wait,
    decide,
)
from rendezvous.core.notifying.notification import FAILED, PEER_LEAVING, Notify
from rendezvous.process.children import Children, StartError, become_subreaper
from rendezvous.process.outputtap import OutputTap
from rendezvous.process.signalling import Signaller
from rendezvous.process.wakepipe import WakePipe
from rendezvous.process.wrapperfiles import WrapperFiles
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


class Hooks(NamedTuple):
    """Calls of the main thread; they must return soon. Set before the first start."""

    before_start: Optional[Callable[[], None]] = None
    """Called before each start of the command."""
    tap: Optional[OutputTap] = None
    """The output of each command goes through it."""
    after_end: Optional[Callable[[int], None]] = None
    """Called with the code of each command that ends. If set, the command restarts in place."""
    after_gone: Optional[Callable[[], None]] = None
    """Called after ``after_end``, when all processes that the command left are gone."""


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
        self.hooks = Hooks()
        self._orders: queue.Queue[Order] = queue.Queue()
        self._unfinished: Dict[int, threading.Event] = {}  # by the number of the order
        self._numbers = itertools.count(1)
        self._wakeup = WakePipe()
        self._memory = CommandMemory()
        self._deciding = threading.Lock()
        self._pid = 0
        # The session of the last command, also after its end.
        self._session = 0
        self._files = WrapperFiles(options.directory)

    # --- The agent's thread -----------------------------------------------------------------------

    def expect_departure(self, notification: Notify, _env: Mapping[str, str]) -> None:
        """Remember that a peer leaves: the first notifier.

        The other notifiers take time, for example a command that writes a checkpoint. The command
        may lose its connection to the peer, and fail, before they have ended.
        """
        if notification.event == PEER_LEAVING and self._restarts_on_change:
            self._choose_order(notification)

    def notify(self, notification: Notify, env: Mapping[str, str]) -> None:
        """Notify the command: the last notifier."""
        if not self._restarts_on_change:
            # A signal means that there is a new generation.
            if (
                self._options.signal
                and self._pid
                and notification.event not in (FAILED, PEER_LEAVING)
            ):
                self._signaller.signal(self._pid)
            return
        kind = self._choose_order(notification)
        if kind is not None:
            self._order(kind, env=dict(env))

    @property
    def _restarts_on_change(self) -> bool:
        return self._options.on_change == RESTART and not self._settings.restarts_in_place

    def _choose_order(self, notification: Notify) -> Optional[OrderKind]:
        own = (self._identity.role, self._identity.index)
        with self._deciding:
            kind, self._memory = choose_order(self._memory, notification, own)
        return kind

    def start(self, env: Mapping[str, str]) -> None:
        """Order the start of the command."""
        self._order(OrderKind.START, env=dict(env))

    @property
    def is_running(self) -> bool:
        """Whether the command runs."""
        return self._pid != 0

    def kill(self) -> None:
        """Order to kill the command; the program goes on."""
        self._order(OrderKind.KILL)

    def fail(self, exit_code: int) -> None:
        """Order to kill the command, and to exit with this code, in 10 s at most."""
        self._order(OrderKind.FAIL, exit_code=exit_code)

    def end(self) -> None:
        """Order the end of the command; the program goes on."""
        self._order(OrderKind.END)

    def stop(self) -> None:
        """Order the end of the command, because the attempt completes."""
        self._order(OrderKind.STOP)

    def give_up(self, exit_code: int) -> None:
        """Order to exit with this code, before there is a command."""
        self._order(OrderKind.EXIT, exit_code=exit_code)

    def _order(self, kind: OrderKind, env: Mapping[str, str] = {}, exit_code: int = 0) -> None:
        order, done = Order(kind, env, exit_code, next(self._numbers)), threading.Event()
        self._unfinished[order.number] = done
        self._orders.put(order)
        self._wakeup.wake()
        done.wait(self._options.stop_grace_seconds + _ORDER_SECONDS)

    # --- The main thread --------------------------------------------------------------------------

    def run(self, run_agent: Callable[[], None]) -> int:
        """Run the agent in a thread and the command here; return the exit code."""
        self._wakeup.catch((*FORWARDED, signal.SIGCHLD))
        become_subreaper()
        self._files.mark_running()
        threading.Thread(target=run_agent, name="agent", daemon=True).start()
        while self._memory.exit_code is None:
            self._turn()
        if self.hooks.tap is not None:
            self.hooks.tap.drain()
        self._mark_ended()
        return self._memory.exit_code

    def _turn(self) -> None:
        timeout = compute_wait(self._memory, self._clock.monotonic())
        select.select([self._wakeup], [], [], timeout)
        for number in self._wakeup.read():
            if number and number != signal.SIGCHLD:
                self._follow(Signalled(number))
        self._children.reap()
        self._follow_end()
        if self._memory.process is Process.LEFT and self._children.kill_leftovers(with_piped=True):
            self._follow(Gone())
        forced = self._memory.forced_exit
        if forced is not None and self._goes_on and self._clock.monotonic() >= forced.at:
            self._follow(FailTimeOver())
        while self._goes_on and not self._orders.empty():
            self._follow(self._orders.get())
        kill_at = self._memory.kill_at
        if kill_at is not None and self._clock.monotonic() >= kill_at:
            self._follow(GraceOver())

    @property
    def _goes_on(self) -> bool:
        return self._memory.exit_code is None

    @property
    def _settings(self) -> CommandSettings:
        return CommandSettings(self._options.stop_grace_seconds, self.hooks.after_end is not None)

    def _follow_end(self) -> None:
        code = self._children.take_code(self._pid) if self._pid else None
        if code is not None:
            self._pid = 0
            self._follow(Ended(code))

    def _follow(self, event: Event) -> None:
        """Decide on an event, and execute the actions."""
        with self._deciding:
            now = self._clock.monotonic()
            actions, self._memory = decide(self._memory, event, self._settings, now)
        for action in actions:
            self._execute(action)

    def _execute(self, action: Action) -> None:
        if isinstance(action, SendSignal):
            self._children.kill(self._pid, action.number)
        elif isinstance(action, KillSession):
            self._children.kill_session(self._session)
        elif isinstance(action, KillLeftovers):
            self._children.kill_leftovers()
        elif isinstance(action, StartCommand):
            self._start(action.env)
        elif isinstance(action, Finish):
            self._unfinished.pop(action.number).set()
        elif isinstance(action, Say):
            self._reporter.say(action.text, action.level)
        else:
            self._report(action)

    def _report(self, action: Union[ReportEnd, ReportGone]) -> None:
        hooks = self.hooks
        if isinstance(action, ReportEnd) and hooks.after_end is not None:
            hooks.after_end(action.code)
        elif isinstance(action, ReportGone) and hooks.after_gone is not None:
            hooks.after_gone()

    def _start(self, env: Mapping[str, str]) -> None:
        if self.hooks.before_start is not None:
            self.hooks.before_start()
        tap = self.hooks.tap
        output, errors = tap.open() if tap is not None else (None, None)
        variables = self._build_env(env)
        try:
            self._pid = self._children.start(self._argv, variables, None, output, errors)
            self._session = self._pid
        except StartError as e:
            self._reporter.say(str(e), "error")
            self._follow(StartFailed(e.exit_code))
        for descriptor in (output, errors):
            if descriptor is not None:
                os.close(descriptor)

    def _build_env(self, env: Mapping[str, str]) -> Dict[str, str]:
        variables = {**os.environ, **env}
        site = os.path.join(self._options.directory, "agent", "site")
        if os.path.isdir(site):
            paths = [p for p in os.environ.get("PYTHONPATH", "").split(os.pathsep) if p]
            if site not in paths:
                variables["PYTHONPATH"] = os.pathsep.join([site, *paths])
        return variables

    def _mark_ended(self) -> None:
        try:
            self._files.mark_ended()
        except OSError as e:
            self._reporter.say_once(
                f"cannot write that this program ends, for sidecars: {e}", "warning"
            )

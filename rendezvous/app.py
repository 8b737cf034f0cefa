"""The rendezvous agent's program: reads the settings, connects the parts, gives the exit code."""

import os
import sys
from typing import Callable, List, Mapping, NamedTuple, NoReturn, Optional, Tuple

from framework.agent.access import Access, AccessError
from framework.agent.addresses import join_port
from framework.agent.clock import AgentClock
from framework.agent.discovery import load_access
from framework.agent.dns_source import ExpectedGangError, read_expected
from framework.agent.exitcodes import ExitCode
from framework.agent.report import LineReporter
from framework.agent.signals import SIGNAL_EXIT_BASE, SignalledError, raise_on_signals
from framework.agent.termination import write_termination_message
from framework.api import constants
from framework.version import VERSION
from rendezvous.agent import Agent, Setup
from rendezvous.core.refusal import RefusedError
from rendezvous.core.target import Target, parse_target
from rendezvous.notify.acknowledge import Acknowledger
from rendezvous.notify.notifiers import (
    Notifier,
    build_command_notifier,
    build_post_notifier,
    build_signal_notifier,
)
from rendezvous.observer import AttemptObserver
from rendezvous.process.children import Children
from rendezvous.process.ending import Ending, EndingError, choose_ending
from rendezvous.process.recovery import Recovery
from rendezvous.process.recoverysetup import start_recovery
from rendezvous.process.scaler import Scaler
from rendezvous.process.sidecar import run_sidecar
from rendezvous.process.wrapper import Wrapper
from rendezvous.renderers.plugins import load_plugins
from rendezvous.settings.annotations import list_ignored, read_annotations
from rendezvous.settings.arguments import (
    INSTALL,
    RENDER,
    RSH,
    USAGE,
    WATCH,
    Arguments,
    UsageError,
    parse_arguments,
    render_help,
)
from rendezvous.settings.option import OptionsError
from rendezvous.settings.options import Options, parse_options
from rendezvous.settings.unused_settings import list_misspelt, list_named_roles
from rendezvous.volume.install import find_directory, install
from rendezvous.volume.writer import Writer

UNPUBLISHED = (
    "recovery.inPlace has no effect: a process that fails or hangs ends its Pod. Epochs are in the "
    "roster in the attempt's ConfigMap, but this gang is read from the Framework. Let agents watch "
    "the ConfigMap (deploy/agents), and run the gang with the controller of frameworkbarrier"
)


class EndError(Exception):
    """The program ends with this code, for this reason."""

    def __init__(self, code: ExitCode, reason: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason


class _Watch(NamedTuple):
    """Calls to the part that finds hangs and reports progress. The defaults do nothing."""

    get_verdict: Callable[[], str] = str
    """Returns the last hang that was found, as a message; "" if there was none."""
    finish: Callable[[], object] = str
    """Reports the last steps."""


class Program:
    """One run of the program."""

    def __init__(self, arguments: Arguments, env: Mapping[str, str], clock: AgentClock) -> None:
        """Run with this command line and environment."""
        self._arguments = arguments
        self._env = env
        self._clock = clock
        self._reporter = LineReporter(
            "rendezvous", is_json=env.get(constants.BARRIER_LOG_ENV) == "json"
        )
        self._children = Children(clock)

    def run(self) -> int:
        """Run to the exit code."""
        try:
            return self._run()
        except EndError as e:
            return self._fail(e)
        except (OptionsError, RefusedError, ExpectedGangError) as e:
            return self._fail(EndError(ExitCode.PERMANENT, "BadSettings", str(e)))
        except EndingError as e:
            return self._fail(EndError(ExitCode.PERMANENT, "NoWayToEnd", str(e)))
        except AccessError as e:
            return self._fail(EndError(ExitCode.UNKNOWN, "NoAccess", str(e)))
        except OSError as e:
            return self._fail(EndError(ExitCode.UNKNOWN, "NotWritable", str(e)))

    def _run(self) -> int:
        directory = self._find_directory()
        if self._arguments.command == INSTALL:
            os.makedirs(directory, exist_ok=True)
            install(directory)
            self._reporter.say(f"the agent is in {directory}/agent")
            return ExitCode.PASSED.value
        if self._arguments.command == RSH:
            return self._run_remotely(directory)
        setup = self._build_setup(directory)
        access = load_access(self._env)
        writer = Writer(setup.options.directory)
        self._prepare(writer)
        if self._arguments.command == RENDER:
            return self._render(setup, access, writer)
        if self._arguments.command == WATCH:
            return self._watch(setup, access, writer)
        return self._wrap(setup, access, writer)

    def _run_remotely(self, directory: str) -> int:
        from rendezvous.rsh.program import run_client

        arguments, env = self._arguments, self._env
        options = parse_options(env, {"directory": directory, **arguments.flags})
        return run_client(arguments.host, arguments.argv, env, options, self._clock)

    def _render(self, setup: Setup, access: Access, writer: Writer) -> int:
        observer = self._observe(access, setup.target)
        self._await_first(Agent(setup, observer, writer), observer, setup.options)
        observer.close()
        return ExitCode.PASSED.value

    def _watch(self, setup: Setup, access: Access, writer: Writer) -> int:
        options = setup.options
        ending = choose_ending(options, setup.target, access, self._clock)
        notifiers = self._build_notifiers(setup, writer)
        if options.signal:
            if not options.process:
                raise RefusedError(
                    "FB_NOTIFY_SIGNAL needs FB_NOTIFY_PROCESS, the name of the program to signal"
                )
            reporter, clock = self._reporter, self._clock
            notifiers.append(
                build_signal_notifier(options.signal, options.process, reporter, clock)
            )
        agent = self._build_agent(setup, access, writer)[0]
        agent.notifiers = notifiers
        self._reporter.say(f"sidecar; its way to end (FB_SIDECAR_END): {ending.name}")
        run_sidecar(agent, ending, self._reporter, self._clock)
        self._reporter.say(ending.farewell)
        return ExitCode.PASSED.value

    def _wrap(self, setup: Setup, access: Access, writer: Writer) -> int:
        wrapper = Wrapper(self._arguments.argv, setup, self._children)
        others = self._build_notifiers(setup, writer)
        notifiers = [wrapper.expect_departure, *others, wrapper.notify]
        agent, observer = self._build_agent(setup, access, writer, wrapper.stop)
        open_endpoint, close_endpoint = self._prepare_endpoint(setup)
        watch = _Watch()

        def run_agent() -> None:
            nonlocal watch
            try:
                self._await_first(agent, observer, setup.options)
                open_endpoint()
                start_watch = self._prepare_watch(setup, access, agent, wrapper)
                recovery = start_recovery(setup, self._env, access, agent, wrapper)
                watch = start_watch(recovery)
            except EndError as e:
                wrapper.give_up(self._fail(e))
                return
            except RefusedError as e:
                fault = EndError(ExitCode.PERMANENT, "BadSettings", str(e))
                wrapper.give_up(self._fail(fault))
                return
            except Exception as e:  # noqa: BLE001  (a thread's fault would be lost)
                fault = EndError(ExitCode.UNKNOWN, "Fault", f"{type(e).__name__}: {e}")
                wrapper.give_up(self._fail(fault))
                return
            if recovery is None:
                if observer.restarts_unpublished():
                    self._reporter.say(UNPUBLISHED, "warning")
                wrapper.start(agent.env)
            agent.notifiers = notifiers
            # It runs until the program ends.
            run_sidecar(agent, Ending(), self._reporter, self._clock)

        code = wrapper.run(run_agent)
        close_endpoint()
        if code == ExitCode.PASSED:
            watch.finish()
        verdict = watch.get_verdict()
        if code == ExitCode.HUNG and verdict:
            self._write_end(EndError(ExitCode.HUNG, "Hung", verdict))
        return code

    def _prepare_watch(
        self, setup: Setup, access: Access, agent: Agent, wrapper: Wrapper
    ) -> Callable[[Optional[Recovery]], _Watch]:
        """Prepare the search for hangs and the report of progress; return their start."""
        if not setup.options.progress_seconds and setup.options.progress_status != "on":
            return lambda _: _Watch()
        from rendezvous.progress import hangsetup  # loads hashlib, sockets and selectors

        pages = hangsetup.prepare_pages(setup, self._env, agent, wrapper)
        if pages is None:
            return lambda _: _Watch()

        def start(recovery: Optional[Recovery]) -> _Watch:
            watcher = hangsetup.start_watcher(setup, access, pages, wrapper, recovery)
            return _Watch(lambda: watcher.verdict, watcher.finish)

        return start

    def _prepare_endpoint(self, setup: Setup) -> Tuple[Callable[[], None], Callable[[], None]]:
        """Prepare the endpoint of remote commands; return how to open and close it."""
        if setup.options.rsh == "off":
            return _do_nothing, _do_nothing
        from rendezvous.rsh.program import PreparedEndpoint  # loads ssl, 2 MB

        endpoint = PreparedEndpoint(setup, self._env, self._children)

        def open_endpoint() -> None:
            try:
                endpoint.open()
            except OSError as e:
                text = f"FB_RSH_SERVER_PORT: cannot serve remote commands: {e}; choose another port"
                raise EndError(ExitCode.UNKNOWN, "PortTaken", text) from e

        return open_endpoint, endpoint.close

    def _observe(self, access: Access, target: Target) -> AttemptObserver:
        return AttemptObserver(access, self._clock, target, read_expected(self._env))

    def _build_agent(
        self,
        setup: Setup,
        access: Access,
        writer: Writer,
        end_command: Callable[[], None] = lambda: None,
    ) -> Tuple[Agent, AttemptObserver]:
        acknowledger = None
        if setup.options.acknowledge:
            acknowledger = Acknowledger(access, self._clock, setup.target, self._reporter)
        scaler = self._build_scaler(setup, writer, acknowledger)
        observer = self._observe(access, setup.target)
        agent = Agent(setup, observer, writer, acknowledger, end_command=end_command, scaler=scaler)
        return agent, observer

    def _build_scaler(
        self, setup: Setup, writer: Writer, acknowledger: Optional[Acknowledger]
    ) -> Optional[Scaler]:
        if not setup.options.scalers:
            return None
        if acknowledger is None:
            raise RefusedError("FB_SCALERS=run reports results and needs FB_ACKNOWLEDGE=auto")
        return Scaler(
            setup.target.framework,
            self._children,
            writer.records,
            acknowledger.report_scaler,
            self._reporter,
            self._clock,
            setup.options.slots,
        )

    def _build_notifiers(self, setup: Setup, writer: Writer) -> List[Notifier]:
        options = setup.options
        notifiers: List[Notifier] = []
        if options.command:
            seconds = options.command_timeout_seconds
            notifiers.append(
                build_command_notifier(options.command, seconds, self._children, self._reporter)
            )
        if options.url:
            notifiers.append(build_post_notifier(options.url, self._reporter))
        if options.listen is not None:
            notifiers.append(self._serve_polls(options.listen, setup.target, writer))
        return notifiers

    def _serve_polls(self, address: Tuple[str, int], target: Target, writer: Writer) -> Notifier:
        from rendezvous.notify.longpoll import Changes, Key, serve
        from rendezvous.site.peers import GangKeyError, read_gang_key

        attempt = target.identity.instance_uid
        try:
            secret = read_gang_key(attempt, self._env)
        except GangKeyError as e:
            raise RefusedError(str(e)) from e
        changes = Changes(writer.records.read_notified().generation)
        host, port = address
        try:
            port = serve(address, changes, Key(secret, attempt) if secret else None)
        except OSError as e:
            where = join_port(host, port)
            text = f"FB_LISTEN: cannot listen on {where}: {e}; choose another port"
            raise EndError(ExitCode.UNKNOWN, "PortTaken", text) from e
        how = "" if secret else ", not authenticated, because no gang key is mounted"
        self._reporter.say(f"long-polls: http://{join_port(host, port)}/changes{how}")
        return changes

    def _await_first(self, agent: Agent, observer: AttemptObserver, options: Options) -> None:
        """Wait until a generation is current."""
        started_at = self._clock.monotonic()
        while True:
            agent.turn()
            if agent.generation:
                return
            if agent.refusal is not None:
                raise EndError(ExitCode.PERMANENT, "Refused", str(agent.refusal))
            fault = observer.find_permanent_fault()
            if fault:
                raise EndError(ExitCode.PERMANENT, "NoSource", fault)
            waited = self._clock.monotonic() - started_at
            if 0 < options.timeout_seconds <= waited:
                is_answered = observer.is_answered()
                raise EndError(
                    ExitCode.TRANSIENT_CONFLICT if is_answered else ExitCode.UNKNOWN,
                    "GangIncomplete" if is_answered else "NoAnswer",
                    f"no complete generation in {options.timeout_seconds:g} s: {agent.last_wait}",
                )

    def _build_setup(self, directory: str) -> Setup:
        env, flags = self._env, self._arguments.flags
        try:
            annotations = read_annotations(env)
        except OSError as e:
            raise RefusedError(f"the Pod's annotations cannot be read: {e}") from e
        for line in (*list_ignored(annotations), *list_misspelt(env)):
            self._reporter.say(line, "warning")
        options = parse_options(env, {"directory": directory, **flags}, annotations)
        return Setup(
            options,
            parse_target(env),
            load_plugins(options.plugins),
            self._reporter,
            self._clock,
            list_named_roles(options, env),
        )

    def _find_directory(self) -> str:
        """Use the flag, the variable, the volume that contains the zipapp, or the default."""
        given = self._arguments.flags.get("directory")
        return (
            given
            or self._env.get(constants.WORKING_DIR_ENV)
            or find_directory(__file__)
            or constants.WORKING_DIR
        )

    @staticmethod
    def _prepare(writer: Writer) -> None:
        try:
            writer.prepare()
        except OSError as e:
            raise OSError(
                f"cannot write into the volume: {e}; mount an emptyDir there, or set "
                f"${constants.WORKING_DIR_ENV} to where it is mounted"
            ) from e

    def _fail(self, end: EndError) -> int:
        for line in str(end).split("\n"):  # several bad settings have a line each
            self._reporter.say(line, "error", reason=end.reason)
        self._write_end(end)
        return end.code.value

    def _write_end(self, end: EndError) -> None:
        """Log the next step of the controller, and write the termination message."""
        self._reporter.say(end.code.describe(), "error")
        path = self._env.get(constants.TERMINATION_LOG_ENV) or constants.TERMINATION_LOG
        fields = {"exitCode": end.code.value, "reason": end.reason, "message": str(end)}
        write_termination_message(path, fields)


def _do_nothing() -> None:
    """No remote commands are wanted."""


def run(words: List[str], env: Mapping[str, str], clock: AgentClock) -> int:
    """Run the program; return its exit code."""
    if words in (["--help"], ["-h"]):
        sys.stdout.write(render_help())
        return 0
    if words == ["--version"]:
        sys.stdout.write(VERSION + "\n")
        return 0
    try:
        arguments = parse_arguments(words)
    except UsageError as e:
        sys.stderr.write(f"rendezvous: {e}\n{USAGE}")
        return ExitCode.PERMANENT.value
    raise_on_signals()
    try:
        return Program(arguments, env, clock).run()
    except SignalledError as e:
        # A sidecar is ended by SIGTERM when its Pod is done: any other code would fail that Pod.
        return 0 if arguments.command == WATCH else SIGNAL_EXIT_BASE + e.number


def main() -> NoReturn:
    """Run as a program."""
    code = run(sys.argv[1:], os.environ, AgentClock())
    sys.stdout.flush()
    # Skip the shutdown of the interpreter: threads of the agent may be in the middle of a wait.
    os._exit(code)

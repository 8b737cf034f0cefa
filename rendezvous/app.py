"""The rendezvous agent's program: reads the settings, carries out a command, gives the exit code.

``parts`` connects the parts of an agent, and ``wrapping`` is the command ``run``.
"""

import os
import sys
from typing import List, Mapping, NoReturn

from framework.agent.access import AccessError
from framework.agent.clock import AgentClock
from framework.agent.discovery import load_access
from framework.agent.dns_source import ExpectedGangError
from framework.agent.exitcodes import ExitCode
from framework.agent.report import LineReporter
from framework.agent.signals import SIGNAL_EXIT_BASE, SignalledError, raise_on_signals
from framework.api import constants
from framework.version import VERSION
from rendezvous.agent import Agent, Setup
from rendezvous.core.refusal import RefusedError
from rendezvous.core.target import parse_target
from rendezvous.ends import EndError, report_end
from rendezvous.notify.notifiers import build_signal_notifier
from rendezvous.parts import Parts, await_first, build_agent, build_notifiers, build_observer
from rendezvous.process.children import Children
from rendezvous.process.ending import EndingError, choose_ending
from rendezvous.process.sidecar import run_sidecar
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
from rendezvous.settings.options import parse_options
from rendezvous.settings.unused_settings import list_misspelt, list_named_roles
from rendezvous.volume.install import find_directory, install
from rendezvous.volume.writer import Writer
from rendezvous.wrapping import WrappedRun


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

    def _fail(self, end: EndError) -> int:
        return report_end(end, self._reporter, self._env)

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
        parts = Parts(setup, self._env, access, writer, Children(self._clock))
        if self._arguments.command == RENDER:
            return self._render(parts)
        if self._arguments.command == WATCH:
            return self._watch(parts)
        return WrappedRun(self._arguments.argv, parts).run()

    def _run_remotely(self, directory: str) -> int:
        from rendezvous.rsh.program import run_client

        arguments, env = self._arguments, self._env
        options = parse_options(env, {"directory": directory, **arguments.flags})
        return run_client(arguments.host, arguments.argv, env, options, self._clock)

    def _render(self, parts: Parts) -> int:
        observer = build_observer(parts)
        await_first(Agent(parts.setup, observer, parts.writer), observer, parts.setup)
        observer.close()
        return ExitCode.PASSED.value

    def _watch(self, parts: Parts) -> int:
        setup = parts.setup
        options, reporter, clock = setup.options, setup.reporter, setup.clock
        ending = choose_ending(options, setup.target, parts.access, clock)
        notifiers = build_notifiers(parts)
        if options.signal:
            if not options.process:
                raise RefusedError(
                    "FB_NOTIFY_SIGNAL needs FB_NOTIFY_PROCESS, the name of the program to signal"
                )
            notifiers.append(
                build_signal_notifier(options.signal, options.process, reporter, clock)
            )
        agent = build_agent(parts)[0]
        agent.notifiers = notifiers
        reporter.say(f"sidecar; its way to end (FB_SIDECAR_END): {ending.name}")
        run_sidecar(agent, ending, reporter, clock)
        reporter.say(ending.farewell)
        return ExitCode.PASSED.value

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

"""The program of the barrier: connects settings, sources, wait and release; gives the exit code.

Start-up time and memory are limited by tests, so a module that a passing barrier does not need is
imported where it is used.
"""

import gc
import os
import signal
import sys
from collections.abc import Mapping
from typing import NoReturn

from barrier.config import Config, ConfigError, load_config
from barrier.decision import Fail
from barrier.release import ReleaseError, prepare_injector, release
from barrier.report import (
    Reporter,
    add_readiness,
    build_termination_fields,
    describe_failure,
)
from barrier.waiting import Waiting
from framework.agent.access import AccessError
from framework.agent.clock import AgentClock
from framework.agent.discovery import load_access_unless_dns
from framework.agent.exitcodes import ExitCode
from framework.agent.files import PreparedFile
from framework.agent.gang_observer import Sources, open_sources
from framework.agent.signals import (
    SIGNAL_EXIT_BASE,
    SignalledError,
    ignore_signals,
    raise_on_signals,
)
from framework.agent.termination import write_termination_message
from framework.api import constants
from framework.api.gangreadiness import GangReadiness
from framework.api.roster import Roster
from framework.version import VERSION

_USAGE = """\
usage: framework-barrier [--help | --version]

Holds its Pod until the gang of this attempt is complete, then writes injector.sh and
framework.json. All settings are environment variables:

  FC_*                        set by the controller in every container of its Pods
  BARRIER_CHECK_INTERVAL_SEC  seconds between status lines (10, at least 5)
  BARRIER_CHECK_TIMEOUT_SEC   seconds to wait for the gang (600, from 60 to 1200)
  BARRIER_QUORUM_GRACE_SEC    seconds to wait for the other Tasks of a gang with a quorum (30)
  BARRIER_REQUIRE             required levels of roles: worker=running,ps=tcp:2222 (address, dns,
                              running, all-running, tcp:PORT)
  BARRIER_EXPECT              ps=1,worker=4: the gang, if DNS is the only source
  BARRIER_DNS_NAME            a Pod's DNS name ({framework}-{role}-{index}.{framework})
  BARRIER_FRAMEWORK_JSON      auto (up to 100 Tasks), on, off
  BARRIER_WORKING_DIR         where the files go (/mnt/frameworkbarrier)
  BARRIER_LOG                 text or json
  KUBE_APISERVER_ADDRESS, KUBECONFIG  outside a Pod

exit codes: 0 passed; 201 gang not complete in time; 210 permanent (bad settings, missing rights,
no such Framework); 1 anything else; 2 usage; 128 + N ended by signal N.
"""
_USAGE_EXIT = 2
_GARBAGE_THRESHOLD = 100_000


class Run:
    """One run of the barrier, from its settings to its exit code."""

    def __init__(self, env: Mapping[str, str], clock: AgentClock) -> None:
        """Start the measurement of the waited time."""
        self._env = env
        self._clock = clock
        self._started_at = clock.monotonic()
        self._reporter = Reporter(self._started_at, 10.0, is_json=False)
        self._sources: Sources | None = None
        self._termination_log = env.get(constants.TERMINATION_LOG_ENV) or constants.TERMINATION_LOG

    def run(self) -> int:
        """Run until the barrier passes or fails; return the exit code.

        Raises:
            SignalledError: A signal arrived; call ``end_by_signal``.
        """
        try:
            passed = self._prepare_and_wait()
        except ConfigError as e:
            for fault in e.faults:
                self._reporter.say(fault, "error")
            return self._fail(Fail(ExitCode.PERMANENT, "BadConfig", "; ".join(e.faults)), said=True)
        except AccessError as e:
            return self._fail(Fail(ExitCode.UNKNOWN, "NoAccess", str(e)))
        except ReleaseError as e:
            return self._fail(e.fail)
        return self._fail(passed) if isinstance(passed, Fail) else self._succeed(passed)

    def end_by_signal(self, number: int) -> int:
        """Report the signal in log and termination message; return the exit code."""
        name = signal.Signals(number).name
        self._reporter.say(f"ended by {name}", "error")
        waited = self._clock.monotonic() - self._started_at
        code = SIGNAL_EXIT_BASE + number
        fields = build_termination_fields(code, name, f"ended by {name}", waited, 0)
        write_termination_message(self._termination_log, fields)
        return code

    def close(self) -> None:
        """Close the connections. The program does not call it: its exit closes them faster."""
        if self._sources is not None:
            self._sources.close()

    def _prepare_and_wait(self) -> Roster | Fail:
        config = load_config(self._env)
        self._reporter = Reporter(
            self._started_at, config.interval_seconds, is_json=config.is_json_log
        )
        injector_file = prepare_injector(config.working_dir)
        try:
            return self._wait_and_release(config, injector_file)
        finally:
            injector_file.discard()

    def _wait_and_release(self, config: Config, injector_file: PreparedFile) -> Roster | Fail:
        self._report_start(config)
        access = load_access_unless_dns(self._env, may_use_dns=config.expected is not None)
        if access is None:
            self._reporter.say("no token for the API server, so DNS is the only source")
        is_attempt_aware = config.identity is not None
        sources = open_sources(access, self._clock, config.gang, is_attempt_aware=is_attempt_aware)
        self._sources = sources
        decision = Waiting(config, self._clock, sources, self._reporter).wait()
        if isinstance(decision, Fail):
            return decision
        release(config, self._clock, sources.frameworks, decision, self._reporter, injector_file)
        return decision.roster

    def _report_start(self, config: Config) -> None:
        framework = f"Framework {config.namespace}/{config.framework}"
        identity = config.identity
        if identity is not None:
            task = f"{identity.role}/{identity.task_index}"
            self._reporter.say(f"{task} waits for {framework} attempt {identity.instance_uid}")
            return
        self._reporter.say(f"waiting for {framework}")
        self._reporter.say(
            f"${', $'.join(config.missing_identity)} not set: the attempt of this Pod is unknown, "
            "so all addresses in the Framework's status count, also those of an earlier attempt",
            "warning",
        )

    def _succeed(self, roster: Roster) -> int:
        waited = self._clock.monotonic() - self._started_at
        generation = f"generation {roster.generation}, " if roster.generation else ""
        message = f"passed: {roster.ready}/{roster.wanted} Tasks, {generation}waited {waited:.1f} s"
        self._reporter.say(message)
        fields = build_termination_fields(
            ExitCode.PASSED.value, "Passed", message, waited, roster.generation
        )
        readiness = GangReadiness(roster.ready, roster.wanted, ())
        write_termination_message(self._termination_log, add_readiness(fields, readiness))
        return ExitCode.PASSED.value

    def _fail(self, fail: Fail, *, said: bool = False) -> int:
        if not said:
            self._reporter.say(describe_failure(fail), "error")
        self._reporter.say(fail.exit_code.describe(), "error")
        waited = self._clock.monotonic() - self._started_at
        fields = build_termination_fields(
            fail.exit_code.value, fail.reason, fail.message, waited, 0
        )
        write_termination_message(self._termination_log, add_readiness(fields, fail.readiness))
        return fail.exit_code.value


def run(arguments: list[str], barrier: Run) -> int:
    """Run the program; return its exit code."""
    if arguments in (["--help"], ["-h"]):
        sys.stdout.write(_USAGE)
        return 0
    if arguments == ["--version"]:
        sys.stdout.write(VERSION + "\n")
        return 0
    if arguments:
        sys.stderr.write(f"barrier: unknown argument {arguments[0]!r}\n{_USAGE}")
        return _USAGE_EXIT
    try:
        raise_on_signals()
        code = barrier.run()
        ignore_signals()  # the exit code must agree with the termination message
    except SignalledError as e:
        return barrier.end_by_signal(e.number)
    return code


def main() -> NoReturn:
    """Run as a program."""
    # The process is short and creates no reference cycles; a collection would delay the release.
    gc.set_threshold(_GARBAGE_THRESHOLD)
    # The variable keeps the connections open until the exit, which closes them faster.
    barrier = Run(os.environ, AgentClock())
    code = run(sys.argv[1:], barrier)
    sys.stdout.flush()
    # Skip the shutdown of the interpreter: the barriers of a gang end at the same time.
    os._exit(code)

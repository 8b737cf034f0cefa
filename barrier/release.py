"""Writes framework.json and injector.sh after the barrier has passed.

``injector`` and ``framework_json`` render the contents. Rules: docs/design/agents.md, "Release".
"""

import os
from typing import Any, Protocol

from barrier.config import AUTO_FRAMEWORK_JSON_TASKS, Config, FrameworkJson
from barrier.decision import Fail, Pass
from barrier.framework_json import FRAMEWORK_JSON_MODE, render_framework_json
from barrier.injector import INJECTOR_MODE, LIST_MODE, InjectorError, render_injector
from barrier.report import Reporter
from framework.agent.clock import AgentClock
from framework.agent.exitcodes import ExitCode
from framework.agent.files import PreparedFile, write_atomically
from framework.agent.framework_roster import FrameworkView
from framework.agent.gang import SOURCE_CONFIGMAP, SOURCE_DNS, SOURCE_FRAMEWORK
from framework.agent.health import Health, SourceState
from framework.api import constants
from framework.api.roster import Roster

# The barriers of a gang pass at the same time; their reads are spread over this time per Task.
_JITTER_SECONDS_PER_TASK = 0.0002
_JITTER_MAX_SECONDS = 5.0
_GIVE_UP_SECONDS = 30.0
_RETRY_SECONDS = 0.5


class Frameworks(Protocol):
    """The part of ``framework.agent.sources.FrameworkSource`` that the release uses."""

    framework: dict[str, Any] | None
    view: FrameworkView | None
    state: SourceState
    retry_after_seconds: float

    def prepare(self) -> None:
        """Connect for the next read."""
        ...

    def read(self, *, is_cached: bool = True) -> None:
        """Read it once."""
        ...

    def close(self) -> None:
        """Close all connections."""
        ...


class ReleaseError(Exception):
    """The barrier has passed, but a file cannot be written."""

    def __init__(self, fail: Fail) -> None:
        super().__init__(fail.message)
        self.fail = fail


def prepare_injector(directory: str) -> PreparedFile:
    """Create the directory if it is missing, and the temporary file of injector.sh.

    This is done before the wait, so that a volume that is not writable is detected at the start.

    Raises:
        ReleaseError: The directory or the file cannot be created.
    """
    try:
        os.makedirs(directory, exist_ok=True)
        return PreparedFile(os.path.join(directory, constants.INJECTOR_FILE), INJECTOR_MODE)
    except OSError as e:
        raise _cannot_write(directory, e) from e


def wants_framework_json(config: Config, tasks: int, *, is_published: bool) -> bool:
    """Return whether to write framework.json.

    AUTO omits it for a large gang, where a read of the Framework by every Pod is expensive. Without
    a published roster, AUTO writes it: the barrier has read the Framework already.
    """
    if config.framework_json is not FrameworkJson.AUTO:
        return config.framework_json is FrameworkJson.ON
    return not is_published or tasks <= AUTO_FRAMEWORK_JSON_TASKS


def release(
    config: Config,
    clock: AgentClock,
    frameworks: Frameworks | None,
    passed: Pass,
    reporter: Reporter,
    injector_file: PreparedFile,
) -> None:
    """Write the files for a complete gang; injector.sh is last, as in the original.

    Raises:
        ReleaseError: A file cannot be rendered or written.
    """
    try:
        injector = render_injector(passed.roster, config.working_dir.rstrip("/"))
    except InjectorError as e:
        raise ReleaseError(Fail(ExitCode.UNKNOWN, "BadRoster", str(e))) from e
    framework = _get_framework(config, clock, frameworks, passed, reporter)
    if framework is not None:
        content = render_framework_json(framework)
        _write(config.working_dir, constants.FRAMEWORK_JSON_FILE, content, FRAMEWORK_JSON_MODE)
    for name, content in injector.lists.items():
        _write(config.working_dir, name, content, LIST_MODE)
        reporter.say(f"{name} is too long to export: ${name}_FILE names a file with the list")
    _fill_injector(config.working_dir, injector_file, injector.script)


def _get_framework(
    config: Config,
    clock: AgentClock,
    frameworks: Frameworks | None,
    passed: Pass,
    reporter: Reporter,
) -> dict[str, Any] | None:
    """Get the Framework for framework.json; None if the file is not written, with a log line."""
    is_published = passed.source == SOURCE_CONFIGMAP
    is_auto = config.framework_json is FrameworkJson.AUTO
    if not wants_framework_json(config, passed.roster.wanted, is_published=is_published):
        if is_auto:
            reporter.say(
                f"framework.json is not written for more than {AUTO_FRAMEWORK_JSON_TASKS} Tasks; "
                f"${constants.BARRIER_FRAMEWORK_JSON_ENV}=on requires it"
            )
        return None
    if passed.source == SOURCE_DNS and (is_auto or frameworks is None):
        message = "framework.json is not written: DNS is the only source"
        if not is_auto:
            raise ReleaseError(Fail(ExitCode.PERMANENT, "NoAccess", message))
        reporter.say(message)
        return None
    if frameworks is None or passed.source == SOURCE_FRAMEWORK:
        # The barrier passed with this object.
        return None if frameworks is None else frameworks.framework
    return _fetch_framework(config, clock, frameworks, passed.roster, reporter)


def _fetch_framework(
    config: Config, clock: AgentClock, frameworks: Frameworks, roster: Roster, reporter: Reporter
) -> dict[str, Any] | None:
    """Fetch a Framework at least as new as the roster; None if that is denied."""
    spread = min(roster.wanted * _JITTER_SECONDS_PER_TASK, _JITTER_MAX_SECONDS)
    clock.sleep(clock.uniform(0.0, spread))
    ends_at = clock.monotonic() + _GIVE_UP_SECONDS
    is_cached = True
    while True:
        frameworks.read(is_cached=is_cached)
        state = frameworks.state
        if state.health is Health.HEALTHY and frameworks.view is not None:
            # The object from etcd is used as it is: a peer may have left since the decision.
            if not is_cached:
                return _check_attempt(frameworks, roster)
            if _is_recent(frameworks.view.roster, roster):
                return frameworks.framework
        is_denied = state.health in {Health.FORBIDDEN, Health.UNAUTHORIZED}
        if is_denied and config.framework_json is FrameworkJson.AUTO:
            reporter.say(f"framework.json is not written: {state.message}", "warning")
            return None
        if clock.monotonic() >= ends_at:
            raise ReleaseError(_explain(state))
        if state.health is Health.HEALTHY:
            is_cached = False  # the cache of the server is older than the roster
        else:
            pause = clock.uniform(_RETRY_SECONDS / 2, _RETRY_SECONDS)
            clock.sleep(pause + frameworks.retry_after_seconds)


def _check_attempt(frameworks: Frameworks, roster: Roster) -> dict[str, Any] | None:
    view = frameworks.view
    seen = "" if view is None else view.roster.instance_uid
    if roster.instance_uid and seen != roster.instance_uid:
        message = f"attempt {roster.instance_uid} ended while the barrier passed"
        raise ReleaseError(Fail(ExitCode.UNKNOWN, "OtherAttempt", message))
    return frameworks.framework


def _is_recent(seen: Roster, roster: Roster) -> bool:
    """Return whether the Framework read is at least as new as the roster."""
    if seen.instance_uid != roster.instance_uid:
        return False
    for role in roster.roles:
        known = seen.find_role(role.name)
        attempts = {m.index: m.attempt_id for m in known.members} if known else {}
        if any(attempts.get(m.index, -1) < m.attempt_id for m in role.members):
            return False
    return True


def _explain(state: SourceState) -> Fail:
    message = f"framework.json cannot be written: {state.health.value}: {state.message}"
    if state.health in {Health.FORBIDDEN, Health.NOT_FOUND}:
        return Fail(ExitCode.PERMANENT, state.health.reason, message)
    return Fail(ExitCode.UNKNOWN, state.health.reason, message)


def _fill_injector(directory: str, file: PreparedFile, script: bytes) -> None:
    try:
        file.fill(script)
    except FileNotFoundError:
        # The temporary file was deleted during the wait.
        _write(directory, constants.INJECTOR_FILE, script, INJECTOR_MODE)
    except OSError as e:
        raise _cannot_write(directory, e) from e


def _write(directory: str, name: str, content: bytes, mode: int) -> None:
    try:
        write_atomically(os.path.join(directory, name), content, mode)
    except OSError as e:
        raise _cannot_write(directory, e) from e


def _cannot_write(directory: str, error: OSError) -> ReleaseError:
    message = (
        f"cannot write into {directory}: {error.strerror or error}; mount a writable volume there "
        "(an emptyDir named frameworkbarrier-volume), or set "
        f"${constants.WORKING_DIR_ENV} to where it is mounted"
    )
    return ReleaseError(Fail(ExitCode.UNKNOWN, "NotWritable", message))

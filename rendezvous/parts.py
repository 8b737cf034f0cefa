"""Builds and connects the parts of an agent, for the commands ``render``, ``watch`` and ``run``."""

from typing import Callable, List, Mapping, NamedTuple, Optional, Tuple

from framework.agent.access import Access
from framework.agent.addresses import join_port
from framework.agent.dns_source import read_expected
from framework.agent.exitcodes import ExitCode
from rendezvous.agent import Agent, Setup
from rendezvous.core.refusal import RefusedError
from rendezvous.ends import EndError
from rendezvous.notify.acknowledge import Acknowledger
from rendezvous.notify.notifiers import Notifier, build_command_notifier, build_post_notifier
from rendezvous.observer import AttemptObserver
from rendezvous.process.children import Children
from rendezvous.process.scaler import Scaler
from rendezvous.volume.writer import Writer


class Parts(NamedTuple):
    """The parts with which a command starts."""

    setup: Setup
    """The settings, the gang and the own Pod."""
    env: Mapping[str, str]
    """The environment of the program."""
    access: Access
    """The access to the API server."""
    writer: Writer
    """Writes into the volume."""
    children: Children
    """Starts the child processes."""


def build_observer(parts: Parts) -> AttemptObserver:
    """Build the observer of the gang."""
    setup = parts.setup
    return AttemptObserver(parts.access, setup.clock, setup.target, read_expected(parts.env))


def build_agent(
    parts: Parts, end_command: Callable[[], None] = lambda: None
) -> Tuple[Agent, AttemptObserver]:
    """Build an agent without notifiers, and its observer."""
    setup = parts.setup
    acknowledger = None
    if setup.options.acknowledge:
        acknowledger = Acknowledger(parts.access, setup.clock, setup.target, setup.reporter)
    scaler = _build_scaler(parts, acknowledger)
    observer = build_observer(parts)
    agent = Agent(
        setup, observer, parts.writer, acknowledger, end_command=end_command, scaler=scaler
    )
    return agent, observer


def _build_scaler(parts: Parts, acknowledger: Optional[Acknowledger]) -> Optional[Scaler]:
    setup = parts.setup
    if not setup.options.scalers:
        return None
    if acknowledger is None:
        raise RefusedError("FB_SCALERS=run reports results and needs FB_ACKNOWLEDGE=auto")
    return Scaler(
        setup.target.framework,
        parts.children,
        parts.writer.records,
        acknowledger.report_scaler,
        setup.reporter,
        setup.clock,
        setup.options.slots,
    )


def build_notifiers(parts: Parts) -> List[Notifier]:
    """Build the notifiers that the settings want, without signals."""
    options, reporter = parts.setup.options, parts.setup.reporter
    notifiers: List[Notifier] = []
    if options.command:
        seconds = options.command_timeout_seconds
        notifiers.append(build_command_notifier(options.command, seconds, parts.children, reporter))
    if options.url:
        notifiers.append(build_post_notifier(options.url, reporter))
    if options.listen is not None:
        notifiers.append(_serve_polls(options.listen, parts))
    return notifiers


def _serve_polls(address: Tuple[str, int], parts: Parts) -> Notifier:
    from rendezvous.notify.longpoll import Changes, Key, serve
    from rendezvous.site.peers import GangKeyError, read_gang_key

    attempt = parts.setup.target.identity.instance_uid
    try:
        secret = read_gang_key(attempt, parts.env)
    except GangKeyError as e:
        raise RefusedError(str(e)) from e
    changes = Changes(parts.writer.records.read_notified().generation)
    host, port = address
    try:
        port = serve(address, changes, Key(secret, attempt) if secret else None)
    except OSError as e:
        where = join_port(host, port)
        text = f"FB_LISTEN: cannot listen on {where}: {e}; choose another port"
        raise EndError(ExitCode.UNKNOWN, "PortTaken", text) from e
    how = "" if secret else ", not authenticated, because no gang key is mounted"
    parts.setup.reporter.say(f"long-polls: http://{join_port(host, port)}/changes{how}")
    return changes


def await_first(agent: Agent, observer: AttemptObserver, setup: Setup) -> None:
    """Wait until a generation is current.

    Raises:
        EndError: None can come, or none has come in time.
    """
    started_at, timeout_seconds = setup.clock.monotonic(), setup.options.timeout_seconds
    while True:
        agent.turn()
        if agent.generation:
            return
        if agent.refusal is not None:
            raise EndError(ExitCode.PERMANENT, "Refused", str(agent.refusal))
        fault = observer.find_permanent_fault()
        if fault:
            raise EndError(ExitCode.PERMANENT, "NoSource", fault)
        if 0 < timeout_seconds <= setup.clock.monotonic() - started_at:
            is_answered = observer.is_answered()
            raise EndError(
                ExitCode.TRANSIENT_CONFLICT if is_answered else ExitCode.UNKNOWN,
                "GangIncomplete" if is_answered else "NoAnswer",
                f"no complete generation in {timeout_seconds:g} s: {agent.last_wait}",
            )

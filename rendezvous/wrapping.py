"""The command ``run``: an agent in a thread of its own, and the training command.

1. Prepare the agent, the notifiers and the endpoint of remote commands.
2. In the thread: wait for the first generation, open the endpoint, and start the search for hangs
   and the recovery, if the settings and the roster want them. A fault ends the program.
3. Start the command. If it restarts in place, the recovery starts it.
4. Show generations and notify until the command has ended (``process.wrapper``).
5. Close the endpoint, report the last steps, and exit with the code of the command.
"""

from typing import Callable, List, NamedTuple, Optional, Tuple

from framework.agent.exitcodes import ExitCode
from rendezvous.core.refusal import RefusedError
from rendezvous.ends import EndError, report_end, write_end
from rendezvous.parts import Parts, await_first, build_agent, build_notifiers
from rendezvous.process.ending import Ending
from rendezvous.process.sidecar import run_sidecar
from rendezvous.process.wrapper import Wrapper
from rendezvous.recovery.recovery import Recovery
from rendezvous.recovery.setup import start_recovery

UNPUBLISHED = (
    "recovery.inPlace has no effect: a process that fails or hangs ends its Pod. Epochs are in the "
    "roster in the attempt's ConfigMap, but this gang is read from the Framework. Let agents watch "
    "the ConfigMap (deploy/agents), and run the gang with the controller of frameworkbarrier"
)


class _HangSearch(NamedTuple):
    """Calls to the part that finds hangs and reports progress. The defaults do nothing."""

    get_verdict: Callable[[], str] = str
    """Returns the last hang that was found, as a message; "" if there was none."""
    finish: Callable[[], object] = str
    """Reports the last steps."""


class WrappedRun:
    """One run of a training command."""

    def __init__(self, argv: List[str], parts: Parts) -> None:
        """Run ``argv``.

        Raises:
            RefusedError, EndError: A setting cannot be used.
        """
        self._parts = parts
        self._wrapper = Wrapper(argv, parts.setup, parts.children)
        others = build_notifiers(parts)
        self._notifiers = [self._wrapper.expect_departure, *others, self._wrapper.notify]
        self._agent, self._observer = build_agent(parts, self._wrapper.stop)
        self._open_endpoint, self._close_endpoint = _prepare_endpoint(parts)
        self._search = _HangSearch()

    def run(self) -> int:
        """Run the command; return the exit code."""
        code = self._wrapper.run(self._run_agent)
        self._close_endpoint()
        if code == ExitCode.PASSED:
            self._search.finish()
        verdict = self._search.get_verdict()
        if code == ExitCode.HUNG and verdict:
            end = EndError(ExitCode.HUNG, "Hung", verdict)
            write_end(end, self._parts.setup.reporter, self._parts.env)
        return code

    def _run_agent(self) -> None:
        setup = self._parts.setup
        try:
            recovery = self._start_agent()
        except Exception as e:  # noqa: BLE001  (a thread's fault would be lost)
            self._wrapper.give_up(report_end(_find_end(e), setup.reporter, self._parts.env))
            return
        if recovery is None:
            if self._observer.restarts_unpublished():
                setup.reporter.say(UNPUBLISHED, "warning")
            self._wrapper.start(self._agent.env)
        self._agent.notifiers = self._notifiers
        # It runs until the program ends.
        run_sidecar(self._agent, Ending(), setup.reporter, setup.clock)

    def _start_agent(self) -> Optional[Recovery]:
        """Wait for the first generation, and start all that the command needs."""
        parts = self._parts
        await_first(self._agent, self._observer, parts.setup)
        self._open_endpoint()
        start_search = self._prepare_search()
        recovery = start_recovery(parts.setup, parts.env, parts.access, self._agent, self._wrapper)
        self._search = start_search(recovery)
        return recovery

    def _prepare_search(self) -> Callable[[Optional[Recovery]], _HangSearch]:
        """Prepare the search for hangs and the report of progress; return their start."""
        parts = self._parts
        setup = parts.setup
        if not setup.options.progress_seconds and setup.options.progress_status != "on":
            return lambda _: _HangSearch()
        from rendezvous.progress import hangsetup  # loads hashlib, sockets and selectors

        pages = hangsetup.prepare_pages(setup, parts.env, self._agent, self._wrapper)
        if pages is None:
            return lambda _: _HangSearch()

        def start(recovery: Optional[Recovery]) -> _HangSearch:
            watcher = hangsetup.start_watcher(setup, parts.access, pages, self._wrapper, recovery)
            return _HangSearch(lambda: watcher.verdict, watcher.finish)

        return start


def _find_end(fault: Exception) -> EndError:
    """Find the end of the program for a fault of the agent's thread."""
    if isinstance(fault, EndError):
        return fault
    if isinstance(fault, RefusedError):
        return EndError(ExitCode.PERMANENT, "BadSettings", str(fault))
    return EndError(ExitCode.UNKNOWN, "Fault", f"{type(fault).__name__}: {fault}")


def _prepare_endpoint(parts: Parts) -> Tuple[Callable[[], None], Callable[[], None]]:
    """Prepare the endpoint of remote commands; return how to open and close it."""
    if parts.setup.options.rsh == "off":
        return _do_nothing, _do_nothing
    from rendezvous.rsh.program import PreparedEndpoint  # loads ssl, 2 MB

    endpoint = PreparedEndpoint(parts.setup, parts.env, parts.children)

    def open_endpoint() -> None:
        try:
            endpoint.open()
        except OSError as e:
            text = f"FB_RSH_SERVER_PORT: cannot serve remote commands: {e}; choose another port"
            raise EndError(ExitCode.UNKNOWN, "PortTaken", text) from e

    return open_endpoint, endpoint.close


def _do_nothing() -> None:
    """No remote commands are wanted."""

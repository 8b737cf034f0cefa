"""Waits for the end of a run, and stops its Frameworks on a signal or after the timeout."""

from dataclasses import replace

from cli.exitcodes import ExitCode
from cli.running.conclusion import STOP_CAUSES, RunEnd
from cli.running.display import Display
from cli.running.follow import Follower
from cli.running.followers import FollowedFrameworks
from cli.running.outage import GIVE_UP_SECONDS
from cli.running.progressloop import ProgressLoop
from cli.texts.diagnostics import strip_noise
from cli.waiting import Interrupt, wait_any
from framework.api.types import ExecutionType
from framework.clock import Clock
from framework.kube.client import KubeClient
from framework.kube.errors import KubeError, NotFoundError
from framework.kube.resources import FRAMEWORKS, Object

_STOP_SECONDS = 60.0
_STOP_REQUEST_SECONDS = 10.0


class EndWaiter:
    """Waits for the end of one run."""

    def __init__(
        self,
        client: KubeClient,
        frameworks: FollowedFrameworks,
        progress: ProgressLoop,
        display: Display,
        clock: Clock,
    ) -> None:
        """Wait for nothing yet.

        Args:
            client: sends the stop.
            frameworks: the Frameworks of the run.
            progress: finds their end; it must run.
            display: prints messages.
            clock: for countdowns.
        """
        self._client = client
        self._frameworks = frameworks
        self._progress = progress
        self._display = display
        self._clock = clock

    async def wait(self, interrupt: Interrupt, timeout_seconds: float | None) -> RunEnd:
        """Wait until the Frameworks have ended, by themselves or because they were stopped.

        Args:
            interrupt: a signal of the user.
            timeout_seconds: until the stop; None for no limit.
        """
        end = await self._wait(interrupt, timeout_seconds)
        return replace(end, elapsed_seconds=self._frameworks.elapsed_seconds)

    async def _wait(self, interrupt: Interrupt, timeout_seconds: float | None) -> RunEnd:
        ended, lost = self._progress.ended, self._progress.lost
        await wait_any(ended, lost, interrupt.requested, timeout_seconds=timeout_seconds)
        if ended.is_set():
            return RunEnd()
        if lost.is_set():
            return RunEnd(self._give_up())
        if interrupt.requested.is_set():
            return await self._stop_all(interrupt.exit_code, STOP_CAUSES[interrupt.exit_code])
        return await self._stop_all(ExitCode.TIMEOUT, f"timeout of {timeout_seconds:g} s passed")

    async def _stop_all(self, cause: ExitCode, reason: str) -> RunEnd:
        self._display.say(
            f"{reason}: stopping the Frameworks and waiting for their Pods; "
            "Ctrl-C (again) leaves at once"
        )
        # With the time: unlike the lines in a pipe, the table at the end has room for it.
        before = tuple(self._frameworks.build_views(self._clock.now()))
        if not all([await self._stop(follower) for follower in self._frameworks.followers]):
            self._display.remark("ends at once: Frameworks that were not stopped continue to run")
            return RunEnd(ExitCode.UNREACHABLE, before)
        await self._wait_for_pods()
        return RunEnd(self._give_up() if self._progress.lost.is_set() else cause, before)

    async def _wait_for_pods(self) -> None:
        """Wait until the Pods have ended. Frameworks that no controller has seen have no Pods."""
        progress = self._progress
        events = (progress.ended, progress.lost, progress.uncontrolled)
        if not await wait_any(*events, timeout_seconds=_STOP_SECONDS):
            self._display.say(
                f"still not stopped after {_STOP_SECONDS:.0f} s: ends without waiting; the "
                "Frameworks stop when their controller runs"
            )
        elif not progress.ended.is_set() and not progress.lost.is_set():
            self._display.say(
                "no controller has seen the Frameworks, so there are no Pods to wait for; they "
                "stop when their controller runs"
            )

    async def _stop(self, follower: Follower) -> bool:
        """Stop a Framework; return whether the cluster accepted the request."""
        patch: Object = {"spec": {"executionType": ExecutionType.STOP.value}}
        try:
            await self._client.patch(
                FRAMEWORKS,
                follower.namespace,
                follower.name,
                patch,
                timeout_seconds=_STOP_REQUEST_SECONDS,
            )
        except NotFoundError:
            return True
        except KubeError as e:
            self._display.remark(
                f"warning: {follower.name} could not be stopped: {strip_noise(str(e))}"
            )
            return False
        return True

    def _give_up(self) -> ExitCode:
        self._display.remark(
            f"giving up: the API server is unreachable for {GIVE_UP_SECONDS:.0f} s "
            f"({self._progress.outage.last_error}); the Frameworks continue to run"
        )
        return ExitCode.UNREACHABLE

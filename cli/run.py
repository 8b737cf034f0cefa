"""``framework run``: apply, follow to the end, tell how it went.

Called by ``cli.main``. With --local, the cluster lives and ends with the command.
"""

import asyncio
import logging
import tempfile
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from cli.apply import apply_all
from cli.display import Display
from cli.exitcodes import ExitCode
from cli.failures import FailureLogs, KeptLogs
from cli.follow import Follower
from cli.manifests import Manifests, load_manifests
from cli.progress import GangView, build_view, list_culprits
from cli.session import explained, find_cluster, open_client
from cli.waiting import Interrupt, wait_any
from framework.api.types import ExecutionType
from framework.clock import SystemClock, SystemRandom
from framework.kube.client import KubeClient
from framework.kube.config import KubeConfig
from framework.kube.errors import KubeError, NotFoundError
from framework.kube.resources import FRAMEWORKS, Object

logger = logging.getLogger(__name__)

_TICK_SECONDS = 1.0
_STOP_SECONDS = 60.0
_SHOWN_FAILURES = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """What the user asked for."""

    files: tuple[str, ...]
    is_local: bool = False
    namespace: str | None = None
    kubeconfig: str | None = None
    timeout_seconds: float | None = None
    """Since the Frameworks were applied; None: as long as it takes."""
    replaces: bool = False
    directory: str | None = None
    isolation: str = "auto"


@dataclass(frozen=True, slots=True)
class _Target:
    """The cluster to run on."""

    config: KubeConfig
    logs_directory: Path | None = None
    """Where a local cluster leaves the logs."""
    kept_logs: KeptLogs | None = None


def run_frameworks(options: RunOptions) -> ExitCode:
    """Run ``framework run`` and return its exit code.

    Raises:
        CliError: nothing was run, or it could not be followed.
    """
    config = None if options.is_local else find_cluster(options.kubeconfig)
    manifests = load_manifests(
        options.files,
        namespace=options.namespace,
        default_namespace="default" if config is None else config.namespace,
    )
    try:
        return asyncio.run(_run(options, manifests, config))
    except asyncio.CancelledError:
        # The second Ctrl-C.
        return ExitCode.INTERRUPTED


async def _run(options: RunOptions, manifests: Manifests, config: KubeConfig | None) -> ExitCode:
    display = Display()
    for warning in manifests.warnings:
        display.say(f"warning: {warning}")
    interrupt = Interrupt()
    with interrupt.caught():
        async with _open_target(options, config) as target, open_client(target.config) as client:
            with explained(target.config):
                failure_logs = FailureLogs(client, target.kept_logs)
                run = _Run(client, failure_logs, display, interrupt, options)
                code = await run.follow(
                    await apply_all(client, manifests, replaces=options.replaces)
                )
    if target.logs_directory is not None:
        display.say(f"logs are kept in {target.logs_directory}; to read them:")
        for manifest in manifests.frameworks:
            display.say(f"  framework logs {manifest.name} --directory {target.logs_directory}")
    return code


@asynccontextmanager
async def _open_target(options: RunOptions, config: KubeConfig | None) -> AsyncIterator[_Target]:
    if config is not None:
        yield _Target(config)
        return
    # Loading a whole cluster takes its time: only for those who want one.
    from cli.local import open_local_cluster

    directory = Path(options.directory or tempfile.mkdtemp(prefix="framework-"))
    async with open_local_cluster(directory, isolation=options.isolation) as cluster:
        yield _Target(cluster.kube_config, cluster.directory, cluster.logs)


class _Run:
    """Frameworks that were applied, until their end."""

    def __init__(
        self,
        client: KubeClient,
        failure_logs: FailureLogs,
        display: Display,
        interrupt: Interrupt,
        options: RunOptions,
    ) -> None:
        self._client = client
        self._display = display
        self._interrupt = interrupt
        self._options = options
        self._clock = SystemClock()
        self._started = self._clock.monotonic()
        self._changed = asyncio.Event()
        self._done = asyncio.Event()
        self._followers: list[Follower] = []
        self._failure_logs = failure_logs

    @property
    def _elapsed_seconds(self) -> float:
        return self._clock.monotonic() - self._started

    async def follow(self, frameworks: Sequence[Object]) -> ExitCode:
        """Follow until all are Completed; stop them when asked to."""
        self._followers = [self._build_follower(framework) for framework in frameworks]
        async with asyncio.TaskGroup() as tasks:
            eternal = [tasks.create_task(self._failure_logs.run(), name="failure-logs")]
            for follower in self._followers:
                eternal += follower.start(tasks)
            with self._display:
                eternal.append(tasks.create_task(self._show(), name="display"))
                cause = await self._wait_for_end()
            for task in eternal:
                task.cancel()
        return self._conclude(cause)

    def _build_follower(self, framework: Object) -> Follower:
        return Follower(
            self._client,
            framework,
            clock=self._clock,
            random=SystemRandom(),
            on_change=self._changed.set,
            on_failed_pod=self._failure_logs.add,
        )

    async def _show(self) -> None:
        """Redraw at every change, and every second for what only time changes."""
        while True:
            self._changed.clear()
            views = self._build_views()
            alert = next((e for f in self._followers if (e := f.connection_error)), None)
            self._display.update(views, self._elapsed_seconds, alert)
            if all(
                view.is_completed or follower.is_gone
                for view, follower in zip(views, self._followers, strict=True)
            ):
                self._done.set()
            await wait_any(self._changed, timeout_seconds=_TICK_SECONDS)

    def _build_views(self) -> list[GangView]:
        now = self._clock.now()
        return [build_view(follower.build_world(), now) for follower in self._followers]

    async def _wait_for_end(self) -> ExitCode | None:
        """Wait; return None if the Frameworks ended by themselves, else why they were stopped."""
        in_time = await wait_any(
            self._done, self._interrupt.requested, timeout_seconds=self._options.timeout_seconds
        )
        if self._done.is_set():
            return None
        cause = self._interrupt.exit_code if in_time else ExitCode.TIMEOUT
        self._display.say(
            "stopping the Frameworks and waiting for their Pods; Ctrl-C again leaves at once"
        )
        for follower in self._followers:
            await self._stop(follower)
        if not await wait_any(self._done, timeout_seconds=_STOP_SECONDS):
            self._display.say(f"still not stopped after {_STOP_SECONDS:.0f} s; left to the cluster")
        return cause

    async def _stop(self, follower: Follower) -> None:
        patch: Object = {"spec": {"executionType": ExecutionType.STOP.value}}
        try:
            await self._client.patch(FRAMEWORKS, follower.namespace, follower.name, patch)
        except NotFoundError:
            return
        except KubeError as e:
            self._display.say(f"warning: {follower.name} could not be stopped: {e}")

    def _conclude(self, cause: ExitCode | None) -> ExitCode:
        views = self._build_views()
        self._display.show_table(views, self._elapsed_seconds)
        for view in views:
            self._show_failures(view)
        for view, follower in zip(views, self._followers, strict=True):
            if follower.is_gone and not view.is_completed:
                self._display.say(f"Framework {view.name} was deleted before it completed")
        if cause is not None:
            return cause
        is_success = all(view.is_succeeded for view in views)
        return ExitCode.SUCCEEDED if is_success else ExitCode.FAILED

    def _show_failures(self, view: GangView) -> None:
        """Print why Tasks failed; a failure that was tolerated needs no explanation."""
        if view.is_succeeded:
            return
        culprits = list_culprits(view)
        for line in culprits[:_SHOWN_FAILURES]:
            self._display.say(f"\n{view.name} {line.key}: {line.note or line.state}")
            self._display.say(f"  {line.diagnostics}")
            kept = self._failure_logs.get(view.name, line.key)
            if kept is not None:
                container, lines = kept
                self._display.say(f"  last lines of container {container}:")
                for text in lines:
                    self._display.say(f"    {text}")
        if len(culprits) > _SHOWN_FAILURES:
            self._display.say(f"\n{len(culprits) - _SHOWN_FAILURES} more Tasks failed")

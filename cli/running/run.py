"""``framework run``: apply Frameworks, follow them to their end, and report the result.

With --local, the cluster starts and ends with the command.
"""

import asyncio
import logging
import tempfile
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import zip_longest
from pathlib import Path

from cli.authoring.podfields import find_misspelt_fields
from cli.authoring.rules import find_refused_templates, find_unreachable_ends
from cli.clusterchoice import ClusterChoice
from cli.coloring import AUTO
from cli.dryrun import CLIENT, NO_DRY_RUN
from cli.exitcodes import CliError, ExitCode
from cli.invocation import build_command, build_export
from cli.local import requires_local_cluster
from cli.loglines.query import KeptLogs
from cli.manifests import Manifests, load_manifests
from cli.running.apply import apply_all
from cli.running.causes import describe_failures
from cli.running.display import Display
from cli.running.dryrun import show_answers, show_files
from cli.running.ending import keep_waits
from cli.running.failures import FailureLogs
from cli.running.follow import Follower
from cli.running.history import AttemptHistory
from cli.running.outage import GIVE_UP_SECONDS, Outage
from cli.running.runlogs import ALL_ENDED_SECONDS, FINISH_SECONDS, RunningLogs
from cli.running.viewbuilder import build_view
from cli.running.views import FrameworkObjects, GangView
from cli.session import explained, find_cluster, open_client
from cli.terminal import print_error
from cli.waiting import Interrupt, wait_any
from cli.words import strip_noise
from framework.api.constants import GPU_RESOURCE
from framework.api.types import ExecutionType
from framework.clock import SystemClock, SystemRandom
from framework.kube.client import KubeClient
from framework.kube.config import KubeConfig
from framework.kube.errors import KubeError, NotFoundError
from framework.kube.resources import FRAMEWORKS, Object

logger = logging.getLogger(__name__)

_TICK_SECONDS = 1.0
_SPINNER_SECONDS = 0.2
# The display rests for so many times the time it took, so that it uses a fifth of a processor.
_REST_FACTOR = 4.0
_MAX_REST_SECONDS = 2.0
# A Framework without a status is no fault for so long: a controller needs a moment.
_CONTROLLER_SECONDS = 5.0
_STOP_SECONDS = 60.0
_STOP_REQUEST_SECONDS = 10.0
_MAKE_CLUSTER = f"without a cluster, `{build_command('run', '--local', 'FILE')}` makes one"
# Names of the causes of a stop, as users know them.
_CAUSES = {
    ExitCode.TIMEOUT: "--timeout",
    ExitCode.INTERRUPTED: "Ctrl-C",
    ExitCode.TERMINATED: "SIGTERM",
    ExitCode.HUNG_UP: "SIGHUP",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """Options and arguments of the command."""

    files: tuple[str, ...]
    is_local: bool = False
    cluster: ClusterChoice = field(default_factory=ClusterChoice)
    timeout_seconds: float | None = None
    """Since the Frameworks were applied; None: as long as it takes."""
    replaces: bool = False
    dry_run: str = NO_DRY_RUN
    """``none``, ``client`` or ``server``."""
    directory: str | None = None
    isolation: str = "auto"
    network: str = "auto"
    gpus: int = 0
    """Of a local cluster."""
    shows_logs: bool = False
    """Whether the output of the containers is printed, too."""
    color: str = AUTO
    shows_all: bool = False
    """Whether each Task has lines of its own, also if Tasks are equal."""


@dataclass(frozen=True, slots=True)
class _Target:
    """The cluster to run on."""

    config: KubeConfig
    logs_directory: Path | None = None
    """Where a local cluster leaves the logs."""
    kept_logs: KeptLogs | None = None
    kubeconfig: Path | None = None
    """With which other programs reach a local cluster."""
    note: str = ""
    """Limits of a local cluster on this host; "" if there are none."""


def run_frameworks(options: RunOptions) -> ExitCode:
    """Run ``framework run`` and return its exit code.

    Raises:
        CliError: nothing was run, or it could not be followed.
    """
    config, manifests = _prepare(options)
    try:
        return asyncio.run(_run(options, manifests, config))
    except asyncio.CancelledError:
        # The second Ctrl-C.
        return ExitCode.INTERRUPTED


def dry_run_frameworks(options: RunOptions) -> None:
    """Run ``framework run --dry-run``: print what would be applied.

    Raises:
        CliError: a fault of the files, or the server refuses them.
    """
    config, manifests = _prepare(options)
    for warning in _list_warnings(options, manifests):
        print_error(f"warning: {warning}")
    if options.dry_run == CLIENT or config is None:
        show_files(manifests)
    else:
        asyncio.run(_ask_server(options, manifests, config))


async def _ask_server(options: RunOptions, manifests: Manifests, config: KubeConfig) -> None:
    async with open_client(config) as client:
        with explained(config, refused=ExitCode.USAGE):
            await show_answers(
                client, manifests, replaces=options.replaces, dry_run=options.dry_run
            )


def _prepare(options: RunOptions) -> tuple[KubeConfig | None, Manifests]:
    """Read the files; faults of the files are reported before those of the cluster."""
    config, fault = None, None
    if not options.is_local:
        try:
            config = find_cluster(options.cluster, otherwise=_MAKE_CLUSTER)
        except CliError as e:
            fault = e
    manifests = load_manifests(
        options.files,
        namespace=options.cluster.namespace,
        default_namespace="default" if config is None else config.namespace,
        is_local=options.is_local,
    )
    # Without a server, the files are all there is.
    if fault is not None and options.dry_run != CLIENT:
        raise fault
    _refuse_unstartable_templates(options, manifests)
    return config, manifests


def _refuse_unstartable_templates(options: RunOptions, manifests: Manifests) -> None:
    """Refuse Pod templates with which no Pod can ever start.

    Raises:
        CliError: with all of their faults.
    """
    faults = [
        (manifest, fault)
        for manifest in manifests.frameworks
        for fault in find_refused_templates(manifest.body)
    ]
    if options.is_local:
        with requires_local_cluster():
            from cli.local.rules import count_gpus, find_local_faults
        extended = {GPU_RESOURCE: options.gpus}
        together = sum(count_gpus(manifest.body) for manifest in manifests.frameworks)
        for manifest in manifests.frameworks:
            found = find_local_faults(manifest.body, extended, together)
            faults += [(manifest, fault) for fault in found]
    if faults:
        lines = [f"{m.source}: {f.path}: {f.message}; {f.fix}" for m, f in faults]
        raise CliError(ExitCode.USAGE, *lines)


def _warn_of_few_gpus(options: RunOptions, manifests: Manifests) -> str | None:
    from cli.local.rules import count_gpus, warn_of_few_gpus

    together = sum(count_gpus(manifest.body) for manifest in manifests.frameworks)
    return warn_of_few_gpus(options.gpus, together)


def _list_warnings(options: RunOptions, manifests: Manifests) -> Iterator[str]:
    yield from manifests.warnings
    for manifest in manifests.frameworks:
        body = manifest.body
        for fault in (*find_misspelt_fields(body), *find_unreachable_ends(body)):
            yield f"{manifest.source}: {fault.path}: {fault.message}; {fault.fix}"
    if options.is_local and (shortage := _warn_of_few_gpus(options, manifests)):
        yield shortage


async def _run(options: RunOptions, manifests: Manifests, config: KubeConfig | None) -> ExitCode:
    display = Display(color=options.color, folds=not options.shows_all)
    for warning in _list_warnings(options, manifests):
        display.say(f"warning: {warning}")
    interrupt = Interrupt(stops_on_hangup=options.is_local)
    with interrupt.caught():
        async with _open_target(options, config) as target, open_client(target.config) as client:
            _introduce(display, target)
            with explained(target.config, refused=ExitCode.USAGE):
                failure_logs = FailureLogs(client, target.kept_logs)
                logs = (
                    RunningLogs(client, target.kept_logs, display) if options.shows_logs else None
                )
                run = _Run(client, failure_logs, display, interrupt, options, logs)
                code = await run.follow(
                    await apply_all(client, manifests, replaces=options.replaces)
                )
    if target.logs_directory is not None:
        display.say(f"logs are kept in {target.logs_directory}; to read them:")
        directory = str(target.logs_directory)
        for manifest in manifests.frameworks:
            scope = [] if manifest.namespace in {None, "default"} else ["-n", manifest.namespace]
            command = build_command("logs", manifest.name, *scope, "--directory", directory)
            display.say(f"  {command}")
    return code


def _introduce(display: Display, target: _Target) -> None:
    """Print how to reach the local cluster from another shell."""
    if target.kubeconfig is not None:
        display.say(f"local cluster in {target.logs_directory}; to reach it from another shell:")
        display.say(f"  {build_export('KUBECONFIG', str(target.kubeconfig))}")
    if target.note:
        display.say(f"note: {target.note}")


@asynccontextmanager
async def _open_target(options: RunOptions, config: KubeConfig | None) -> AsyncIterator[_Target]:
    if config is not None:
        yield _Target(config)
        return
    with requires_local_cluster():
        from cli.local.cluster import UpOptions, open_local_cluster
        from cli.local.keptlogs import LocalLogs
        from cli.local.state import remember_run

    directory = Path(options.directory or tempfile.mkdtemp(prefix="framework-"))
    local = UpOptions(isolation=options.isolation, network=options.network, gpus=options.gpus)
    async with open_local_cluster(directory, options=local) as cluster:
        remember_run(cluster.directory)
        note = await cluster.ready()
        yield _Target(
            cluster.kube_config,
            cluster.directory,
            LocalLogs(cluster.logs),
            cluster.kubeconfig_path,
            note,
        )


class _Run:
    """Frameworks that were applied, until their end."""

    def __init__(
        self,
        client: KubeClient,
        failure_logs: FailureLogs,
        display: Display,
        interrupt: Interrupt,
        options: RunOptions,
        logs: RunningLogs | None = None,
    ) -> None:
        self._client = client
        self._logs = logs
        self._display = display
        self._interrupt = interrupt
        self._options = options
        self._clock = SystemClock()
        self._started = self._clock.monotonic()
        self._changed = asyncio.Event()
        self._done = asyncio.Event()
        self._lost = asyncio.Event()
        self._outage = Outage()
        self._before_stop: list[GangView] = []
        self._followers: list[Follower] = []
        self._histories: list[AttemptHistory] = []
        self._failure_logs = failure_logs

    @property
    def _elapsed_seconds(self) -> float:
        return self._clock.monotonic() - self._started

    async def follow(self, frameworks: Sequence[Object]) -> ExitCode:
        """Follow until all are Completed; stop them when asked to."""
        self._followers = [self._build_follower(framework) for framework in frameworks]
        self._histories = [AttemptHistory() for _ in frameworks]
        async with asyncio.TaskGroup() as tasks:
            eternal = [tasks.create_task(self._failure_logs.run(), name="failure-logs")]
            if self._logs is not None:
                eternal.append(tasks.create_task(self._logs.run(), name="logs"))
            for follower in self._followers:
                eternal += follower.start(tasks)
            with self._display:
                eternal.append(tasks.create_task(self._show(), name="display"))
                cause = await self._wait_for_end()
                await self._finish_logs()
            for task in eternal:
                task.cancel()
        return self._conclude(cause)

    async def _finish_logs(self) -> None:
        """Wait for the output of the containers, and for the last lines of those that failed."""
        has_ended = self._done.is_set()
        if self._logs is not None:
            await self._logs.finish(ALL_ENDED_SECONDS if has_ended else FINISH_SECONDS)
        if has_ended:
            await self._failure_logs.finish()

    def _build_follower(self, framework: Object) -> Follower:
        return Follower(
            self._client,
            framework,
            clock=self._clock,
            random=SystemRandom(),
            on_change=self._changed.set,
            on_failed_pod=self._failure_logs.add,
            on_pod=None if self._logs is None else self._logs.see,
        )

    async def _show(self) -> None:
        """Redraw at every change, and every second for durations."""
        while True:
            self._changed.clear()
            begun = self._clock.monotonic()
            views = self._show_changes()
            if self._outage.is_over_limit:
                self._lost.set()
            if all(
                view.is_completed or follower.is_gone
                for view, follower in zip(views, self._followers, strict=True)
            ):
                self._done.set()
            await self._rest(self._clock.monotonic() - begun)

    def _show_changes(self) -> list[GangView]:
        """Show every observed state since the last call; return the newest."""
        passed = [follower.take_passed() for follower in self._followers]
        for states in zip_longest(*passed):
            for objects, history in zip(states, self._histories, strict=True):
                if objects is not None:
                    self._show_passed(self._build_view(objects), history)
        views = self._build_views()
        error = next((e for f in self._followers if (e := f.connection_error)), None)
        alert = self._outage.observe(error, self._clock.monotonic())
        for view, history in zip(views, self._histories, strict=True):
            self._show_failed_attempts(view, history)
        self._display.update(views, self._elapsed_seconds, alert)
        return views

    def _show_passed(self, view: GangView, history: AttemptHistory) -> None:
        """Show a state that was replaced before it could be shown."""
        self._show_failed_attempts(view, history)
        self._display.show_passed(
            view, self._elapsed_seconds, names_framework=len(self._followers) > 1
        )

    async def _rest(self, cost_seconds: float) -> None:
        """Wait for a change, or for the time to update durations."""
        await asyncio.sleep(min(_REST_FACTOR * cost_seconds, _MAX_REST_SECONDS))
        deadline = self._clock.monotonic() + _TICK_SECONDS
        while (left := deadline - self._clock.monotonic()) > 0:
            pause = min(left, _SPINNER_SECONDS) if self._display.is_live else left
            if await wait_any(self._changed, timeout_seconds=pause):
                return
            self._display.turn_spinner()

    def _show_failed_attempts(self, view: GangView, history: AttemptHistory) -> None:
        """Print each failed attempt once: the live display forgets it with the next attempt."""
        for line in history.observe(view):
            if self._display.is_live and not view.is_completed:
                self._display.say_at(self._elapsed_seconds, line)

    def _build_views(self, now: datetime | None = None) -> list[GangView]:
        return [self._build_view(follower.collect_objects(), now) for follower in self._followers]

    def _build_view(self, objects: FrameworkObjects, now: datetime | None = None) -> GangView:
        # In a pipe, a count-down would be a line each second.
        if now is None and self._display.is_live:
            now = self._clock.now()
        is_patient = self._options.is_local or self._elapsed_seconds < _CONTROLLER_SECONDS
        return build_view(objects, now, expects_controller=is_patient)

    async def _wait_for_end(self) -> ExitCode | None:
        """Wait; return None if the Frameworks ended by themselves, else why they were stopped."""
        await wait_any(
            self._done,
            self._lost,
            self._interrupt.requested,
            timeout_seconds=self._options.timeout_seconds,
        )
        if self._done.is_set():
            return None
        if self._lost.is_set():
            return self._give_up()
        is_interrupted = self._interrupt.requested.is_set()
        cause = self._interrupt.exit_code if is_interrupted else ExitCode.TIMEOUT
        self._display.say(
            f"{self._explain_stop(cause)}: stopping the Frameworks and waiting for their Pods; "
            "Ctrl-C (again) leaves at once"
        )
        # With a clock: the table at the end has room for what changes all the time.
        self._before_stop = self._build_views(self._clock.now())
        if not all([await self._stop(follower) for follower in self._followers]):
            self._display.say("ends at once: Frameworks that were not stopped continue to run")
            return ExitCode.UNREACHABLE
        if not await wait_any(self._done, self._lost, timeout_seconds=_STOP_SECONDS):
            self._display.say(
                f"still not stopped after {_STOP_SECONDS:.0f} s: ends without waiting; the "
                "Frameworks stop when their controller runs"
            )
        return self._give_up() if self._lost.is_set() else cause

    def _explain_stop(self, cause: ExitCode) -> str:
        if cause is ExitCode.TIMEOUT:
            return f"timeout of {self._options.timeout_seconds:g} s passed"
        return _CAUSES[cause]

    def _give_up(self) -> ExitCode:
        self._display.say(
            f"giving up: the API server is unreachable for {GIVE_UP_SECONDS:.0f} s "
            f"({self._outage.last_error}); the Frameworks continue to run"
        )
        return ExitCode.UNREACHABLE

    async def _stop(self, follower: Follower) -> bool:
        """Stop a Framework; return whether the cluster accepted it."""
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
            self._display.say(
                f"warning: {follower.name} could not be stopped: {strip_noise(str(e))}"
            )
            return False
        return True

    def _conclude(self, cause: ExitCode | None) -> ExitCode:
        views = self._build_views()
        if self._before_stop and cause in _CAUSES:
            stopped = zip(self._before_stop, views, strict=True)
            views = [keep_waits(before, after, _CAUSES[cause]) for before, after in stopped]
        if cause is ExitCode.UNREACHABLE:
            views = [replace(v, note="as last seen") if not v.is_completed else v for v in views]
        histories = zip(views, self._histories, strict=True)
        annotated = [history.annotate(view) for view, history in histories]
        self._display.show_table(annotated, self._elapsed_seconds)
        for view in views:
            for line in describe_failures(view, self._failure_logs.get):
                self._display.say(line)
        for view, follower in zip(views, self._followers, strict=True):
            if follower.is_gone and not view.is_completed:
                self._display.say(f"Framework {view.name} was deleted before it completed")
        if cause is not None:
            return cause
        is_success = all(view.is_succeeded for view in views)
        return ExitCode.SUCCEEDED if is_success else ExitCode.FAILED

"""``framework run``: apply Frameworks, follow them to their end, and report the result.

1. ``preparation`` reads and checks the files; ``target`` opens the cluster, or starts a local one.
2. ``apply`` creates all objects, or none.
3. ``followers`` watches the Frameworks, ``progressloop`` shows them, and ``stopping`` waits for
   their end or stops them.
4. ``conclusion`` computes the last table and the exit code, which this module prints and returns.
"""

import asyncio
from collections.abc import Sequence

from cli.dryrun import CLIENT
from cli.exitcodes import ExitCode
from cli.files.manifests import Manifests
from cli.loglines.query import KeptLogs
from cli.running.apply import apply_all
from cli.running.causes import describe_failures, warn_of_tolerated_failures
from cli.running.conclusion import (
    RunEnd,
    choose_exit_code,
    choose_log_seconds,
    complete_views,
    describe_left_pods,
)
from cli.running.display import Display
from cli.running.dryrun import show_answers, show_files
from cli.running.failures import FailureLogs
from cli.running.follow import Follower, Listeners
from cli.running.followers import FollowedFrameworks
from cli.running.history import AttemptHistory
from cli.running.options import RunOptions
from cli.running.preparation import list_warnings, prepare
from cli.running.progressloop import ProgressLoop
from cli.running.runlogs import RunningLogs
from cli.running.stopping import EndWaiter
from cli.running.target import open_target
from cli.session import explained, open_client
from cli.terminal import print_error
from cli.waiting import Interrupt
from framework.clock import SystemClock, SystemRandom
from framework.kube.client import KubeClient
from framework.kube.config import KubeConfig
from framework.kube.resources import Object


def run_frameworks(options: RunOptions) -> ExitCode:
    """Run ``framework run`` and return its exit code.

    Raises:
        CliError: nothing was run, or it could not be followed.
    """
    config, manifests = prepare(options)
    try:
        return asyncio.run(_run(options, manifests, config))
    except asyncio.CancelledError:
        # The second Ctrl-C.
        return ExitCode.INTERRUPTED


def dry_run_frameworks(options: RunOptions) -> None:
    """Run ``framework run --dry-run``: print the objects that would be applied.

    Raises:
        CliError: the files have faults, or the server refuses them.
    """
    config, manifests = prepare(options)
    for warning in list_warnings(options, manifests):
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


async def _run(options: RunOptions, manifests: Manifests, config: KubeConfig | None) -> ExitCode:
    display = Display(color=options.color, folds=not options.shows_all)
    for warning in list_warnings(options, manifests):
        display.remark(f"warning: {warning}")
    interrupt = Interrupt(stops_on_hangup=options.is_local)
    with interrupt.caught():
        async with open_target(options, config) as target, open_client(target.config) as client:
            target.introduce(display)
            with explained(target.config, refused=ExitCode.USAGE):
                run = _Run(client, target.kept_logs, display, options)
                applied = await apply_all(
                    client,
                    manifests,
                    display.say,
                    display.remark,
                    replaces=options.replaces,
                )
                code = await run.follow(applied, interrupt)
    target.explain_kept_logs(display, manifests.frameworks)
    return code


class _Run:
    """Frameworks that were applied, until their end."""

    def __init__(
        self,
        client: KubeClient,
        kept_logs: KeptLogs | None,
        display: Display,
        options: RunOptions,
    ) -> None:
        self._client = client
        self._display = display
        self._options = options
        self._clock = SystemClock()
        self._started = self._clock.monotonic()
        self._failure_logs = FailureLogs(client, kept_logs)
        self._logs = RunningLogs(client, kept_logs, display) if options.shows_logs else None

    async def follow(self, applied: Sequence[Object], interrupt: Interrupt) -> ExitCode:
        """Follow until all are Completed; stop them when asked to."""
        changed = asyncio.Event()
        frameworks = FollowedFrameworks(
            [self._build_follower(framework, changed) for framework in applied],
            self._clock,
            self._started,
            is_local=self._options.is_local,
        )
        progress = ProgressLoop(frameworks, self._display, self._clock, changed)
        waiter = EndWaiter(self._client, frameworks, progress, self._display, self._clock)
        async with asyncio.TaskGroup() as tasks:
            eternal = [tasks.create_task(self._failure_logs.run(), name="failure-logs")]
            if self._logs is not None:
                eternal.append(tasks.create_task(self._logs.run(), name="logs"))
            eternal += frameworks.start(tasks)
            with self._display:
                eternal.append(tasks.create_task(progress.run(), name="display"))
                end = await waiter.wait(interrupt, self._options.timeout_seconds)
                await self._finish_logs(frameworks, has_ended=progress.ended.is_set())
            for task in eternal:
                task.cancel()
        return self._conclude(frameworks, progress.histories, end)

    def _build_follower(self, framework: Object, changed: asyncio.Event) -> Follower:
        listeners = Listeners(
            on_change=changed.set,
            on_failed_pod=self._failure_logs.add,
            on_pod=None if self._logs is None else self._logs.observe,
        )
        return Follower(
            self._client, framework, listeners, clock=self._clock, random=SystemRandom()
        )

    async def _finish_logs(self, frameworks: FollowedFrameworks, *, has_ended: bool) -> None:
        """Wait for the output of the containers, and for the last lines of those that failed."""
        if self._logs is not None:
            views = frameworks.build_views(None)
            await self._logs.finish(choose_log_seconds(views, has_ended=has_ended))
        if has_ended:
            await self._failure_logs.finish()

    def _conclude(
        self, frameworks: FollowedFrameworks, histories: Sequence[AttemptHistory], end: RunEnd
    ) -> ExitCode:
        """Print the result; return the exit code."""
        now = self._clock.now() if self._display.is_live else None
        views = complete_views(frameworks.build_views(now), end)
        annotated = [h.annotate(view) for view, h in zip(views, histories, strict=True)]
        self._display.show_table(annotated, end.elapsed_seconds)
        for view in views:
            if warning := warn_of_tolerated_failures(view):
                self._display.remark(warning)
            for line in describe_failures(view, self._failure_logs.get):
                self._display.say(line)
        if not self._options.is_local:
            for follower, view in zip(frameworks.followers, views, strict=True):
                if note := describe_left_pods(view, follower.namespace):
                    self._display.remark(note)
        for name in frameworks.list_deleted(views):
            self._display.say(f"Framework {name} was deleted before it completed")
        return choose_exit_code(views, end)

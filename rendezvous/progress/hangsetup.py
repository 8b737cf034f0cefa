"""Starts the search for hangs and the report of progress, if the settings want one of them.

Only ``run`` does so, for roles that compute, because only ``run`` owns the processes. Reports go to
the hub of ``peers.barrier``, so the agent serves this hub, and no process of the Pod does.
"""

import os
from functools import partial
from typing import Callable, Mapping, Optional, Tuple

from framework.agent.access import Access
from framework.agent.exitcodes import ExitCode
from framework.api import constants
from framework.api.roster import fingerprint_uid
from rendezvous.agent import Agent, Setup
from rendezvous.core.hangs.progress import StandstillLimits
from rendezvous.core.hangs.reports import NO_RUN
from rendezvous.core.refusal import RefusedError
from rendezvous.notify.acknowledge import NO_PROGRESS, Acknowledger
from rendezvous.process.outputtap import OutputTap, read_step
from rendezvous.process.wrapper import Wrapper
from rendezvous.progress.hangs import HangWatcher, Member
from rendezvous.progress.progresspages import ProgressPages
from rendezvous.progress.progressreport import ProgressReport
from rendezvous.recovery.recovery import Recovery
from rendezvous.settings.kinds import RANKED_KINDS, map_roles
from rendezvous.settings.options import Options
from rendezvous.settings.progresspattern import TextStep
from rendezvous.site.peers import GangKeyError, read_gang_key, roster
from rendezvous.site.peers.barriers.client import SERVED_BY_ENV, lock_hub

_NEVER = float("inf")


def prepare_pages(
    setup: Setup, env: Mapping[str, str], agent: Agent, wrapper: Wrapper
) -> Optional[ProgressPages]:
    """Prepare the pages before the first start of the command; None if they are not wanted.

    Raises:
        RefusedError: The gang key cannot be used, or the Pod may not be patched.
    """
    if setup.options.progress_status == "on" and not setup.options.acknowledge:
        raise RefusedError("FB_PROGRESS_STATUS=on patches the Pod and needs FB_ACKNOWLEDGE=auto")
    shown = agent.roster
    if shown is None:
        return None
    kinds = map_roles([role.name for role in shown.roles], setup.options.roles)
    if kinds.get(setup.target.identity.role) not in RANKED_KINDS:
        return None
    _reserve_hub(setup, env)
    read_text, text_setting = _choose_text(setup.options, wrapper)
    pages = ProgressPages(
        setup.options.directory,
        lambda: roster().rank,
        setup.reporter,
        setup.clock,
        read_text,
        text_setting,
    )
    pages.is_command_running = lambda: wrapper.is_running
    wrapper.hooks = wrapper.hooks._replace(before_start=pages.begin_command)
    return pages


def _reserve_hub(setup: Setup, env: Mapping[str, str]) -> None:
    """Check the gang key, and let no other process of the Pod serve the hub."""
    try:
        read_gang_key(setup.target.identity.instance_uid, env)
    except GangKeyError as e:
        setting = "TIMEOUT_SEC" if setup.options.progress_seconds else "STATUS"
        raise RefusedError(f"FB_PROGRESS_{setting}: {e}") from e
    # The package ``peers`` finds the volume by this variable.
    os.environ[constants.WORKING_DIR_ENV] = setup.options.directory
    # Processes of the command must serve no hub: it would take no reports.
    os.environ[SERVED_BY_ENV] = str(os.getpid())
    # The same for processes of other containers, until this process ends.
    lock_hub(setup.options.directory)


def _choose_text(
    options: Options, wrapper: Wrapper
) -> Tuple[Callable[[], Optional[TextStep]], str]:
    """Choose the source of the steps of processes without pages, and its setting; "" for none."""
    if options.progress_pattern is not None:
        tap = OutputTap(options.progress_pattern)
        wrapper.hooks = wrapper.hooks._replace(tap=tap)
        return tap.read, "FB_PROGRESS_PATTERN"
    path = options.progress_file
    return partial(read_step, path), f"FB_PROGRESS_FILE={path}" if path else ""


def start_watcher(
    setup: Setup,
    access: Access,
    pages: ProgressPages,
    wrapper: Wrapper,
    recovery: Optional[Recovery],
) -> HangWatcher:
    """Start the search for hangs, and in rank 0 the report of the progress of the gang."""
    options, identity = setup.options, setup.target.identity

    def get_run() -> Tuple[int, int]:
        return recovery.run_number if recovery is not None else NO_RUN

    def end(run: Tuple[int, int]) -> None:
        if recovery is not None:
            recovery.follow_hang(run)
        else:
            wrapper.fail(ExitCode.HUNG)

    if options.progress_seconds:
        first_seconds = options.first_progress_seconds or _NEVER
        limits = StandstillLimits(options.progress_seconds, first_seconds)
    else:
        limits = StandstillLimits(_NEVER, _NEVER)
    fingerprint = fingerprint_uid(identity.pod_uid)
    member = Member((identity.role, identity.index), fingerprint, get_run, end)
    if options.acknowledge and options.progress_status != "off":
        reports = Acknowledger(access, setup.clock, setup.target, setup.reporter, NO_PROGRESS)
        report = ProgressReport(reports, setup.reporter, setup.clock)
        member = member._replace(show=report.show, show_last=report.finish)
    watcher = HangWatcher(limits, member, pages, setup.reporter, setup.clock)
    watcher.start()
    return watcher

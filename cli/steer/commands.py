"""Runs each command: ``cli.commands`` calls these functions with the parsed options.

Each returns the exit code of the command, and raises a CliError if nothing was done.
"""

from collections.abc import Callable, Mapping, Sequence

from cli.exitcodes import CliError, ExitCode
from cli.invocation import build_command
from cli.printing.forms import Form
from cli.steer.apply import Outcome, fetch_gang
from cli.steer.changes import Computation, compute_start, compute_stop
from cli.steer.conditions import parse_wanted
from cli.steer.effects import Goal, Scaled, Stopped, Verdict
from cli.steer.options import SteerOptions
from cli.steer.retrying import build_retried, retrying
from cli.steer.scaling import removal, scaling
from cli.steer.session import Session, report_effect, run_session
from cli.steer.suspending import Suspended, compute_resume, compute_suspend
from cli.steer.targets import (
    SizeError,
    parse_names,
    parse_sizes,
    parse_tasks,
    suggest_size,
    title,
)
from cli.terminal import print_error, print_line
from framework.api import constants

_STAYS = "the change stays"


def start_frameworks(words: Sequence[str], options: SteerOptions) -> ExitCode:
    """Run ``framework start``."""
    return _change_all(parse_names(words), compute_start, options)


def stop_frameworks(words: Sequence[str], options: SteerOptions) -> ExitCode:
    """Run ``framework stop``."""

    def build_goal(outcome: Outcome) -> Goal:
        return Stopped(outcome.before.name, outcome.before.uid)

    return _change_all(parse_names(words), compute_stop, options, build_goal)


def suspend_frameworks(words: Sequence[str], options: SteerOptions) -> ExitCode:
    """Run ``framework suspend``."""

    def build_goal(outcome: Outcome) -> Goal:
        return Suspended(outcome.before.name, outcome.before.uid)

    return _change_all(parse_names(words), compute_suspend, options, build_goal)


def resume_frameworks(words: Sequence[str], options: SteerOptions) -> ExitCode:
    """Run ``framework resume``."""
    return _change_all(parse_names(words), compute_resume, options)


def scale_framework(
    word: str, sizes: Sequence[str], current: Sequence[str], options: SteerOptions
) -> ExitCode:
    """Run ``framework scale``."""
    expected = parse_sizes(current, is_required=False)
    try:
        wanted = parse_sizes(sizes)
    except SizeError as e:
        raise _explain_sizes(parse_names([word])[0], sizes, options, e) from None
    compute = scaling(wanted, expected)
    return _change_all(parse_names([word]), compute, options, _build_scaled(wanted))


def _explain_sizes(
    name: str, words: Sequence[str], options: SteerOptions, fault: SizeError
) -> CliError:
    """Build the error that names the command with the roles of the Framework.

    If the Framework cannot be read, ``fault`` is the error, which names no role.
    """
    found: list[CliError] = []

    async def act(session: Session) -> ExitCode:
        gang = await fetch_gang(session.client, session.namespace, name)
        roles = {role.name: role.wanted_count for role in gang.spec.task_roles}
        size, note = suggest_size(words, roles)
        written = f"{' '.join(words)!r}: " if words else "names no role: "
        if words and size.endswith("=N"):
            note = f"; N is a number of Tasks from 0 to {constants.MAX_TASK_NUMBER}{note}"
        text = f"{written}write `{build_command('scale', name, size)}`{note}"
        found.append(CliError(ExitCode.USAGE, text))
        return ExitCode.USAGE

    try:
        run_session(options, act)
    except CliError as e:
        return e if e.exit_code is ExitCode.FAILED else fault
    return found[0]


def remove_tasks(
    word: str, tasks: Sequence[str], options: SteerOptions, *, is_undo: bool
) -> ExitCode:
    """Run ``framework remove``."""
    keys = parse_tasks(tasks)
    compute = removal(keys, is_undo=is_undo)
    goal = _build_scaled({key.role: 0 for key in keys})
    return _change_all(parse_names([word]), compute, options, goal)


def _build_scaled(roles: Mapping[str, int]) -> Callable[[Outcome], Goal]:
    def build_goal(outcome: Outcome) -> Goal:
        generation = int(outcome.after["metadata"].get("generation") or 0)
        before = outcome.before
        return Scaled(before.name, before.uid, generation, tuple(roles))

    return build_goal


def _change_all(
    names: Sequence[str],
    compute: Computation,
    options: SteerOptions,
    build_goal: Callable[[Outcome], Goal] | None = None,
) -> ExitCode:
    async def act(session: Session) -> ExitCode:
        for name in await session.choose(names):
            await session.change(name, compute, build_goal if options.waits else None)
        return await session.wait(session.goals, report_effect, _STAYS)

    return run_session(options, act)


def retry_tasks(word: str, tasks: Sequence[str], options: SteerOptions) -> ExitCode:
    """Run ``framework retry``."""
    keys = parse_tasks(tasks)

    def build_goal(outcome: Outcome) -> Goal:
        return build_retried(outcome.before, keys)

    return _change_all(parse_names([word]), retrying(keys), options, build_goal)


def wait_for_frameworks(words: Sequence[str], wanted: str, options: SteerOptions) -> ExitCode:
    """Run ``framework wait``."""
    names, goal = parse_names(words), parse_wanted(wanted)

    def report(reached: Goal, verdict: Verdict) -> None:
        if verdict.failure:
            print_error(f"error: {reached.name}: {verdict.failure}")
        elif options.output.form is Form.NAME:
            print_line(title(reached.name))
        else:
            print_line(f"{title(reached.name)} {verdict.text or 'deleted'}")

    async def act(session: Session) -> ExitCode:
        goals = []
        for name in await session.choose(names):
            try:
                gang = await fetch_gang(session.client, session.namespace, name)
            except CliError as e:
                if goal.condition or e.exit_code is not ExitCode.FAILED:
                    session.fail(e)
                else:
                    print_line(f"{title(name)} deleted")
                continue
            goals.append(goal.build_goal(name, gang.uid))
        return await session.wait(goals, report, "nothing was changed")

    return run_session(options, act)

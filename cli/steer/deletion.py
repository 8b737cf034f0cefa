"""``framework delete``: deletes Frameworks, and waits until they and their Pods are gone."""

from collections.abc import Sequence
from dataclasses import dataclass

from cli.exitcodes import CliError, ExitCode
from cli.frameworks import Selection, find_frameworks
from cli.steer.apply import delete_object
from cli.steer.effects import Deleted, Goal, Verdict
from cli.steer.options import SteerOptions
from cli.steer.ownership import check_deletion
from cli.steer.session import Session, run_session
from cli.steer.targets import parse_names
from cli.terminal import print_error, print_line
from cli.texts.kindwords import is_kind_word
from framework.api import constants
from framework.kube.resources import Object

_PROPAGATIONS = {"foreground": "Foreground", "background": "Background", "orphan": "Orphan"}


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteOptions:
    """Options of the command."""

    steer: SteerOptions
    """Options that all commands of this folder share."""
    cascade: str = "foreground"
    """Whether Pods are deleted before the Framework (``foreground``), after it, or not."""
    selector: str | None = None
    """Labels of the Frameworks, in the place of names."""
    deletes_all: bool = False
    """Whether all Frameworks of the namespace are deleted."""
    ignores_missing: bool = False
    """Whether a Framework that does not exist is no error."""


def delete_frameworks(words: Sequence[str], options: DeleteOptions) -> ExitCode:
    """Run ``framework delete``.

    Raises:
        CliError: nothing was deleted.
    """
    if len(words) == 1 and is_kind_word(words[0]) and (options.selector or options.deletes_all):
        # The word cannot be a name here.
        words = ()
    names = parse_names(words)
    if bool(names) + bool(options.selector) + options.deletes_all != 1:
        raise CliError(ExitCode.USAGE, "name Frameworks, or use either -l SELECTOR or --all")

    async def act(session: Session) -> ExitCode:
        goals: list[Goal] = []
        targets = tuple(await session.choose(names))
        selection = Selection(targets, session.namespace, options.selector)
        found = await find_frameworks(session.client, selection)
        if found.faults and not options.ignores_missing:
            session.fail(CliError(ExitCode.FAILED, *found.faults))
        if not found.items and not names:
            print_error(f"note: there is no such Framework in namespace {session.namespace}")
        for body in found.items:
            goals += await _delete(session, body, options)
        if not options.steer.waits:
            goals = []
        left = "the deletion goes on"
        return await session.wait(goals, _report, left)

    return run_session(options.steer, act)


async def _delete(session: Session, body: Object, options: DeleteOptions) -> list[Goal]:
    """Delete a Framework and print its name; return the goals to wait for."""
    name = str(body["metadata"]["name"])
    try:
        check_deletion(body)
    except CliError as e:
        session.fail(e)
        return []
    is_deleted = await delete_object(
        session.client,
        session.namespace,
        body,
        propagation=_PROPAGATIONS[options.cascade],
        dry_run=options.steer.dry_run,
    )
    if not is_deleted:
        print_error(f"note: {name}: another client has deleted it meanwhile")
    elif not session.print_name(name):
        suffix = session.describe_dry_run()
        print_line(f'framework.{constants.GROUP} "{name}" deleted{suffix}')
    return [Deleted(name, str(body["metadata"]["uid"]))]


def _report(goal: Goal, verdict: Verdict) -> None:
    """Print only a failure: another line has said that the Framework is deleted."""
    if verdict.failure:
        print_error(f"error: {goal.name}: {verdict.failure}")

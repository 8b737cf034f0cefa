"""The members that ``since`` names: docs/design/recovery.md, "Restart in place"."""

from framework.api.types import RetryPolicySpec, TaskSpec
from tests.controller.core.recovery.recoverygangs import Gang, name
from tests.support.builders import build_template_wire

RETRIED = TaskSpec(pod=build_template_wire(), retry_policy=RetryPolicySpec(max_retry_count=-2))


def list_members(gang: Gang) -> list[int]:
    roster = gang.published.roster
    assert roster is not None
    return [member.index for role in roster.roles for member in role.members]


def test_success_before_the_start_of_the_epoch_is_reported_changes_since() -> None:
    """Agents may have either size: all start again with the same one."""
    gang = Gang()
    gang.report(1, 0)
    gang.pause(1)
    assert (gang.shown.since, gang.shown.epoch) == (1, 1)
    gang.succeed(2)
    assert list_members(gang) == [0, 1]
    assert (gang.shown.since, gang.shown.epoch) == (3, 1)
    gang.start(0, 1)
    gang.pause(1)
    gang.succeed(1)
    assert (list_members(gang), gang.shown.since) == ([0], 3), "it has started"


def test_success_together_with_a_failure_changes_since() -> None:
    gang = Gang()
    gang.start(0, 0)
    gang.pause(1)
    gang.report(1, 0)
    gang.succeed(2)
    assert (list_members(gang), gang.shown.since, gang.shown.epoch) == ([0, 1], 2, 1)


def test_success_and_start_that_are_seen_together_keep_since() -> None:
    gang = Gang()
    gang.report(1, 0)
    gang.pause(1)
    gang.start(0, 1)
    gang.succeed(2)
    assert (list_members(gang), gang.shown.since) == ([0, 1], 1)


def test_success_keeps_since_while_no_agent_has_reported() -> None:
    """The agents may have no right to report, and the gang may be running."""
    gang = Gang()
    gang.succeed(2)
    assert (list_members(gang), gang.shown.since) == ([0, 1], 1)


def test_success_at_the_start_barrier_of_new_members_changes_since() -> None:
    gang = Gang(task=RETRIED)
    gang.start(0, 0)
    gang.pause(1)
    gang.remove_pod(name(1))
    gang.pause(5)
    gang.pause(5)
    gang.run_pod(name(1), 7)
    gang.pause(1)
    gang.pause(1)
    before = gang.shown.since
    assert list_members(gang) == [0, 1, 2]
    gang.succeed(2)
    assert list_members(gang) == [0, 1]
    assert gang.shown.since > before

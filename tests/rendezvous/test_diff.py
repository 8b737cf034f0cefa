from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from framework.api.naming import TaskKey
from framework.api.roster import CompletedTask, Member, Roster
from rendezvous.core.notifying.diff import Diff, compute_diff
from tests.rendezvous.gangs import build_gang, build_role, build_roster


def addresses(roster: Roster) -> dict[TaskKey, str]:
    return {TaskKey(r.name, m.index): m.addresses[0] for r in roster.roles for m in r.members}


def with_member(roster: Roster, position: int, **fields: Any) -> Roster:
    role = roster.roles[0]
    members = list(role.members)
    members[position] = members[position]._replace(**fields)
    return roster._replace(generation=2, roles=(role._replace(members=tuple(members)),))


def test_diff_of_a_new_address_or_pod_is_a_move_with_both_addresses() -> None:
    before, pod = build_gang(2), "0" * 8
    after = with_member(before, 1, addresses=("10.9.9.9",), fingerprint=pod, attempt_id=1)
    assert compute_diff(before, after).to_wire() == {
        "generation": 2,
        "previousGeneration": 1,
        "added": [],
        "removed": [],
        "moved": [
            {"role": "worker", "index": 1, "address": "10.9.9.9", "previousAddress": "10.0.0.3"}
        ],
    }
    (moved,) = compute_diff(before, with_member(before, 0, fingerprint=pod)).moved
    assert (moved.address, moved.previous_address) == ("10.0.0.2", "10.0.0.2")


@st.composite
def gangs(draw: st.DrawFn) -> Roster:
    roles = []
    for name in draw(st.lists(st.sampled_from(["ps", "worker", "chief"]), unique=True)):
        indexes = sorted(draw(st.sets(st.integers(0, 6))))
        members = tuple(
            Member(i, (f"10.0.0.{draw(st.integers(1, 4))}",), draw(st.sampled_from("ab")) * 8, 0)
            for i in indexes
        )
        roles.append(build_role(name, 0)._replace(members=members))
    return build_roster(*roles)


@given(st.none() | gangs(), gangs())
def test_diff_applied_to_the_old_gang_gives_the_new_one(
    before: Roster | None, after: Roster
) -> None:
    diff = compute_diff(before, after._replace(generation=5))
    assert (diff.generation, diff.previous_generation) == (5, 1 if before else 0)
    known = addresses(before) if before else {}
    for change in diff.removed:
        assert known.pop(TaskKey(change.role, change.index)) == change.address
    for change in diff.moved:
        assert known[TaskKey(change.role, change.index)] == change.previous_address
        known[TaskKey(change.role, change.index)] = change.address
    for change in diff.added:
        assert TaskKey(change.role, change.index) not in known
        known[TaskKey(change.role, change.index)] = change.address
    assert known == addresses(after)
    assert compute_diff(after, after).is_empty


def test_diff_says_that_a_member_went_because_its_work_is_done() -> None:
    before = build_gang(3)
    role = before.roles[0]

    def end(*tasks: CompletedTask) -> Diff:
        left = tuple(m for m in role.members if m.index not in {task.index for task in tasks})
        after = role._replace(members=left, completed=tasks)
        return compute_diff(before, before._replace(generation=2, roles=(after,)))

    succeeded = CompletedTask(2, "Succeeded", "10.0.0.4")
    failed = CompletedTask(1, "Failed", "10.0.0.3")

    assert end(succeeded).to_wire()["removed"] == [
        {"role": "worker", "index": 2, "address": "10.0.0.4", "state": "Succeeded"}
    ]
    assert end(succeeded).is_only_success
    assert not end(failed, succeeded).is_only_success
    assert not compute_diff(before, before).is_only_success
    assert not compute_diff(None, before).is_only_success

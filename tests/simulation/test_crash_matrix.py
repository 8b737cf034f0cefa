"""The controller is killed at each of its writes for one gang, in turn.

Whether or not the controller had the answer to that write, the gang ends in the same way, and no
Pod is created twice.
"""

import pytest

from framework.kube.resources import Object
from tests.simulation.scriptedgang import ScriptedGang, get_code, summarize
from tests.support.crashmoments import UNHEARD, at_each_moment

WRITES = 54
# The writes around the Secret and the Pods that mount it; the others are as without a key.
KEYED_WRITES = 9


def shape(framework: Object) -> object:
    return framework["status"]["retryPolicyStatus"], summarize(
        framework,
        get_code,
        lambda task: (task["state"], task["attemptStatus"]["id"], task["retryPolicyStatus"]),
    )


def _retried(total: int) -> Object:
    return {"totalRetriedCount": total, "accountableRetriedCount": total, "retryDelaySec": None}


END = (
    _retried(0),
    ("Completed", 0, 0, [("Completed", 1, _retried(1)), ("Completed", 0, _retried(0))]),
)
# Three at first, one after the scale-up, one after the failure.
CREATED_PODS = 5


@pytest.mark.looptime
@at_each_moment("write", range(1, WRITES + 1), share=4)
async def test_crash_at_a_write_changes_neither_end_nor_count(write: int, when: str) -> None:
    gang = ScriptedGang({write: when})
    assert shape(await gang.run_script()) == END
    gang.check_created(CREATED_PODS)


@pytest.mark.looptime
async def test_gang_without_a_crash_ends_as_expected() -> None:
    gang = ScriptedGang({})
    assert shape(await gang.run_script()) == END
    gang.check_created(CREATED_PODS)
    gang.check_writes(WRITES)


@pytest.mark.looptime
@pytest.mark.parametrize(("first", "second"), [(3, 5), (4, 5), (7, 9), (9, 10), (12, 14)])
async def test_crash_in_the_recovery_from_a_crash_changes_nothing(first: int, second: int) -> None:
    gang = ScriptedGang({first: UNHEARD, second: UNHEARD})
    assert shape(await gang.run_script()) == END
    assert set(gang.auditor.created.values()) == {1}


@pytest.mark.looptime
@at_each_moment("write", range(1, KEYED_WRITES + 1))
async def test_crash_changes_nothing_for_a_gang_with_a_key(write: int, when: str) -> None:
    """The auditor checks that each Secret exists before its Pods; here, that it is deleted."""
    gang = ScriptedGang({write: when}, is_keyed=True)
    assert shape(await gang.run_script()) == END
    gang.check_created(CREATED_PODS)
    assert gang.auditor.list_gang_keys() == []

"""The controller is killed at each of its writes while a Task fails on its node, in turn.

No failure is lost or counted twice, and each Pod excludes the nodes that its stored attempt avoids:
docs/design/avoiding.md, "Crashes".
"""

import pytest

from framework.api import constants
from framework.kube.resources import Object
from tests.simulation.scriptedgang import ScriptedGang, get_code, summarize
from tests.support.crashmoments import at_each_moment

WRITES = 44
FAILURES = 2


class AvoidingGang(ScriptedGang):
    """A gang of two: worker 0 fails twice on its node, and then all succeed."""

    def build_role(self) -> Object:
        worker = super().build_role()
        worker["taskNumber"] = 2
        avoid = {constants.FAILURES_FIELD: FAILURES}
        worker[constants.RECOVERY_FIELD] = {constants.AVOID_NODES_FIELD: avoid}
        worker["task"]["retryPolicy"] = {"fancyRetryPolicy": False, "maxRetryCount": FAILURES}
        return worker

    def _choose_node(self) -> str:
        return "node"

    async def play_middle(self) -> int:
        for _ in range(FAILURES):
            self._end("gang-worker-0", 1)
            await self._rest()
        return 2


def shape(framework: Object) -> object:
    return summarize(
        framework,
        get_code,
        lambda task: (
            task["attemptStatus"]["id"],
            [failure["node"] for failure in task.get("nodeFailures", ())],
            task["attemptStatus"].get("avoidedNodes"),
            get_code(task["attemptStatus"]),
        ),
    )


END: object = ("Completed", 0, 0, [(2, ["node", "node"], ["node"], 0), (0, [], None, 0)])
CREATED_PODS = 4


@pytest.mark.looptime
async def test_gang_that_avoids_a_node_ends_as_expected() -> None:
    gang = AvoidingGang({})
    assert shape(await gang.run_script()) == END
    gang.check_created(CREATED_PODS)
    gang.check_writes(WRITES)


@pytest.mark.looptime
@at_each_moment("write", range(1, WRITES + 1), share=4)
async def test_crash_at_a_write_neither_loses_nor_repeats_a_failure(write: int, when: str) -> None:
    gang = AvoidingGang({write: when})
    assert shape(await gang.run_script()) == END
    gang.check_created(CREATED_PODS)

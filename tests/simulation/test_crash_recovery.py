"""The controller is killed at each of its writes while processes restart in place, in turn.

No restart is lost, and none is repeated: docs/design/recovery.md, "Crashes".
"""

import pytest

from framework.api import constants
from framework.api.epochreports import ProcessEnd, encode_end
from framework.kube.resources import PODS, Object
from tests.simulation.scriptedgang import ScriptedGang, summarize
from tests.support.crashmoments import at_each_moment

WRITES = 44


class RestartedGang(ScriptedGang):
    """A gang of three with two restarts in place: worker 1 fails three times, then all succeed."""

    def build_role(self) -> Object:
        worker = super().build_role()
        in_place = {constants.MAX_RESTARTS_FIELD: 2, constants.WITHIN_SECONDS_FIELD: 3600}
        worker[constants.RECOVERY_FIELD] = {constants.IN_PLACE_FIELD: in_place}
        return worker

    async def play_middle(self) -> int:
        for epoch in range(3):
            self._fail_worker(1, epoch)
            if epoch == 0:
                self._fail_worker(2, epoch)
            await self._rest()
            self.advance_agents()
            await self._rest()
        self.advance_agents()
        await self._rest()
        return 3

    def _fail_worker(self, index: int, epoch: int) -> None:
        pod = self.storage.get(self._type(PODS), "default", f"gang-worker-{index}")
        self._report(pod, constants.PROCESS_ENDED_ANNOTATION, encode_end(ProcessEnd(epoch, 137)))


def shape(framework: Object) -> object:
    return summarize(framework, summarize_recovery, lambda task: task["attemptStatus"]["id"])


def summarize_recovery(attempt: Object) -> object:
    recovery = attempt["recovery"]
    return (
        (recovery["epoch"], recovery["reason"], recovery["firstFailed"]["index"]),
        [(entry["role"], len(entry["times"])) for entry in recovery["restarts"]],
        recovery.get("refused", []),
        recovery["startBarrier"]["startedEpoch"],
    )


RECOVERED: object = ((3, "BudgetUsedUp", 1), [("worker", 2)], [], 3)
END: object = ("Completed", 0, RECOVERED, [0, 1, 0])
# Three at first, one after the refusal.
CREATED_PODS = 4


@pytest.mark.looptime
async def test_gang_that_restarts_in_place_ends_as_expected() -> None:
    gang = RestartedGang({})
    assert shape(await gang.run_script()) == END
    gang.check_created(CREATED_PODS)
    gang.check_writes(WRITES)


@pytest.mark.looptime
@at_each_moment("write", range(1, WRITES + 1), share=4)
async def test_crash_at_a_write_neither_loses_nor_repeats_a_restart(write: int, when: str) -> None:
    gang = RestartedGang({write: when})
    assert shape(await gang.run_script()) == END
    gang.check_created(CREATED_PODS)

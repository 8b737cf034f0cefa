"""The controller is killed at each of its writes while a training reports its progress, in turn.

The last report is in the status, and nothing else differs: docs/design/recovery.md.
"""

import pytest

from framework.api import constants
from framework.kube.resources import PODS, Object
from tests.simulation.scriptedgang import ScriptedGang
from tests.support.crashmoments import at_each_moment

WRITES = 26
LAST_STEP = 900


class TrainedGang(ScriptedGang):
    """A gang of three that reports some steps, and the last one when it ends."""

    async def play_middle(self) -> int:
        for step in (100, 200, 300):
            self._report_step(step)
            await self._rest()
        self._report_step(LAST_STEP)
        return 3

    def _report_step(self, step: int) -> None:
        pod = self.storage.get(self._type(PODS), "default", "gang-worker-0")
        text = f"1 {step} {LAST_STEP} 12.5 - 0"
        self._report(pod, constants.TRAINING_PROGRESS_ANNOTATION, text)


def shape(framework: Object) -> object:
    """Summarize a Framework without times and UIDs."""
    attempt = framework["status"]["attemptStatus"]
    training = attempt[constants.TRAINING_PROGRESS_FIELD]
    return framework["status"]["state"], attempt["id"], training["step"], training["generation"]


END: object = ("Completed", 0, LAST_STEP, 1)
CREATED_PODS = 3


@pytest.mark.looptime
async def test_gang_that_reports_its_progress_ends_as_expected() -> None:
    gang = TrainedGang({})
    assert shape(await gang.run_script()) == END
    gang.check_writes(WRITES)


@pytest.mark.looptime
@at_each_moment("write", range(1, WRITES + 1), share=4)
async def test_crash_at_a_write_loses_no_last_step(write: int, when: str) -> None:
    gang = TrainedGang({write: when})
    assert shape(await gang.run_script()) == END
    gang.check_created(CREATED_PODS)

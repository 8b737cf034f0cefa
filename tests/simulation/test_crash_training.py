"""The controller is killed at each of its writes while a training reports its progress, in turn.

The last report is in the status, and nothing else differs: docs/design/recovery.md.
"""

import pytest

from framework.api import constants
from framework.kube.resources import PODS, Object
from tests.simulation.test_crash_matrix import BEFORE, HEARD, UNHEARD, ScriptedGang
from tests.support.slow import keep_first

# At least as many as the gang takes; a test asserts it.
WRITES = 26
MIXED_WRITES = sorted(range(1, WRITES + 1), key=lambda write: write % 4)
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
    assert WRITES - 10 < gang.writes <= WRITES


@pytest.mark.looptime
@pytest.mark.parametrize("when", keep_first([UNHEARD, BEFORE, HEARD]))
@pytest.mark.parametrize("write", keep_first(MIXED_WRITES, WRITES // 4))
async def test_crash_at_a_write_loses_no_last_step(write: int, when: str) -> None:
    gang = TrainedGang({write: when})
    assert shape(await gang.run_script()) == END
    gang.check_created(CREATED_PODS)

"""The controller is killed at each of its writes while a gang is suspended, resumed and ended.

Whether or not the controller had the answer to that write: no Pod is created twice, the suspension
is not counted, and the Framework is deleted in the end.
"""

import pytest

from framework.api.naming import build_configmap_name
from framework.kube.resources import CONFIGMAPS, FRAMEWORKS, PODS, Object
from tests.simulation.scriptedgang import ScriptedGang
from tests.support.builders import FRAMEWORK, NAMESPACE
from tests.support.crashmoments import at_each_moment

WRITES = 36
DEADLINE_SECONDS = 60
# Three of the first attempt, and three of the second one.
CREATED_PODS = 6


class SuspendedGang(ScriptedGang):
    """A gang of three that is suspended, resumed, and ended by its deadline and its TTL."""

    async def play(self) -> Object:
        """Play it; return the Framework while its second attempt runs."""
        await self._play_suspension()
        running = self.read_framework()
        for _ in range(4):
            await self._rest()
        self.check_rest()
        return running

    async def _play_suspension(self) -> None:
        lifetime = {"activeDeadlineSeconds": DEADLINE_SECONDS, "ttlSecondsAfterFinished": 0}
        self._create_gang(self.build_role(), **lifetime)
        self.start()
        await self._rest()
        self._edit(lambda spec: spec.update(suspend=True))
        await self._rest()
        await self._rest()
        await self._rest()
        self._check_suspended()
        self._edit(lambda spec: spec.update(suspend=False))
        await self._rest()

    def _check_suspended(self) -> None:
        """After more than the deadline, the gang has no object."""
        self.check_rest()
        status = self.read_framework()["status"]
        assert status["state"] == "AttemptCompleted"
        assert status["attemptStatus"]["completionStatus"]["code"] == -250
        assert self._find(CONFIGMAPS, build_configmap_name(FRAMEWORK)) is None
        assert self.storage.list(self._type(PODS), NAMESPACE).items == []


async def check_gang(gang: SuspendedGang) -> None:
    running = await gang.run_script()
    status = running["status"]
    assert status["state"] == "AttemptRunning"
    assert status["attemptStatus"]["id"] == 1
    retries = status["retryPolicyStatus"]
    assert (retries["totalRetriedCount"], retries["accountableRetriedCount"]) == (1, 0)
    gang.check_created(CREATED_PODS)
    assert gang._find(FRAMEWORKS, FRAMEWORK) is None, "not deleted after its end"
    (last,) = gang.auditor.last.values()
    assert last.status is not None
    completion = last.status.attempt_status.completion_status
    assert completion is not None
    assert completion.code == -240


@pytest.mark.looptime
@at_each_moment("write", range(1, WRITES + 1), share=3)
async def test_crash_while_a_gang_is_suspended_or_ended_changes_nothing(
    write: int, when: str
) -> None:
    await check_gang(SuspendedGang({write: when}))


@pytest.mark.looptime
async def test_suspended_gang_without_a_crash_ends_as_expected() -> None:
    gang = SuspendedGang({})
    await check_gang(gang)
    gang.check_writes(WRITES)

"""The controller is killed at each of its writes while a gang ends that leaves Pods running.

Whether or not the controller had the answer to that write: no Pod is created twice, the workers of
the last attempt run on, those of the first attempt end before the retry, and the deletion of the
Framework ends all Pods.
"""

import pytest

from framework.kube.resources import FRAMEWORKS, PODS, Object
from localcluster.apiserver.storage import DeleteOptions
from tests.simulation.scriptedgang import ScriptedGang
from tests.support.builders import FRAMEWORK, NAMESPACE, build_role_wire
from tests.support.crashmoments import at_each_moment

WRITES = 38
LAUNCHER = "gang-launcher-0"
WORKERS = ["gang-worker-0", "gang-worker-1"]
# Two attempts of three.
CREATED_PODS = 6


class LeftRunningGang(ScriptedGang):
    """A launcher that fails, is retried and succeeds, and two workers that are left running."""

    async def play(self) -> Object:
        """Play it; return the Framework after its end."""
        self._submit()
        self.start()
        await self._rest()
        first = self._list_workers()
        self._end(LAUNCHER, 9)
        await self._rest()
        assert first.isdisjoint(self._list_workers())
        await self._play_end()
        ended = self.read_framework()
        await self._delete_gang()
        return ended

    async def _play_end(self) -> None:
        last = self._list_workers()
        self._end(LAUNCHER, 0)
        await self._rest()
        self.check_rest()
        assert self._list_workers() == last, "the workers of the last attempt are not left"
        # Their later ends change nothing.
        self._end(WORKERS[0], 1)
        await self._rest()
        self.check_rest()

    async def _delete_gang(self) -> None:
        options = DeleteOptions(propagation="Foreground")
        self.storage.delete(self._type(FRAMEWORKS), NAMESPACE, FRAMEWORK, options)
        await self._rest()
        self.check_rest()
        assert self._find(FRAMEWORKS, FRAMEWORK) is None
        assert self.storage.list(self._type(PODS), NAMESPACE).items == []

    def _submit(self) -> None:
        ends = {"minFailedTaskCount": 1, "minSucceededTaskCount": 1}
        unending = {"minFailedTaskCount": -1, "minSucceededTaskCount": -1}
        launcher = build_role_wire("launcher", frameworkAttemptCompletionPolicy=ends)
        worker = build_role_wire(
            "worker", len(WORKERS), frameworkAttemptCompletionPolicy=unending,
            completedPodPolicy="RetainRunning",
        )  # fmt: skip
        retries = {"fancyRetryPolicy": False, "maxRetryCount": 1}
        self._create_gang(launcher, worker, completedPodPolicy="Retain", retryPolicy=retries)

    def _list_workers(self) -> set[str]:
        """List the UIDs of the workers that run."""
        found = [self._find(PODS, name) for name in WORKERS]
        running = {p["metadata"]["uid"] for p in found if p and p["status"]["phase"] == "Running"}
        assert len(running) == len(WORKERS)
        return running


async def check_gang(gang: LeftRunningGang) -> None:
    status = (await gang.run_script())["status"]
    assert (status["state"], status["attemptStatus"]["id"]) == ("Completed", 1)
    assert status["attemptStatus"]["completionStatus"]["code"] == 0
    launcher, worker = status["attemptStatus"]["taskRoleStatuses"]
    for role, code in ((launcher, 0), (worker, -221)):
        for task in role["taskStatuses"]:
            assert task["state"] == "Completed"
            assert task["attemptStatus"]["completionStatus"]["code"] == code
    gang.check_created(CREATED_PODS)


@pytest.mark.looptime
@at_each_moment("write", range(1, WRITES + 1), share=5)
async def test_crash_while_a_gang_ends_that_leaves_pods_running_changes_nothing(
    write: int, when: str
) -> None:
    await check_gang(LeftRunningGang({write: when}))


@pytest.mark.looptime
async def test_gang_that_leaves_pods_running_without_a_crash_ends_as_expected() -> None:
    gang = LeftRunningGang({})
    await check_gang(gang)
    gang.check_writes(WRITES)

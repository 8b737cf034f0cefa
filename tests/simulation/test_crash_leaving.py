"""The controller is killed at each of its writes while Tasks leave their nodes, in turn.

No Task leaves twice for one reason, and no retry is counted: docs/design/leaving.md, "Crashes".
"""

import asyncio
from dataclasses import replace

import pytest

from controller.config.nodes import NodesConfig
from framework.api import constants
from framework.kube.resources import PODS, Object
from localcluster.apiserver.model.options import DeleteOptions
from tests.simulation.scriptedgang import ScriptedGang, get_code, summarize
from tests.support.crashmoments import at_each_moment

WRITES = 72


class LeavingGang(ScriptedGang):
    """A gang of three: all nodes are cordoned, then worker 1 is evicted, then all succeed."""

    def __init__(self, *arguments: object) -> None:
        super().__init__(*arguments)  # type: ignore[arg-type]  # as that of the scripted gang
        self.config = replace(self.config, nodes=NodesConfig(is_watched=True))

    def build_role(self) -> Object:
        worker = super().build_role()
        leave = {constants.TIMEOUT_SECONDS_FIELD: 15}
        worker[constants.RECOVERY_FIELD] = {constants.LEAVE_NODES_FIELD: leave}
        worker["task"]["retryPolicy"] = {"fancyRetryPolicy": False, "maxRetryCount": 0}
        return worker

    async def play(self) -> Object:
        self._create_gang(self.build_role())
        self.start()
        await self._rest()
        for pod in self._list_pods():
            self.acknowledge(pod)
        self._set_cordon("node", is_cordoned=True)
        await asyncio.sleep(5.0)
        for pod in self._list_pods()[:2]:
            self.acknowledge(pod)
        await self._rest()
        self._evict("gang-worker-1")
        # Wait for the next controller: if the evicted Pod were removed while no controller runs, no
        # controller would ever see the condition of this Pod.
        await asyncio.sleep(10.0)
        await self._rest()
        for index in range(3):
            self._end(f"gang-worker-{index}", 0)
        await self._rest()
        self.check_rest()
        return self.read_framework()

    def _evict(self, name: str) -> None:
        self._disrupt(name)
        self._delete(PODS, name, DeleteOptions())


def shape(framework: Object) -> object:
    return summarize(
        framework,
        get_code,
        lambda task: (
            task["attemptStatus"]["id"],
            task["leaves"]["count"],
            task["retryPolicyStatus"]["accountableRetriedCount"],
            get_code(task["attemptStatus"]),
        ),
    )


END: object = ("Completed", 0, 0, [(1, 1, 0, 0), (2, 2, 0, 0), (1, 1, 0, 0)])
CREATED_PODS = 7


@pytest.mark.looptime
async def test_gang_that_leaves_its_nodes_ends_as_expected() -> None:
    gang = LeavingGang({})
    assert shape(await gang.run_script()) == END
    gang.check_created(CREATED_PODS)
    gang.check_writes(WRITES)


@pytest.mark.looptime
@at_each_moment("write", range(1, WRITES + 1), share=8)
async def test_crash_at_a_write_neither_loses_nor_repeats_a_leave(write: int, when: str) -> None:
    gang = LeavingGang({write: when})
    assert shape(await gang.run_script()) == END
    gang.check_created(CREATED_PODS)

"""A controller with a key pair takes a gang over from one without, at each step of its script.

No Pod is created twice for one attempt, and the end is that without a take-over.
"""

import asyncio

import pytest

from framework.api import constants
from framework.kube.resources import CONFIGMAPS, FRAMEWORKS, PODS, Object
from tests.simulation.scriptedgang import ScriptedGang
from tests.simulation.test_crash_matrix import CREATED_PODS, END, shape
from tests.support.builders import FRAMEWORK, NAMESPACE
from tests.support.simulator.cluster import MERGE_PATCH

# Pauses of the script before which the older controller may end.
RESTS = 5


class InheritedGang(ScriptedGang):
    """The first controller leaves its objects as one of an older version would."""

    def __init__(self, rest: int) -> None:
        super().__init__({})
        self.rests_before = rest

    async def _rest(self) -> None:
        await super()._rest()
        self.rests_before -= 1
        if self.rests_before == 0:
            self.crash()
            self._forget_proofs()
            self.start()
            await asyncio.sleep(1.0)

    def _forget_proofs(self) -> None:
        annotations: Object = {constants.CREATION_PROOF_ANNOTATION: None}
        patch: Object = {"metadata": {"annotations": annotations}}
        for resource in (PODS, CONFIGMAPS):
            rt = self._type(resource)
            for found in self.storage.list(rt, NAMESPACE).items:
                name = found["metadata"]["name"]
                self.storage.patch(rt, NAMESPACE, name, patch, MERGE_PATCH)
        rt = self._type(FRAMEWORKS)
        framework = self.read_framework()
        attempt = framework["status"]["attemptStatus"]
        assert attempt.pop(constants.CREATOR_KEYS_FIELD)
        self.storage.update(rt, NAMESPACE, FRAMEWORK, framework, subresource="status")


@pytest.mark.looptime
@pytest.mark.parametrize("rest", range(1, RESTS + 1))
async def test_take_over_wastes_no_pod(rest: int) -> None:
    gang = InheritedGang(rest)
    assert shape(await gang.run_script()) == END
    gang.check_created(CREATED_PODS)

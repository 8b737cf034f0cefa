"""A gang with a script, whose controller is killed at chosen writes.

The tests of crashes derive their gangs from it, and kill the controller at each write in turn.
"""

import asyncio
from collections.abc import Callable

from framework.kube.resources import FRAMEWORKS, Object
from tests.support.builders import FRAMEWORK, NAMESPACE, build_role_wire, build_submission
from tests.support.crashmoments import build_fate, crash
from tests.support.fakes.storageclient import Fate, Request
from tests.support.simulator.simulation import Simulation
from tests.support.simulator.specs import GANG_KEY


class ScriptedGang(Simulation):
    """A gang of three that is scaled down, up again, fails once and then succeeds."""

    def __init__(self, crashes: dict[int, str], *, is_keyed: bool = False) -> None:
        super().__init__(0)
        self.crashes = crashes
        self.is_keyed = is_keyed
        self.writes = 0
        self.network.draw_fate = self._draw_fate  # type: ignore[method-assign]  # as this gang wants it

    def _draw_fate(self, request: Request) -> Fate:
        self._check_request(request)
        if request.verb in {"get", "list"} or request.resource.plural == "events":
            return build_fate()
        self.writes += 1
        when = self.crashes.get(self.writes)
        if when is None:
            return build_fate()
        self.note(f"killed {when}: {request}")
        return crash(when, self.crash, self.start)

    def build_role(self) -> Object:
        worker = build_role_wire("worker", 3)
        worker["task"]["retryPolicy"] = {"fancyRetryPolicy": False, "maxRetryCount": 1}
        if self.is_keyed:
            volume = {"name": "key", "secret": {"secretName": GANG_KEY}}
            worker["task"]["pod"]["spec"]["volumes"] = [volume]
        return worker

    async def run_script(self) -> Object:
        """Run the script; return the Framework as ``play`` has read it."""
        try:
            return await self.play()
        finally:
            await self._end_all()

    async def play(self) -> Object:
        """Play the life of the gang; return the Framework at its end."""
        self._create_gang(self.build_role())
        self.start()
        await self._rest()
        for index in range(await self.play_middle()):
            self._end(f"gang-worker-{index}", 0)
        await self._rest()
        self.check_rest()
        return self.read_framework()

    async def play_middle(self) -> int:
        """Play what happens between the start and the success; return the number of workers."""
        self._edit(lambda spec: spec["taskRoles"][0].update(taskNumber=1))
        await self._rest()
        self._edit(lambda spec: spec["taskRoles"][0].update(taskNumber=2))
        await self._rest()
        self._end("gang-worker-0", 1)
        await self._rest()
        return 2

    def check_created(self, count: int) -> None:
        """Check that so many Pods were created, and none of them twice."""
        assert set(self.auditor.created.values()) == {1}, "a Pod was created twice for one attempt"
        assert len(self.auditor.created) == count, "Pods that were created"

    def check_writes(self, most: int) -> None:
        """Check that a test that tries the writes 1 to ``most`` tries all writes of this gang."""
        assert most - 10 < self.writes <= most, f"{self.writes} writes"

    def read_framework(self) -> Object:
        return self.storage.get(self._type(FRAMEWORKS), NAMESPACE, FRAMEWORK)

    def _create_gang(self, *roles: Object, **fields: object) -> None:
        body = build_submission(FRAMEWORK, *roles, **fields)
        self.storage.create(self._type(FRAMEWORKS), NAMESPACE, body)

    async def _rest(self) -> None:
        """Let kubelets and controller do all their work."""
        for _ in range(25):
            self.advance_kubelets(all_pods=True)
            self.storage.collect_garbage()
            await asyncio.sleep(1.0)
            self.check()


def summarize(
    framework: Object,
    summarize_attempt: Callable[[Object], object],
    summarize_task: Callable[[Object], object],
) -> object:
    """Summarize a Framework without times and UIDs: its attempt, and each Task of it."""
    attempt = framework["status"]["attemptStatus"]
    return (
        framework["status"]["state"],
        attempt["id"],
        summarize_attempt(attempt),
        [
            summarize_task(task)
            for role in attempt["taskRoleStatuses"]
            for task in role["taskStatuses"]
        ],
    )


def get_code(attempt: Object) -> object:
    """The exit code of an attempt that has ended."""
    return attempt["completionStatus"]["code"]

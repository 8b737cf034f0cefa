"""The controller is killed at each of its writes for one gang, in turn.

Whether or not it had the answer, the end is the same, and no Pod is created twice.
"""

import asyncio
from collections.abc import Callable

import pytest

from framework.kube.resources import FRAMEWORKS, Object
from tests.support.builders import build_role_wire, build_submission
from tests.support.fakes.storageclient import Fate, Request
from tests.support.simulator.simulation import Simulation
from tests.support.simulator.specs import GANG_KEY
from tests.support.slow import keep_first

# At least as many as the gang takes; a test asserts it.
WRITES = 54
# The writes around the Secret and the Pods that mount it; the others are as without a key.
KEYED_WRITES = 9
# Every fourth comes first.
MIXED_WRITES = sorted(range(1, WRITES + 1), key=lambda write: write % 4)
BEFORE, UNHEARD, HEARD = "before_it_is_applied", "before_its_answer", "after_its_answer"
PAUSE_SECONDS = 3.0


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
            return Fate(0.001, 0.001)
        self.writes += 1
        when = self.crashes.get(self.writes)
        if when is not None:
            self.note(f"killed {when}: {request}")
            loop = asyncio.get_running_loop()
            # Each way takes a millisecond; between them, the request is applied but not answered.
            loop.call_later({BEFORE: 0.0, UNHEARD: 0.0015, HEARD: 0.0025}[when], self.crash)
            loop.call_later(PAUSE_SECONDS, self.start)
        return Fate(0.001, 0.001, is_lost=when == BEFORE)

    def build_role(self) -> Object:
        worker = build_role_wire("worker", 3)
        worker["task"]["retryPolicy"] = {"fancyRetryPolicy": False, "maxRetryCount": 1}
        if self.is_keyed:
            volume = {"name": "key", "secret": {"secretName": GANG_KEY}}
            worker["task"]["pod"]["spec"]["volumes"] = [volume]
        return worker

    async def run_script(self) -> Object:
        """Run the script; return the Framework at its end."""
        try:
            self._create_gang(self.build_role())
            self.start()
            await self._rest()
            for index in range(await self.play_middle()):
                self._end(f"gang-worker-{index}", 0)
            await self._rest()
            self.check_rest()
            return self.storage.get(self._type(FRAMEWORKS), "default", "gang")
        finally:
            await self._end_all()

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
        assert len(self.auditor.created) == count

    def _create_gang(self, worker: Object) -> None:
        body = build_submission("gang", worker)
        self.storage.create(self._type(FRAMEWORKS), "default", body)

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
@pytest.mark.parametrize("when", keep_first([UNHEARD, BEFORE, HEARD]))
@pytest.mark.parametrize("write", keep_first(MIXED_WRITES, WRITES // 4))
async def test_crash_at_a_write_changes_neither_end_nor_count(write: int, when: str) -> None:
    gang = ScriptedGang({write: when})
    assert shape(await gang.run_script()) == END
    gang.check_created(CREATED_PODS)


@pytest.mark.looptime
async def test_gang_without_a_crash_ends_as_expected() -> None:
    gang = ScriptedGang({})
    assert shape(await gang.run_script()) == END
    assert len(gang.auditor.created) == CREATED_PODS
    assert WRITES - 10 < gang.writes <= WRITES


@pytest.mark.looptime
@pytest.mark.parametrize(("first", "second"), [(3, 5), (4, 5), (7, 9), (9, 10), (12, 14)])
async def test_crash_in_the_recovery_from_a_crash_changes_nothing(first: int, second: int) -> None:
    gang = ScriptedGang({first: UNHEARD, second: UNHEARD})
    assert shape(await gang.run_script()) == END
    assert set(gang.auditor.created.values()) == {1}


@pytest.mark.looptime
@pytest.mark.parametrize("when", keep_first([UNHEARD, BEFORE, HEARD]))
@pytest.mark.parametrize("write", range(1, KEYED_WRITES + 1))
async def test_crash_changes_nothing_for_a_gang_with_a_key(write: int, when: str) -> None:
    """The auditor checks that each Secret exists before its Pods; here, that it is deleted."""
    gang = ScriptedGang({write: when}, is_keyed=True)
    assert shape(await gang.run_script()) == END
    gang.check_created(CREATED_PODS)
    assert gang.auditor.list_gang_keys() == []

"""Scalers while their job, their spec, their objects or the controller change meanwhile."""

import asyncio
from typing import Any

import pytest

from framework.api import constants
from framework.kube.resources import FRAMEWORKS, PODS, SCALE_OUTS
from tests.controller.kinds.scalerworlds import RESOURCES, ScaledJob, open_scaled_job
from tests.controller.kinds.test_scaler_refusals import DENIED, refuse
from tests.controller.kinds.test_scalers import REST_SECONDS, check_calm, start, start_unanswered
from tests.support.builders import NAMESPACE
from tests.support.slow import keep_first

pytestmark = pytest.mark.looptime


def read_wanted(scaled: ScaledJob) -> tuple[int, tuple[int, ...]]:
    role = scaled.find(FRAMEWORKS, "elastic")["spec"]["taskRoles"][1]
    return role["taskNumber"], tuple(role.get("absentTaskIndices") or ())


async def start_two(scaled: ScaledJob, kind: str, **spec: Any) -> None:
    """Run a job with the ScaleOut ``first`` in progress and the scaler ``second``, which waits."""
    scaled.agent.is_silent = True
    await scaled.create("ScaleOut", "first", script="/s.sh")
    await scaled.jobs.wait_for_phase("Scaling")
    await asyncio.sleep(2)
    await scaled.create(kind, "second", **spec)
    await asyncio.sleep(3)


@pytest.mark.parametrize("kind", ["ScaleIn", "ScaleOut"])
async def test_scaler_that_waits_starts_with_the_workers_after_kubectl_scale(kind: str) -> None:
    async with open_scaled_job() as scaled:
        await start(scaled)
        await start_two(scaled, kind, script="/s.sh")
        await scaled.scale(4)
        scaled.agent.is_silent = False
        assert await scaled.wait_for_end("ScaleOut", "first") == "ScaleSucceeded"
        assert await scaled.wait_for_end(kind, "second") == "ScaleSucceeded"
        await check_calm(scaled, [0, 1, 2] if kind == "ScaleIn" else [0, 1, 2, 3, 4])


async def test_job_never_has_no_worker_when_replicas_change_during_a_scaler() -> None:
    async with open_scaled_job() as scaled:
        await start(scaled)
        await scaled.scale(4)
        await asyncio.sleep(20)
        names = ["elastic-worker-0", "elastic-worker-1"]
        await start_two(scaled, "ScaleIn", toDelete={"podNames": names})
        await scaled.scale(2)
        scaled.agent.is_silent = False
        assert await scaled.wait_for_end("ScaleIn", "second") == "ScaleFailed"
        assert scaled.read_end("ScaleIn", "second")[1] == "BelowMinReplicas"
        await check_calm(scaled, [0, 1])
        assert read_wanted(scaled) == (2, ())


async def test_scaler_that_waits_while_the_job_has_faults_is_carried_out_later() -> None:
    async with open_scaled_job() as scaled:
        await start(scaled)
        await start_two(scaled, "ScaleOut")
        await scaled.scale(12)  # above maxReplicas
        assert await scaled.wait_for_end("ScaleOut", "first") == "ScaleFailed"
        await asyncio.sleep(60)
        assert scaled.read_conditions("ScaleOut", "second") == ["Created"]
        assert scaled.jobs.read_status()["scaledWorkers"]["count"] == 2
        scaled.agent.is_silent = False
        await scaled.scale(3)
        assert await scaled.wait_for_end("ScaleOut", "second") == "ScaleSucceeded"
        await check_calm(scaled, [0, 1, 2, 3])


async def test_scalers_of_a_deleted_job_are_not_carried_out_on_the_next_of_its_name() -> None:
    async with open_scaled_job() as scaled:
        await start_unanswered(scaled, "ScaleOut")
        waiting = await scaled.create("ScaleIn", "waiting", script="/s.sh")
        await asyncio.sleep(3)
        job, user = scaled.jobs.read(), scaled.jobs.world.user
        (program,) = scaled.jobs.world.programs
        program.link.is_cut = True
        await user.delete(scaled.jobs.resource, NAMESPACE, "elastic", propagation="Orphan")
        await scaled.jobs.world.wait_for(
            "no job", lambda: scaled.jobs.find(scaled.jobs.resource, "elastic") is None
        )
        job["metadata"] = {"name": "elastic", "namespace": NAMESPACE}
        job.pop("status")
        await user.create(scaled.jobs.resource, NAMESPACE, job)
        program.link.is_cut = False
        scaled.agent.is_silent = False
        for kind, name in (("ScaleOut", "late"), ("ScaleIn", "waiting")):
            assert await scaled.wait_for_end(kind, name) == "ScaleFailed"
            assert scaled.read_end(kind, name)[1] == "JobNotFound"
        assert waiting["metadata"]["uid"] not in scaled.agent.scripts


@pytest.mark.parametrize(
    "change",
    [{"script": "-x"}, {"selector": {"name": "other"}}, {"selector": {"name": "../x"}}],
    ids=["faulty", "other job", "no name"],
)
@pytest.mark.parametrize("kind", ["ScaleIn", "ScaleOut"])
async def test_scaler_that_is_edited_while_it_is_in_progress_is_undone(
    kind: str, change: dict[str, Any]
) -> None:
    async with open_scaled_job() as scaled:
        await start_unanswered(scaled, kind)
        user = scaled.jobs.world.user
        await user.patch(RESOURCES[kind], NAMESPACE, "late", {"spec": change})
        assert await scaled.wait_for_end(kind, "late") == "ScaleFailed"
        assert scaled.read_end(kind, "late")[1] == "InvalidSpec"
        await check_calm(scaled, [0, 1])


@pytest.mark.parametrize("outage_seconds", keep_first([30, 200]))
async def test_success_during_an_outage_of_the_controller_is_a_success(
    outage_seconds: int,
) -> None:
    async with open_scaled_job() as scaled:
        await start(scaled)
        await asyncio.sleep(10)
        scaled.agent.is_silent = True
        await scaled.create("ScaleIn", "one", script="/s.sh")
        await scaled.jobs.world.wait_for("a request", scaled.has_request)
        await asyncio.sleep(10)
        (program,) = scaled.jobs.world.programs
        program.link.is_cut = True
        scaled.agent.is_silent = False
        await asyncio.sleep(outage_seconds)
        program.link.is_cut = False
        assert await scaled.wait_for_end("ScaleIn", "one") == "ScaleSucceeded"
        await check_calm(scaled, [0])


async def test_scaler_that_cannot_be_written_does_not_slow_down_another_one() -> None:
    async with open_scaled_job() as scaled:
        await start(scaled)
        await asyncio.sleep(REST_SECONDS)
        refuse(scaled, DENIED, lambda r: r.verb == "replace" and r.name == "bad")
        await scaled.create("ScaleOut", "bad")
        await asyncio.sleep(120)
        await scaled.create("ScaleOut", "good", script="/s.sh")
        assert await scaled.wait_for_end("ScaleOut", "good", seconds=10) == "ScaleSucceeded"


async def test_as_many_scalers_as_are_considered_do_not_hold_up_the_next_one() -> None:
    async with open_scaled_job() as scaled:
        await start(scaled)
        refuse(
            scaled,
            DENIED,
            lambda r: r.verb in {"replace", "patch"} and str(r.name).startswith("bad"),
        )
        for number in range(100):
            await scaled.create("ScaleOut", f"bad{number:03}")
        await asyncio.sleep(5)
        await scaled.create("ScaleOut", "good")
        assert await scaled.wait_for_end("ScaleOut", "good", seconds=60) == "ScaleSucceeded"


async def test_scale_in_names_a_pod_that_is_not_deleted_in_time_and_the_next_one_starts() -> None:
    async with open_scaled_job() as scaled:
        await start(scaled)
        patch = {"metadata": {"finalizers": ["example.com/stay"]}}
        await scaled.jobs.world.user.patch(PODS, NAMESPACE, "elastic-worker-1", patch)
        await scaled.create("ScaleIn", "less", timeout=5)
        assert await scaled.wait_for_end("ScaleIn", "less") == "ScaleSucceeded"
        text = "Pods that are not deleted yet: elastic-worker-1"
        assert scaled.read_end("ScaleIn", "less")[2].endswith(text)
        await scaled.create("ScaleIn", "next", toDelete={"podNames": ["x-worker-0"]})
        assert await scaled.wait_for_end("ScaleIn", "next") == "ScaleFailed"


async def test_result_with_characters_that_cannot_be_stored_ends_the_scaler() -> None:
    async with open_scaled_job() as scaled:
        await start_unanswered(scaled, "ScaleOut")
        uid = scaled.find(SCALE_OUTS, "late")["metadata"]["uid"]
        text = f'{{"uid":"{uid}","code":3,"message":"\\u001b[31mred\\ud800"}}'
        patch = {"metadata": {"annotations": {constants.SCALER_RESULT_ANNOTATION: text}}}
        await scaled.jobs.world.user.patch(PODS, NAMESPACE, "elastic-launcher-0", patch)
        assert await scaled.wait_for_end("ScaleOut", "late") == "ScaleFailed"
        _, reason, message = scaled.read_end("ScaleOut", "late")
        assert (reason, message) == ("ScriptFailed", "\\x1b[31mred\\ud800")


async def test_worker_that_has_ended_does_not_count_as_one_that_is_left() -> None:
    async with open_scaled_job() as scaled:
        await start(scaled)
        user = scaled.jobs.world.user
        await user.delete(PODS, NAMESPACE, "elastic-worker-0", grace_seconds=0)
        await asyncio.sleep(20)
        await scaled.create("ScaleIn", "one")
        assert await scaled.wait_for_end("ScaleIn", "one") == "ScaleFailed"
        assert scaled.read_end("ScaleIn", "one")[1] == "BelowMinReplicas"


async def test_scale_out_whose_launcher_is_replaced_says_so() -> None:
    async with open_scaled_job() as scaled:
        await start(scaled, restartPolicy="OnFailure")
        await asyncio.sleep(10)
        scaled.agent.is_silent = True
        await scaled.create("ScaleOut", "one", script="/s.sh")
        await scaled.jobs.world.wait_for("a request", scaled.has_request)
        user = scaled.jobs.world.user
        await user.delete(PODS, NAMESPACE, "elastic-launcher-0", grace_seconds=0)
        assert await scaled.wait_for_end("ScaleOut", "one", seconds=1000) == "ScaleFailed"
        assert scaled.read_end("ScaleOut", "one")[1] == "LauncherReplaced"


async def test_faulty_scaler_of_a_job_is_deleted_with_it() -> None:
    async with open_scaled_job() as scaled:
        await start(scaled)
        await scaled.create("ScaleOut", "faulty", toAdd={})
        assert await scaled.wait_for_end("ScaleOut", "faulty") == "ScaleFailed"
        owners = scaled.find(SCALE_OUTS, "faulty")["metadata"]["ownerReferences"]
        assert [owner["uid"] for owner in owners] == [scaled.jobs.read()["metadata"]["uid"]]

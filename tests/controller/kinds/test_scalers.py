"""ScaleIns and ScaleOuts of a TrainingJob, carried out by a controller in virtual time."""

import asyncio
from typing import Any

import pytest

from controller.kinds.decide.ownership import KIND_LABEL
from controller.kinds.decide.workers import ScaledWorkers, decode_workers
from framework.api import constants
from framework.kinds.compiled import WantedWorkers
from framework.kube.resources import FRAMEWORKS, NAMESPACES, SCALE_INS, SERVICES
from tests.controller.kinds.scalerworlds import ScaledJob, build_scaler_wire, open_scaled_job
from tests.support.builders import NAMESPACE

pytestmark = pytest.mark.looptime

SUCCESS = ["Created", "Scaling", "ScriptExecuted", "ScaleSucceeded"]
REST_SECONDS = 15


async def start(scaled: ScaledJob, **spec: Any) -> None:
    scaled.jobs.world.start()
    await scaled.run(**spec)


async def start_unanswered(scaled: ScaledJob, kind: str) -> None:
    """Run a job with the scaler ``late``, which has changed the workers and gets no answer."""
    scaled.agent.is_silent = True
    await start(scaled)
    await scaled.create(kind, "late", script="/s.sh")
    await scaled.jobs.wait_for_phase("Scaling")
    await asyncio.sleep(5)


async def check_calm(scaled: ScaledJob, workers: list[int]) -> None:
    """Nothing is left of a scaler but its workers."""
    await asyncio.sleep(REST_SECONDS)
    assert scaled.list_workers() == workers
    assert not scaled.has_request()
    status = scaled.jobs.read_status()
    names = [f"elastic-worker-{index}" for index in workers]
    assert "currentScaler" not in status
    assert (status["phase"], status["currentWorkers"]) == ("Running", names)
    assert status["targetWorkers"] == names
    assert "FrameworkEdited" not in scaled.jobs.read_conditions()
    services = scaled.jobs.world.list_objects(SERVICES)
    assert sorted(service["metadata"]["name"] for service in services) == names


async def test_scale_out_adds_workers_and_runs_its_script_when_they_run() -> None:
    async with open_scaled_job() as scaled:
        await start(scaled)
        made = await scaled.create("ScaleOut", "more", toAdd={"count": 2}, script="/grow.sh")
        assert await scaled.wait_for_end("ScaleOut", "more") == "ScaleSucceeded"
        assert scaled.read_conditions("ScaleOut", "more") == SUCCESS
        assert scaled.agent.scripts == [made["metadata"]["uid"]]
        await check_calm(scaled, [0, 1, 2, 3])
        states = {c["type"]: c["status"] for c in scaled.jobs.read_status()["conditions"]}
        assert (states["Scaling"], states["ScaleSucceeded"]) == ("False", "True")


async def test_scale_in_by_name_leaves_a_gap_that_later_changes_of_the_job_keep() -> None:
    async with open_scaled_job() as scaled:
        await start(scaled)
        names = ["elastic-worker-0"]
        await scaled.create("ScaleIn", "less", toDelete={"podNames": names}, script="/shrink.sh")
        assert await scaled.wait_for_end("ScaleIn", "less") == "ScaleSucceeded"
        await check_calm(scaled, [1])
        job = scaled.jobs.read()
        job["spec"]["restartPolicy"] = "OnFailure"
        await scaled.jobs.world.user.replace(scaled.jobs.resource, NAMESPACE, "elastic", job)
        await check_calm(scaled, [1])
        framework = scaled.find(FRAMEWORKS, "elastic")
        assert framework["spec"]["retryPolicy"]["maxRetryCount"] == 6


async def test_scalers_of_one_second_are_carried_out_in_the_order_of_their_creation() -> None:
    async with open_scaled_job() as scaled:
        await start(scaled)
        made = [
            (await scaled.create(kind, name, script="/s.sh"))["metadata"]["uid"]
            for kind, name in (("ScaleOut", "z"), ("ScaleIn", "y"), ("ScaleOut", "x"))
        ]
        for kind, name in (("ScaleOut", "x"), ("ScaleIn", "y"), ("ScaleOut", "z")):
            assert await scaled.wait_for_end(kind, name) == "ScaleSucceeded"
        assert scaled.agent.scripts == made
        await check_calm(scaled, [0, 1, 2])


async def test_failed_scaler_is_a_condition_of_its_job() -> None:
    async with open_scaled_job() as scaled:
        scaled.agent.code = 3
        await start(scaled)
        await scaled.create("ScaleOut", "more", script="/s.sh")
        assert await scaled.wait_for_end("ScaleOut", "more") == "ScaleFailed"
        await check_calm(scaled, [0, 1])
        last = scaled.jobs.read_status()["conditions"][-1]
        assert (last["type"], last["reason"]) == ("ScaleFailed", "ScalingOutFailed")
        assert last["message"].startswith(f"ScaleOut:{NAMESPACE}/more has failed (ScriptFailed)")


async def test_status_of_the_job_names_the_scaler_in_progress() -> None:
    async with open_scaled_job() as scaled:
        scaled.agent.is_silent = True
        await start(scaled)
        await scaled.create("ScaleIn", "less")
        await scaled.jobs.wait_for_phase("Scaling")
        assert scaled.jobs.read_status()["currentScaler"] == f"ScaleIn:{NAMESPACE}/less"
        assert scaled.jobs.read_conditions()[-1] == "Scaling"
        owners = scaled.find(SCALE_INS, "less")["metadata"]["ownerReferences"]
        assert [owner["uid"] for owner in owners] == [scaled.jobs.read()["metadata"]["uid"]]
        scaled.agent.is_silent = False
        await scaled.wait_for_end("ScaleIn", "less")
        await check_calm(scaled, [0])


async def test_scalers_of_a_job_are_carried_out_one_after_the_other_the_oldest_first() -> None:
    async with open_scaled_job() as scaled:
        await start(scaled)
        made = []
        for kind, name in (("ScaleOut", "z"), ("ScaleIn", "y"), ("ScaleOut", "x")):
            made.append((await scaled.create(kind, name, script="/s.sh"))["metadata"]["uid"])
            await asyncio.sleep(1.1)  # creationTimestamp has seconds
        for kind, name in (("ScaleOut", "x"), ("ScaleIn", "y"), ("ScaleOut", "z")):
            assert await scaled.wait_for_end(kind, name) == "ScaleSucceeded"
        assert scaled.agent.scripts == made
        await check_calm(scaled, [0, 1, 2])


@pytest.mark.parametrize(
    ("kind", "spec", "reason", "message"),
    [
        ("ScaleIn", {"toDelete": {"count": 2}}, "BelowMinReplicas", "minReplicas of elastic is 1"),
        ("ScaleOut", {"toAdd": {"count": 8}}, "AboveMaxReplicas", "maxReplicas of elastic is 9"),
        ("ScaleIn", {"toDelete": {"podNames": ["elastic-worker-9"]}}, "UnknownWorker", "worker-9"),
        ("ScaleIn", {"toDelete": {"podNames": ["x-worker-0"]}}, "InvalidSpec", "x-worker-0"),
        ("ScaleOut", {"toAdd": {}}, "InvalidSpec", "spec.toAdd.count: is required"),
        ("ScaleOut", {"selector": {}}, "InvalidSpec", "spec.selector.name: is required"),
        ("ScaleOut", {"selector": {"name": "../x"}}, "InvalidSpec", "is not the name of a Tra"),
        ("ScaleOut", {"selector": {"name": "other"}}, "JobNotFound", "no TrainingJob other"),
    ],
    ids=["min", "max", "index", "name", "count", "selector", "path", "job"],
)
async def test_refused_scaler_says_why_and_changes_nothing(
    kind: str, spec: dict[str, Any], reason: str, message: str
) -> None:
    async with open_scaled_job() as scaled:
        await start(scaled)
        before = scaled.find(FRAMEWORKS, "elastic")["spec"]
        await scaled.create(kind, "refused", **spec)
        assert await scaled.wait_for_end(kind, "refused") == "ScaleFailed"
        _, found, text = scaled.read_end(kind, "refused")
        assert found == reason
        assert message in text
        assert scaled.find(FRAMEWORKS, "elastic")["spec"] == before
        await check_calm(scaled, [0, 1])


@pytest.mark.parametrize(("kind", "code"), [("ScaleIn", 3), ("ScaleOut", 3), ("ScaleOut", 0)])
async def test_failed_scaler_is_undone_and_the_job_goes_on(kind: str, code: int) -> None:
    async with open_scaled_job() as scaled:
        scaled.agent.code = code
        scaled.agent.is_silent = not code
        await start(scaled)
        launcher = scaled.jobs.read_framework()["status"]["attemptStatus"]["id"]
        await scaled.create(kind, "failing", script="/fails.sh", timeout=20)
        assert await scaled.wait_for_end(kind, "failing") == "ScaleFailed"
        assert scaled.read_end(kind, "failing")[1] == ("ScriptFailed" if code else "Timeout")
        await check_calm(scaled, [0, 1])
        assert scaled.jobs.read_framework()["status"]["attemptStatus"]["id"] == launcher


async def test_last_change_of_replicas_wins_and_waits_for_the_scaler_in_progress() -> None:
    async with open_scaled_job() as scaled:
        await start(scaled)
        await scaled.create("ScaleIn", "first", toDelete={"podNames": ["elastic-worker-0"]})
        await scaled.wait_for_end("ScaleIn", "first")
        await scaled.scale(3)
        await check_calm(scaled, [1, 2, 3])
        scaled.agent.is_silent = True
        await scaled.create("ScaleOut", "second", script="/s.sh")
        await scaled.jobs.wait_for_phase("Scaling")
        await scaled.scale(1)
        await asyncio.sleep(REST_SECONDS)
        assert scaled.list_workers() == [1, 2, 3, 4]
        scaled.agent.is_silent = False
        assert await scaled.wait_for_end("ScaleOut", "second") == "ScaleSucceeded"
        await check_calm(scaled, [1])


async def test_replicas_changed_during_the_first_scaler_wait_for_its_end() -> None:
    async with open_scaled_job() as scaled:
        scaled.agent.is_silent = True
        await start(scaled)
        await scaled.create("ScaleOut", "more", script="/s.sh", timeout=40)
        await scaled.jobs.wait_for_phase("Scaling")
        await scaled.scale(5)
        await asyncio.sleep(REST_SECONDS)
        assert scaled.list_workers() == [0, 1, 2]
        scaled.agent.is_silent = False
        await scaled.wait_for_end("ScaleOut", "more")
        await check_calm(scaled, [0, 1, 2, 3, 4])


async def test_deleted_scaler_leaves_no_request_and_the_next_one_goes_on() -> None:
    async with open_scaled_job() as scaled:
        scaled.agent.is_silent = True
        await start(scaled)
        await scaled.create("ScaleIn", "less", script="/s.sh")
        await scaled.jobs.world.wait_for("a request", scaled.has_request)
        await asyncio.sleep(5)
        await scaled.jobs.world.user.delete(SCALE_INS, NAMESPACE, "less")
        await asyncio.sleep(5)
        assert not scaled.has_request()
        scaled.agent.is_silent = False
        await check_calm(scaled, [0])
        await scaled.create("ScaleOut", "more")
        assert await scaled.wait_for_end("ScaleOut", "more") == "ScaleSucceeded"
        await check_calm(scaled, [0, 1])


async def test_scaler_of_a_job_of_another_namespace_finds_no_job() -> None:
    async with open_scaled_job() as scaled:
        await start(scaled)
        body = build_scaler_wire("ScaleIn", "foreign")
        body["metadata"]["namespace"] = "other"
        user = scaled.jobs.world.user
        await user.create(NAMESPACES, None, {"metadata": {"name": "other"}})
        await user.create(SCALE_INS, "other", body)
        assert await scaled.wait_for_end("ScaleIn", "foreign") == "ScaleFailed"
        assert scaled.read_end("ScaleIn", "foreign")[1] == "JobNotFound"
        await check_calm(scaled, [0, 1])


async def test_scaler_of_a_job_that_ends_fails_and_is_deleted_with_it() -> None:
    async with open_scaled_job() as scaled:
        await start_unanswered(scaled, "ScaleOut")
        scaled.jobs.is_ending = True
        await scaled.jobs.wait_for_phase("Succeeded")
        assert await scaled.wait_for_end("ScaleOut", "late") == "ScaleFailed"
        assert scaled.read_end("ScaleOut", "late")[1] == "JobFinished"
        await scaled.create("ScaleIn", "later")
        await scaled.wait_for_end("ScaleIn", "later")
        assert scaled.read_end("ScaleIn", "later")[1] == "JobFinished"
        await asyncio.sleep(REST_SECONDS)
        assert "currentScaler" not in scaled.jobs.read_status()
        user = scaled.jobs.world.user
        await user.delete(scaled.jobs.resource, NAMESPACE, "elastic", propagation="Foreground")
        await asyncio.sleep(REST_SECONDS)
        assert list(scaled.jobs.list_owned()) == []


async def delete_framework(scaled: ScaledJob) -> None:
    """Delete the Framework as another client does, and wait until the job has a new one."""
    uid = scaled.jobs.read_framework()["metadata"]["uid"]
    await scaled.jobs.world.user.delete(FRAMEWORKS, NAMESPACE, "elastic")

    def is_new() -> bool:
        found = scaled.jobs.find(FRAMEWORKS, "elastic")
        return found is not None and found["metadata"]["uid"] != uid

    await scaled.jobs.world.wait_for("another Framework", is_new)
    await scaled.jobs.wait_for_phase("Running")


async def test_deleted_framework_comes_back_with_the_workers_that_scalers_have_made() -> None:
    async with open_scaled_job() as scaled:
        await start(scaled)
        await scaled.create("ScaleOut", "more")
        await scaled.wait_for_end("ScaleOut", "more")
        names = ["elastic-worker-0"]
        await scaled.create("ScaleIn", "less", toDelete={"podNames": names})
        await scaled.wait_for_end("ScaleIn", "less")
        await delete_framework(scaled)
        await check_calm(scaled, [1, 2])
        await scaled.scale(3)
        await check_calm(scaled, [1, 2, 3])
        await delete_framework(scaled)
        await check_calm(scaled, [1, 2, 3])


async def test_replicas_that_change_while_the_framework_is_deleted_win() -> None:
    async with open_scaled_job() as scaled:
        await start(scaled)
        await scaled.create("ScaleIn", "less", toDelete={"podNames": ["elastic-worker-0"]})
        await scaled.wait_for_end("ScaleIn", "less")
        (program,) = scaled.jobs.world.programs
        program.link.is_cut = True
        await scaled.jobs.world.user.delete(FRAMEWORKS, NAMESPACE, "elastic")
        await scaled.scale(3)
        await asyncio.sleep(1)
        program.link.is_cut = False
        await asyncio.sleep(60)
        await check_calm(scaled, [1, 2, 3])


async def test_framework_deleted_during_a_scaler_comes_back_without_its_change() -> None:
    async with open_scaled_job() as scaled:
        scaled.agent.is_silent = True
        await start(scaled)
        await scaled.create("ScaleOut", "more", script="/s.sh")
        await scaled.jobs.world.wait_for("a request", scaled.has_request)
        await delete_framework(scaled)
        assert await scaled.wait_for_end("ScaleOut", "more") == "ScaleFailed"
        assert scaled.read_end("ScaleOut", "more")[1] == "LauncherReplaced"
        await check_calm(scaled, [0, 1])


async def test_framework_that_loses_its_label_keeps_the_workers_of_scalers() -> None:
    async with open_scaled_job() as scaled:
        await start(scaled)
        await scaled.create("ScaleIn", "less", toDelete={"podNames": ["elastic-worker-0"]})
        await scaled.wait_for_end("ScaleIn", "less")
        before = scaled.jobs.read_framework()["metadata"]
        patch = {"metadata": {"labels": {KIND_LABEL: None}}}
        await scaled.jobs.world.user.patch(FRAMEWORKS, NAMESPACE, "elastic", patch)
        await check_calm(scaled, [1])
        after = scaled.jobs.read_framework()["metadata"]
        assert (after["uid"], after["labels"]) == (before["uid"], before["labels"])


async def test_scaler_in_progress_asks_for_the_whole_configmap_only_after_a_change() -> None:
    async with open_scaled_job() as scaled:
        await start(scaled)
        await asyncio.sleep(REST_SECONDS)  # the agent acknowledges the roster
        scaled.agent.is_silent = True
        await scaled.create("ScaleIn", "less", script="/s.sh", timeout=600)
        await scaled.jobs.world.wait_for("a request", scaled.has_request)
        await asyncio.sleep(5)
        (program,) = scaled.jobs.world.programs
        program.client.sent.clear()
        await asyncio.sleep(120)
        sent = [request for request in program.client.sent if request.name == "elastic-attempt"]
        reads = [request.is_for_metadata for request in sent if request.verb == "get"]
        assert reads.count(True) > 10
        assert False not in reads
        assert scaled.has_request()


SUSPENDED = "job-supervisor.kube-ai.io/job-suspended"


@pytest.mark.parametrize("kind", ["ScaleIn", "ScaleOut"])
async def test_scaler_of_a_job_that_gets_faults_is_undone_and_the_job_goes_on(kind: str) -> None:
    async with open_scaled_job() as scaled:
        await start_unanswered(scaled, kind)
        launcher = scaled.jobs.read_framework()["status"]["attemptStatus"]["id"]
        changed = scaled.find(FRAMEWORKS, "elastic")["spec"]["taskRoles"][1]["taskNumber"]
        assert changed == (1 if kind == "ScaleIn" else 3)
        correct = scaled.jobs.read()["spec"]
        await scaled.edit(lambda job: job["spec"].update(backoffLimit=-3))
        assert await scaled.wait_for_end(kind, "late") == "ScaleFailed"
        assert scaled.read_end(kind, "late")[1:] == (
            "JobFinished",
            "the TrainingJob elastic has faults in its spec",
        )
        await asyncio.sleep(REST_SECONDS)
        assert scaled.list_workers() == [0, 1]
        assert not scaled.has_request()
        assert scaled.jobs.read_conditions()[0] == "InvalidSpec"
        await scaled.edit(lambda job: job.update(spec=correct))
        await check_calm(scaled, [0, 1])
        assert scaled.jobs.read_framework()["status"]["attemptStatus"]["id"] == launcher


async def test_faulty_number_of_replicas_is_not_what_a_failed_scaler_puts_back() -> None:
    async with open_scaled_job() as scaled:
        await start_unanswered(scaled, "ScaleOut")
        await scaled.scale(12)  # above maxReplicas
        await scaled.edit(lambda job: job["spec"].update(backoffLimit=-3))
        await scaled.wait_for_end("ScaleOut", "late")
        await asyncio.sleep(REST_SECONDS)
        assert scaled.list_workers() == [0, 1]


async def test_scale_out_of_a_job_that_is_suspended_leaves_none_of_its_workers() -> None:
    async with open_scaled_job() as scaled:
        await start_unanswered(scaled, "ScaleOut")
        assert scaled.list_workers() == [0, 1, 2]
        await scaled.edit(lambda job: job["metadata"].update(annotations={SUSPENDED: "true"}))
        assert await scaled.wait_for_end("ScaleOut", "late") == "ScaleFailed"
        assert scaled.read_end("ScaleOut", "late")[1:] == (
            "JobFinished",
            "the TrainingJob elastic is suspended",
        )
        await asyncio.sleep(REST_SECONDS)
        assert scaled.jobs.read_status()["phase"] == "Suspended"
        assert "currentScaler" not in scaled.jobs.read_status()
        framework = scaled.jobs.read_framework()
        assert framework["spec"]["executionType"] == "Stop"
        assert framework["status"]["state"] == "Completed"
        assert framework["spec"]["taskRoles"][1]["taskNumber"] == 2
        text = scaled.read_annotations()[constants.SCALED_WORKERS_ANNOTATION]
        assert decode_workers(text) == ScaledWorkers(WantedWorkers(2, (), 180), 2)

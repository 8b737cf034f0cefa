"""Faults of a job: what the status says, and that nothing is created, in virtual time."""

import asyncio
import json
from typing import Any

import pytest

from framework.kube.resources import (
    Object,
)
from tests.controller.kinds.jobworlds import (
    KINDS,
    REST_SECONDS,
    edit,
    end,
    list_events,
    open_jobs,
    run,
)
from tests.framework.kinds.jobs import build_template

pytestmark = pytest.mark.looptime

FAULTY: dict[str, tuple[Object, str]] = {
    "TfJob": ({"replicaSpecs": [{"template": build_template("other")}]}, "spec.replicaSpecs[0]"),
    "TrainingJob": ({"backoffLimit": -3}, "spec.backoffLimit"),
}


@pytest.mark.parametrize("kind", KINDS)
async def test_faulty_spec_is_explained_and_nothing_created_until_it_is_corrected(
    kind: str,
) -> None:
    spec, field = FAULTY[kind]
    async with open_jobs(kind) as jobs:
        jobs.world.start()
        await jobs.create(**spec)
        await jobs.wait_for_phase("Failed")
        await asyncio.sleep(REST_SECONDS)
        assert list(jobs.list_owned()) == []
        assert field in json.dumps(jobs.read_status())
        await edit(jobs, jobs.resource, lambda job: job.update(spec=jobs.build()["spec"]))
        await jobs.wait_for_phase("Running")
        assert "Failed" not in jobs.read_conditions()


@pytest.mark.parametrize("kind", KINDS)
async def test_faulty_change_of_a_running_job_is_explained_and_it_goes_on(kind: str) -> None:
    spec, field = FAULTY[kind]
    async with open_jobs(kind) as jobs:
        await run(jobs)
        before = jobs.read_framework()["spec"]
        await edit(jobs, jobs.resource, lambda job: job["spec"].update(spec))
        await asyncio.sleep(REST_SECONDS)
        condition = jobs.read_status()["conditions"][0]
        assert condition["type"] == "InvalidSpec"
        assert field in (condition.get("message") or condition["reason"])
        assert jobs.read_status()["phase"] == "Running"
        assert jobs.read_framework()["spec"] == before
        await edit(jobs, jobs.resource, lambda job: job.update(spec=jobs.build()["spec"]))
        await asyncio.sleep(REST_SECONDS)
        assert "InvalidSpec" not in jobs.read_conditions()
        await end(jobs)


async def test_service_type_that_opens_ports_of_nodes_is_refused() -> None:
    board = {"logDir": "/logs", "serviceType": "NodePort"}
    async with open_jobs("TfJob") as jobs:
        jobs.world.start()
        await jobs.create(tensorboard=board)
        await jobs.wait_for_phase("Failed")
        assert "spec.tensorboard.serviceType: NodePort" in jobs.read_status()["reason"]
        assert list(jobs.list_owned()) == []


async def test_directory_of_the_node_for_tensorboard_is_refused() -> None:
    volumes = [{"name": "a", "emptyDir": {}}, {"name": "b", "hostPath": {"path": "/"}}]
    async with open_jobs("TfJob") as jobs:
        jobs.world.start()
        await jobs.create(tensorboard={"logDir": "/logs", "volumes": volumes})
        await jobs.wait_for_phase("Failed")
        assert "spec.tensorboard.volumes[1].hostPath" in jobs.read_status()["reason"]
        assert list(jobs.list_owned()) == []


@pytest.mark.parametrize("kind", KINDS)
async def test_job_that_cannot_be_decided_has_a_condition_and_one_event(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[int] = []

    def fail(*_: Any, **__: Any) -> Any:
        calls.append(1)
        raise TypeError("secret text")

    async with open_jobs(kind) as jobs:
        await run(jobs)
        before = jobs.read_status()
        with monkeypatch.context() as patch:
            patch.setattr(f"controller.kinds.decide.{kind.lower()}.compile_{kind.lower()}", fail)
            await edit(jobs, jobs.resource, lambda job: job["metadata"].update(labels={"a": "b"}))
            await asyncio.sleep(REST_SECONDS)
            condition, *others = jobs.read_status()["conditions"]
            assert condition["type"] == "Blocked"
            text = json.dumps(condition)
            assert "Undecidable" in text
            assert "TypeError" in text
            assert jobs.read_status()["reason"].startswith("Undecidable: ")
            assert "secret text" not in text
            assert others == before["conditions"]
            assert jobs.read_status()["phase"] == "Running"
            count = len(calls)
            await asyncio.sleep(300)
            assert len(calls) == count
            assert [event["reason"] for event in list_events(jobs)] == ["Blocked"]
        await asyncio.sleep(600)
        assert "Blocked" not in jobs.read_conditions()
        assert not jobs.read_status().get("reason")
        await end(jobs)


@pytest.mark.parametrize("kind", KINDS)
async def test_job_that_is_too_large_is_explained_and_left_as_it_is(kind: str) -> None:
    def grow(job: Object) -> None:
        # The API server limits all annotations of an object together, but not its labels.
        labels = {f"label-{i}": "v" * 60 for i in range(8000)}
        job["metadata"]["labels"] = labels

    def shrink(job: Object) -> None:
        del job["metadata"]["labels"]

    async with open_jobs(kind) as jobs:
        await run(jobs)
        before, framework = jobs.read_status(), jobs.read_framework()["spec"]
        await edit(jobs, jobs.resource, grow)
        await asyncio.sleep(REST_SECONDS)
        condition, *others = jobs.read_status()["conditions"]
        assert condition["type"] == "Blocked"
        text = json.dumps(condition)
        assert "TooLarge" in text
        assert "more than 524288 bytes" in text
        assert others == before["conditions"]
        assert jobs.read_status()["reason"].startswith("TooLarge: ")
        assert jobs.read_framework()["spec"] == framework
        assert [event["reason"] for event in list_events(jobs)] == ["Blocked"]
        await edit(jobs, jobs.resource, shrink)
        await asyncio.sleep(REST_SECONDS)
        assert "Blocked" not in jobs.read_conditions()
        await end(jobs)

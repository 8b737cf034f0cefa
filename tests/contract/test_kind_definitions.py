"""The CustomResourceDefinitions of TfJob, TrainingJob, ScaleIn and ScaleOut on an API server."""

from typing import Any

import pytest

from framework.kinds.crd import build_crds
from tests.contract.apiclient import TABLE, Api, Object
from tests.contract.definitions import Kind, defined
from tests.framework.kinds.jobs import build_tfjob, build_trainingjob

JOBS = ("tfjob", "trainingjob")
KINDS = (*JOBS, "scalein", "scaleout")
SPECS: dict[str, Object] = {
    "tfjob": build_tfjob()["spec"],
    "trainingjob": build_trainingjob()["spec"],
    "scalein": {
        "selector": {"name": "elastic"},
        "toDelete": {"count": 1, "podNames": ["elastic-worker-1"]},
        "script": "/shrink.sh",
        "timeout": 30,
        "env": [{"name": "A", "value": "b"}],
    },
    "scaleout": {"selector": {"name": "elastic"}, "toAdd": {"count": 2}},
}
SNAKE_CASE = {
    "runtimeid": "76no",
    "replica_specs": [
        {"replicas": 1, "tf_port": 2222, "tf_replica_type": "MASTER", "template": {"odd": [None]}}
    ],
}


def define(name: str) -> Object:
    """The definition of a kind, served as v1 for the clients of these tests."""
    definition = build_crds()[name]
    definition["spec"]["versions"][0]["name"] = "v1"
    return definition


def build_spec(name: str, **fields: Any) -> Object:
    return {**SPECS[name], **fields}


@pytest.mark.parametrize("name", KINDS)
async def test_definition_of_a_kind_is_accepted_under_its_own_name(api: Api, name: str) -> None:
    answer = await api.create("customresourcedefinitions", build_crds()[name], dryRun="All")
    assert answer.status in {201, 409}, answer.body


@pytest.mark.parametrize(
    ("name", "spec"),
    [
        ("tfjob", build_spec("tfjob")),
        ("tfjob", SNAKE_CASE),
        ("tfjob", {"replicaSpecs": None, "tensorboard": None, "future": {"a": None}}),
        ("trainingjob", build_spec("trainingjob")),
        ("trainingjob", {"etReplicaSpecs": None, "slotsPerWorker": None, "future": [1]}),
        ("scalein", build_spec("scalein")),
        ("scalein", {"selector": {"future": 1}, "toDelete": None, "env": [None], "script": None}),
        ("scaleout", build_spec("scaleout", backoffLimit=3)),
        ("scaleout", {"selector": None, "toAdd": {"future": None}, "timeout": None}),
    ],
    ids=[
        "tfjob",
        "snake case",
        "tfjob with nulls",
        "trainingjob",
        "trainingjob with nulls",
        "scalein",
        "scalein with nulls",
        "scaleout",
        "scaleout with nulls",
    ],
)
async def test_job_is_stored_as_its_user_wrote_it(api: Api, name: str, spec: Object) -> None:
    async with defined(api, define(name)) as kind:
        stored = (await kind.create(kind.build(spec=spec))).ok()
    assert stored["spec"] == spec


async def test_workers_without_a_number_are_one(api: Api) -> None:
    spec: Object = {"etReplicaSpecs": {"worker": {"template": {}}}}
    async with defined(api, define("trainingjob")) as kind:
        stored = (await kind.create(kind.build(spec=spec))).ok()
    assert stored["spec"]["etReplicaSpecs"]["worker"] == {"replicas": 1, "template": {}}


WORKER = "spec.etReplicaSpecs.worker.replicas"
WITH_RULES = {"scalein", "scaleout"}
UNCHECKED = {"FieldValueTypeInvalid", "FieldValueTooMany"}


@pytest.mark.parametrize(
    ("name", "spec", "field"),
    [
        ("tfjob", {"runtimeId": 5}, "spec.runtimeId"),
        ("tfjob", {"replicaSpecs": [{"replicas": 10_001}]}, "spec.replicaSpecs[0].replicas"),
        ("tfjob", {"replica_specs": [{}] * 17}, "spec.replica_specs"),
        ("tfjob", {"tfImage": "x" * 4097}, "spec.tfImage"),
        ("trainingjob", {"slotsPerWorker": "2"}, "spec.slotsPerWorker"),
        ("trainingjob", {"etReplicaSpecs": {"worker": {"replicas": 0}}}, WORKER),
        ("trainingjob", {"etReplicaSpecs": {"worker": {"replicas": 10_001}}}, WORKER),
        ("scalein", {"selector": {"name": 5}}, "spec.selector.name"),
        ("scalein", {"toDelete": {"podNames": ["x"] * 1001}}, "spec.toDelete.podNames"),
        ("scalein", {"toDelete": {"count": -1}}, "spec.toDelete.count"),
        ("scaleout", {"toAdd": {"count": "2"}}, "spec.toAdd.count"),
        ("scaleout", {"timeout": 86_401}, "spec.timeout"),
        ("scaleout", {"timeout": 0}, "spec.timeout"),
        ("scaleout", {"env": [{}] * 65}, "spec.env"),
    ],
)
async def test_value_out_of_bounds_is_refused_with_its_field(
    api: Api, name: str, spec: Object, field: str, request: pytest.FixtureRequest
) -> None:
    async with defined(api, define(name)) as kind:
        answer = await kind.create(kind.build(spec=spec))
    assert answer.status == 422
    # After such a fault, a real server checks no rules, and adds a cause with the field "<nil>".
    is_unchecked = (
        request.node.callspec.params["api"] == "kube"
        and name in WITH_RULES
        and not UNCHECKED.isdisjoint(reason for reason, _ in answer.causes)
    )
    assert answer.fields == ["<nil>", field][not is_unchecked :]


# The local server checks no rules of these definitions.
@pytest.mark.parametrize("api", [pytest.param("kube", marks=pytest.mark.kube)], indirect=True)
@pytest.mark.parametrize("name", ["scalein", "scaleout"])
async def test_spec_of_a_scaler_does_not_change(api: Api, name: str) -> None:
    async with defined(api, define(name)) as kind:
        (await kind.create(kind.build(spec=build_spec(name)))).ok()
        answer = await kind.patch({"spec": {"timeout": 77}})
        (await kind.patch({"metadata": {"labels": {"a": "b"}}})).ok()
    assert answer.status == 422
    assert "delete the scaler and create another" in str(answer.body)


@pytest.mark.parametrize("name", JOBS)
async def test_name_longer_than_one_in_dns_is_refused(api: Api, name: str) -> None:
    async with defined(api, define(name)) as kind:
        answer = await kind.create(kind.build("x" * 64, spec=build_spec(name)))
    assert answer.status == 422
    assert "metadata.name" in answer.fields


@pytest.mark.parametrize("name", KINDS)
async def test_status_is_a_subresource_that_keeps_what_it_is_given(api: Api, name: str) -> None:
    status = {"phase": "Running", "conditions": [{"type": "Created", "odd": None}], "future": {}}
    async with defined(api, define(name)) as kind:
        created = (await kind.create(kind.build(spec=build_spec(name), status=status))).ok()
        assert "status" not in created
        changed = {**created, "spec": {}, "status": status}
        stored = (await kind.replace_status(changed)).ok()
    assert stored["status"] == status
    assert stored["spec"] == created["spec"]
    assert stored["metadata"]["generation"] == 1


PHASE = {"phase": "Running", "state": "Unknown"}
BLOCKED = {"phase": "Creating", "state": "Unknown", "reason": "NameTaken: delete it"}
REFUSED = {"phase": "Failed", "reason": "spec: bad"}
FAILURE = {"type": "ScaleFailed", "status": "True", "reason": "Timeout", "message": "no answer"}
FAILED = {"phase": "ScaleFailed", "conditions": [{"type": "Created", "reason": "no"}, FAILURE]}
OURS = ["REASON", "MESSAGE"]


@pytest.mark.parametrize(
    ("name", "status", "cells", "more"),
    [
        ("tfjob", PHASE, ["one", "Running", "Unknown"], [None]),
        ("tfjob", BLOCKED, ["one", "Creating", "Unknown"], ["NameTaken: delete it"]),
        ("trainingjob", PHASE, ["one", "Running"], [None]),
        ("trainingjob", REFUSED, ["one", "Failed"], ["spec: bad"]),
        ("scalein", PHASE, ["one", "Running"], [None, None]),
        ("scaleout", PHASE, ["one", "Running"], [None, None]),
        ("scalein", FAILED, ["one", "ScaleFailed"], ["Timeout", "no answer"]),
        ("scaleout", FAILED, ["one", "ScaleFailed"], ["Timeout", "no answer"]),
    ],
)
async def test_columns_are_those_of_the_originals_and_then_the_reason(
    api: Api, name: str, status: Object, cells: list[str], more: list[str | None]
) -> None:
    async with defined(api, define(name)) as kind:
        created = (await kind.create(kind.build(spec=build_spec(name)))).ok()
        (await kind.replace_status({**created, "status": status})).ok()
        table = await fetch_table(api, kind)
    shown = [column["name"].upper() for column in table["columnDefinitions"]]
    originals = ["NAME", "PHASE", *(["STATE"] if name == "tfjob" else []), "AGE"]
    assert shown == [*originals, *OURS[: len(more)]]
    (row,) = table["rows"]
    assert row["cells"][: len(cells)] == cells
    assert row["cells"][len(originals) :] == more
    priorities = [column["priority"] for column in table["columnDefinitions"]]
    assert priorities[len(originals) :] == [0, 1][: len(more)]


async def fetch_table(api: Api, kind: Kind) -> Object:
    table: Object = (await api.send("GET", kind._base, accept=TABLE)).ok()
    return table

"""The decisions about jobs of other kinds: tables of what exists, and what is done."""

import copy
import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from controller.kinds.decide.decision import (
    Action,
    Create,
    CreateKey,
    Decision,
    Delete,
    EmitEvent,
    Obstacle,
    Patch,
    Replace,
    ServiceView,
    Snapshot,
    TryCreate,
    WriteStatus,
)
from controller.kinds.decide.services import compute_form, read_headless
from controller.kinds.decide.tfjob import decide_tfjob
from controller.kinds.decide.trainingjob import decide_trainingjob
from framework.api import codec
from framework.api.completion import SUCCEEDED
from framework.api.states import FrameworkState
from framework.kinds.compiled import Object, WantedWorkers
from framework.kinds.tfjob.compile import compile_tfjob
from tests.framework.kinds import test_tfjob_faults, test_trainingjob_faults
from tests.framework.kinds.jobs import Change, build_tfjob, build_trainingjob
from tests.support.builders import AT, at, build_role_status, build_status, end_attempt

KINDS = ("TfJob", "TrainingJob")
MISTAKES = {
    "TfJob": test_tfjob_faults.MISTAKES,
    "TrainingJob": test_trainingjob_faults.MISTAKES,
}
# The API server stores no such object.
NOT_STORED = {"no-name", "no-metadata", "namespace"}
UID = "job-uid"
ENDED = {"TfJob": "Done", "TrainingJob": "Succeeded"}


def build_job(kind: str, **spec: Any) -> Object:
    job = (build_tfjob if kind == "TfJob" else build_trainingjob)(**spec)
    job["metadata"] |= {"uid": UID, "resourceVersion": "1"}
    return job


def build_snapshot(kind: str, **fields: Any) -> Snapshot:
    return replace(Snapshot(build_job(kind), None, {}, AT), **fields)


def decide(snapshot: Snapshot) -> Decision:
    """Decide twice: equal inputs give equal decisions, and stay as they are."""
    step = decide_tfjob if snapshot.job["kind"] == "TfJob" else decide_trainingjob
    before = copy.deepcopy(snapshot)
    decision = step(snapshot)
    assert step(before) == decision
    assert snapshot == before
    return decision


def list_actions(decision: Decision) -> list[Action]:
    return [action for stage in decision.stages for action in stage]


def find_status(decision: Decision) -> Object:
    (status,) = [a.status for a in list_actions(decision) if isinstance(a, WriteStatus)]
    return status


def list_kinds(decision: Decision) -> list[str]:
    return [type(action).__name__ for action in list_actions(decision)]


def find_created(decision: Decision, kind: str) -> Iterator[Object]:
    for action in list_actions(decision):
        if isinstance(action, Create | CreateKey) and action.body["kind"] == kind:
            yield action.body


def build_running(kind: str, **fields: Any) -> Snapshot:
    """A job whose Framework and Services exist, and whose status was written."""
    snapshot = build_snapshot(kind)
    first = decide(snapshot)
    (framework,) = find_created(first, "Framework")
    framework["metadata"] |= {"uid": "framework-uid", "resourceVersion": "5", "generation": 1}
    services = {
        body["metadata"]["name"]: ServiceView("u", compute_form(body))
        for body in find_created(first, "Service")
    }
    snapshot = replace(snapshot, framework=framework, services=services)
    snapshot.job["status"] = find_status(decide(snapshot))
    return replace(snapshot, **fields)


def build_completed(kind: str) -> Snapshot:
    """A job whose Framework has just come to its end."""
    snapshot = build_running(kind)
    assert snapshot.framework is not None
    roles = [
        build_role_status(role["name"], role["taskNumber"])
        for role in snapshot.framework["spec"]["taskRoles"]
    ]
    status = end_attempt(build_status(*roles, state=FrameworkState.COMPLETED), SUCCEEDED)
    framework = {**snapshot.framework, "status": codec.encode_status(status)}
    return replace(snapshot, framework=framework)


@pytest.mark.parametrize("kind", KINDS)
def test_new_job_gets_its_status_then_all_beside_the_framework_and_its_rights_and_then_it(
    kind: str,
) -> None:
    decision = decide(build_snapshot(kind))
    kinds = [
        [a.body["kind"] if isinstance(a, Create | CreateKey) else type(a).__name__ for a in stage]
        for stage in decision.stages
    ]
    beside = ["ServiceAccount", "Role"]
    beside += ["Service"] * 5 if kind == "TfJob" else ["Secret", "Service", "Service"]
    bindings = ["RoleBinding"] * (1 if kind == "TfJob" else 2)
    assert kinds == [["WriteStatus"], ["TryCreate"], beside, bindings, ["Framework"]]
    for action in list_actions(decision)[1:]:
        assert isinstance(action, TryCreate | Create | CreateKey)
        metadata = action.body["metadata"]
        assert metadata["namespace"] == "team"
        assert metadata["labels"]["frameworkbarrier.io/job-kind"] == kind
        (owner,) = metadata["ownerReferences"]
        assert (owner["uid"], owner["controller"], owner["blockOwnerDeletion"]) == (UID, True, True)


@pytest.mark.parametrize("kind", KINDS)
def test_job_at_rest_needs_nothing(kind: str) -> None:
    assert decide(build_running(kind)) == Decision(has_settled_services=True)


@pytest.mark.parametrize("kind", KINDS)
def test_missing_service_is_created_and_one_that_is_not_wanted_is_deleted(kind: str) -> None:
    snapshot = build_running(kind)
    services = dict(snapshot.services)
    gone, _ = services.popitem()
    decision = decide(replace(snapshot, services={**services, "old": ServiceView("old-uid", "")}))
    (created,) = find_created(decision, "Service")
    assert created["metadata"]["name"] == gone
    assert list_actions(decision)[1:] == [Delete("Service", "old", "old-uid")]


@pytest.mark.parametrize("kind", KINDS)
def test_changed_service_is_put_back_by_one_write(kind: str) -> None:
    snapshot = build_running(kind)
    name = next(iter(snapshot.services))
    changed = {**snapshot.services, name: ServiceView("u", "other")}
    (patch,) = list_actions(decide(replace(snapshot, services=changed)))
    assert isinstance(patch, Patch)
    assert (patch.kind, patch.name, patch.uid) == ("Service", name, "u")
    ports: Any = patch.fields["/spec/ports"]
    assert ports[0]["port"] == (2222 if kind == "TfJob" else 22)


@pytest.mark.parametrize(("address", "verb"), [("10.0.0.1", "Delete"), (None, "Patch")])
@pytest.mark.parametrize("kind", KINDS)
def test_service_whose_address_no_patch_removes_is_deleted_and_created_again(
    kind: str, address: str | None, verb: str
) -> None:
    snapshot = build_running(kind)
    name = next(iter(snapshot.services))
    found = read_headless({"spec": {"clusterIP": address}})
    services = {**snapshot.services, name: ServiceView("u", "other", found)}
    assert list_kinds(decide(replace(snapshot, services=services))) == [verb]
    services.pop(name)
    assert list_kinds(decide(replace(snapshot, services=services))) == ["Create"]


def test_service_with_a_fixed_address_stays_at_the_end() -> None:
    completed = build_completed("TfJob")
    services = {name: ServiceView("u", "other", is_headless=False) for name in completed.services}
    assert "Delete" not in list_kinds(decide(replace(completed, services=services)))


@pytest.mark.parametrize("kind", KINDS)
def test_settled_services_are_not_compared_until_the_end(kind: str) -> None:
    snapshot = build_running(kind, services={}, has_settled_services=True)
    assert decide(snapshot) == Decision(has_settled_services=True)
    completed = replace(build_completed(kind), has_settled_services=True)
    decision = decide(completed)
    assert ("Delete" in list_kinds(decision)) is (kind == "TrainingJob")
    assert not decision.has_settled_services
    # Without its Framework, it is created again with all that it needs.
    assert "Create" in list_kinds(decide(replace(snapshot, framework=None)))


SERVER_DEFAULTS: dict[str, Any] = {
    "sessionAffinity": "None", "ipFamilies": ["IPv4"], "clusterIPs": ["None"], "type": "ClusterIP",
}  # fmt: skip
EDITS_OF_A_SERVICE: dict[str, Callable[[Object], object]] = {
    "port": lambda spec: spec["ports"][0].update(port=23, targetPort=23),
    "target": lambda spec: spec["ports"][0].update(targetPort=23),
    "protocol": lambda spec: spec["ports"][0].update(protocol="UDP"),
    "a port more": lambda spec: spec["ports"].append({"port": 80}),
    "no ports": lambda spec: spec.pop("ports"),
    "selector": lambda spec: spec["selector"].update(a="b"),
    "type": lambda spec: spec.update(type="NodePort"),
    "unready": lambda spec: spec.update(
        publishNotReadyAddresses=not spec.get("publishNotReadyAddresses")
    ),
}


def build_stored_service(kind: str) -> tuple[Object, Object]:
    """Build a Service as the compile step wants it, and as an API server stores it."""
    service = next(find_created(decide(build_snapshot(kind)), "Service"))
    stored = copy.deepcopy(service)
    stored["spec"] |= SERVER_DEFAULTS
    for port in stored["spec"]["ports"]:
        port |= {"protocol": "TCP", "targetPort": port["port"]}
    return service, stored


@pytest.mark.parametrize("edit", EDITS_OF_A_SERVICE.values(), ids=EDITS_OF_A_SERVICE.keys())
@pytest.mark.parametrize("kind", KINDS)
def test_form_of_a_service_shows_edits_and_no_defaults_of_the_server(
    kind: str, edit: Callable[[Object], object]
) -> None:
    service, stored = build_stored_service(kind)
    assert compute_form(stored) == compute_form(service)
    edit(stored["spec"])
    assert compute_form(stored) != compute_form(service)


FOREIGN_OWNERS: dict[str, Any] = {
    "none": None,
    "no list": "x",
    "no object": ["x"],
    "other UID": [{"uid": "other", "controller": True}],
    "not the controller": [{"uid": UID}],
    "controller is text": [{"uid": UID, "controller": "true"}],
}


@pytest.mark.parametrize("owners", FOREIGN_OWNERS.values(), ids=FOREIGN_OWNERS.keys())
@pytest.mark.parametrize("kind", KINDS)
def test_framework_of_another_owner_blocks_the_job_and_is_not_touched(
    kind: str, owners: object
) -> None:
    snapshot = build_running(kind)
    assert snapshot.framework is not None
    metadata = {**snapshot.framework["metadata"], "ownerReferences": owners}
    foreign = {**snapshot.framework, "metadata": metadata, "spec": {}}
    decision = decide(build_snapshot(kind, framework=foreign))
    assert list_kinds(decision) == ["WriteStatus", "EmitEvent"]
    assert decision.is_blocked
    condition = find_status(decision)["conditions"][0]
    assert condition["type"] == "Blocked"
    assert "does not belong to this job: delete it" in json.dumps(condition)


@pytest.mark.parametrize("kind", KINDS)
def test_obstacle_is_told_once_and_stays_while_it_is_tried_again(kind: str) -> None:
    obstacle = Obstacle("Refused", "the API server refuses the Service a: full")
    snapshot = build_snapshot(kind, obstacle=obstacle)
    decision = decide(snapshot)
    assert list_kinds(decision) == ["WriteStatus", "EmitEvent"]
    snapshot.job["status"] = find_status(decision)
    assert decide(snapshot) == Decision(is_blocked=True)
    retried = decide(replace(snapshot, obstacle=None, now=at(60)))
    assert "WriteStatus" not in list_kinds(retried)
    assert any(find_created(retried, "Framework"))


def change_spec(*path: str | int, value: object) -> Callable[[Object], None]:
    def change(framework: Object) -> None:
        target: Any = framework["spec"]
        for step in path[:-1]:
            target = target[step]
        target[path[-1]] = value

    return change


POD_SPEC = ("taskRoles", 0, "task", "pod", "spec")
EDITS = {
    "workers": (change_spec("taskRoles", 1, "taskNumber", value=9), "taskRoles[1].taskNumber"),
    "image": (
        change_spec(*POD_SPEC, "containers", 0, "image", value="x"),
        "taskRoles[0].task.pod.spec.containers[0].image",
    ),
    "new field": (change_spec(*POD_SPEC, "hostNetwork", value=True), "pod.spec.hostNetwork"),
    "fewer roles": (lambda framework: framework["spec"]["taskRoles"].pop(), "spec.taskRoles"),
    "suspended": (change_spec("suspend", value=True), "spec.suspend"),
}


@pytest.mark.parametrize("edit", EDITS)
@pytest.mark.parametrize("kind", KINDS)
def test_edit_of_the_framework_is_told_and_then_put_back(kind: str, edit: str) -> None:
    snapshot = build_running(kind)
    assert snapshot.framework is not None
    wanted = snapshot.framework["spec"]
    change, path = EDITS[edit]
    edited = copy.deepcopy(snapshot.framework)
    change(edited)
    edited["metadata"]["labels"]["own"] = "kept"
    decision = decide(replace(snapshot, framework=edited))
    assert list_kinds(decision) == ["WriteStatus", "EmitEvent", "Replace"]
    _, event, action = list_actions(decision)
    assert isinstance(action, Replace)
    assert action.body["spec"] == wanted
    assert action.body["metadata"] == edited["metadata"]
    assert isinstance(event, EmitEvent)
    assert path in event.message
    # A second edit of the same field: the condition is there, and the Event counts.
    snapshot.job["status"] = find_status(decision)
    again = decide(replace(snapshot, framework=edited, now=at(9)))
    assert list_kinds(again) == ["EmitEvent", "Replace"]


def test_change_of_the_job_changes_the_framework_without_a_condition() -> None:
    snapshot = build_running("TrainingJob")
    snapshot.job["spec"]["etReplicaSpecs"]["worker"]["replicas"] = 3
    decision = decide(snapshot)
    (body,) = [a.body for a in list_actions(decision) if isinstance(a, Replace)]
    assert [r["taskNumber"] for r in body["spec"]["taskRoles"] if r["name"] == "worker"] == [3]
    assert "EmitEvent" not in list_kinds(decision)
    assert len(list(find_created(decision, "Service"))) == 1


@pytest.mark.parametrize("kind", KINDS)
def test_execution_type_stop_of_another_client_stays(kind: str) -> None:
    snapshot = build_running(kind)
    assert snapshot.framework is not None
    snapshot.framework["spec"]["executionType"] = "Stop"
    assert decide(snapshot).stages == ()


def test_workers_that_a_scaler_wants_are_no_edit() -> None:
    snapshot = build_running(
        "TrainingJob", workers=WantedWorkers(4, (1,)), scaler="ScaleOut:team/out"
    )
    decision = decide(snapshot)
    (body,) = [a.body for a in list_actions(decision) if isinstance(a, Replace)]
    (role,) = [role for role in body["spec"]["taskRoles"] if role["name"] == "worker"]
    assert (role["taskNumber"], role["absentTaskIndices"]) == (4, [1])
    names = [service["metadata"]["name"] for service in find_created(decision, "Service")]
    assert names == ["elastic-worker-2", "elastic-worker-3"]
    assert Delete("Service", "elastic-worker-1", "u") in list_actions(decision)
    assert "EmitEvent" not in list_kinds(decision)
    # The next decision finds the Framework as the scaler wants it.
    created = {body["metadata"]["name"]: body for body in find_created(decision, "Service")}
    added = {name: ServiceView("u", compute_form(body)) for name, body in created.items()}
    kept = {"elastic-worker-0": snapshot.services["elastic-worker-0"]}
    after = replace(snapshot, framework=body, services={**kept, **added})
    after.job["status"] = find_status(decision)
    assert not {"Replace", "Create"} & set(list_kinds(decide(after)))


@pytest.mark.parametrize("kind", KINDS)
def test_job_or_framework_that_is_being_deleted_is_left_alone(kind: str) -> None:
    deleting = {"deletionTimestamp": "2026-01-01T00:00:00Z"}
    snapshot = build_running(kind, services={})
    assert snapshot.framework is not None
    snapshot.framework["spec"] = {}
    snapshot.framework["metadata"] |= deleting
    assert {"Create", "Replace", "Delete"}.isdisjoint(list_kinds(decide(snapshot)))
    job = build_snapshot(kind)
    job.job["metadata"] |= deleting
    assert list_kinds(decide(job)) == (["WriteStatus"] if kind == "TfJob" else [])


@pytest.mark.parametrize("kind", KINDS)
def test_completed_framework_is_not_changed_and_not_created_again(kind: str) -> None:
    snapshot = build_completed(kind)
    assert snapshot.framework is not None
    snapshot.framework["spec"]["suspend"] = True
    decision = decide(snapshot)
    assert not {"Replace", "Create"} & set(list_kinds(decision))
    snapshot.job["status"] = find_status(decision)
    assert snapshot.job["status"]["phase"] == ENDED[kind]
    assert decide(replace(snapshot, framework=None, services={})) == Decision()


@pytest.mark.parametrize("policy", ["All", "Running", "None"])
def test_services_are_deleted_at_the_end_unless_the_policy_is_none(policy: str) -> None:
    snapshot = build_completed("TrainingJob")
    snapshot.job["spec"]["cleanPodPolicy"] = policy
    decision = decide(snapshot)
    deleted = [each.kind for each in list_actions(decision) if isinstance(each, Delete)]
    assert deleted == ([] if policy == "None" else ["Service", "Service"])
    snapshot.job["status"] = find_status(decision)
    assert decide(replace(snapshot, services={})) == Decision()


def list_mistakes() -> Iterator[Any]:
    for kind, mistakes in MISTAKES.items():
        for name, mistake in mistakes.items():
            if name not in NOT_STORED:
                yield pytest.param(kind, *mistake, id=f"{kind}-{name}")


@pytest.mark.parametrize(("kind", "change", "field", "message"), list(list_mistakes()))
def test_mistake_is_in_the_status_with_field_reason_and_remedy_and_nothing_else_is_done(
    kind: str, change: Change, field: str, message: str
) -> None:
    job = build_job(kind)
    change(job)
    decision = decide(Snapshot(job, None, {}, AT))
    status = find_status(decision)
    text = status["reason"] if kind == "TfJob" else status["conditions"][-1]["message"]
    assert f"{field}: " in text
    assert message in text
    assert status["phase"] == "Failed"
    assert list_kinds(decision) == ["WriteStatus"]


def test_job_of_many_replicas_creates_its_services_in_several_turns() -> None:
    job = build_job("TfJob")
    job["spec"]["replicaSpecs"][1]["replicas"] = 600
    snapshot = Snapshot(job, None, {}, AT)
    services: dict[str, ServiceView] = {}
    for rest in (347, 91, 0):
        decision = decide(replace(snapshot, services=services))
        for body in find_created(decision, "Service"):
            services[body["metadata"]["name"]] = ServiceView("u", compute_form(body))
        assert 603 - len(services) == rest
        assert decision.has_more == (rest > 0)
        assert any(find_created(decision, "Framework")) == (rest == 0)


def test_ended_job_of_many_replicas_is_not_decided_again_for_missing_and_changed_services() -> None:
    completed = build_completed("TfJob")
    completed.job["spec"]["replicaSpecs"][1]["replicas"] = 600
    supporting = compile_tfjob(completed.job).supporting
    names = [body["metadata"]["name"] for body in supporting if body["kind"] == "Service"]
    for stored in (names[:0], names):
        services = {name: ServiceView("u", "other") for name in stored}
        decision = decide(replace(completed, services=services))
        assert not decision.has_more
        assert {"Create", "Patch"}.isdisjoint(list_kinds(decision))


@pytest.mark.parametrize("kind", KINDS)
def test_framework_that_cannot_be_read_is_put_back(kind: str) -> None:
    snapshot = build_running(kind)
    assert snapshot.framework is not None
    wanted = snapshot.framework["spec"]
    broken = {**snapshot.framework, "spec": {"taskRoles": "x"}}
    actions = list_actions(decide(replace(snapshot, framework=broken)))
    assert [a.body["spec"] for a in actions if isinstance(a, Replace)] == [wanted]

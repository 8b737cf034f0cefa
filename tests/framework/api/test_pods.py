from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from framework.api import constants
from framework.api.pods import (
    ZERO_TIME,
    ContainerView,
    OwnerView,
    PodPhase,
    Terminated,
    explain_waiting,
    extract_completion,
    parse_configmap,
    parse_pod,
    trim_configmap,
    trim_pod,
)
from framework.api.types import ContainerCompletionStatus, PodCompletionStatus
from tests.support.builders import (
    AT,
    CONFIGMAP_UID,
    FRAMEWORK_UID,
    Wire,
    address,
    at,
    build_configmap_wire,
    build_ended,
    build_pod,
    build_waiting,
    task_uid,
)
from tests.support.builders.cases import cases
from tests.support.builders.strategies import json_values


def test_parse_pod_reads_the_fields_of_decisions() -> None:
    metadata = {"deletionTimestamp": "2026-01-01T00:00:09Z", "deletionGracePeriodSeconds": 5}
    spec = {"terminationGracePeriodSeconds": 7}
    pod = build_pod("ps", 1, metadata=metadata, spec=spec, reason="Because", message="it runs")
    assert (pod.name, pod.uid, pod.resource_version) == ("gang-ps-1", "pod-ps-1", "1")
    assert pod.owner == OwnerView("ConfigMap", "gang-attempt", CONFIGMAP_UID)
    assert (pod.phase, pod.reason, pod.message) == (PodPhase.RUNNING, "Because", "it runs")
    assert (pod.node_name, pod.pod_ip, pod.host_ip) == ("node", address(1), "192.168.0.1")
    assert (pod.task_uid, pod.task_attempt_id) == (task_uid("ps", 1), "0")
    assert pod.is_terminating
    assert pod.deletion_time == at(9)
    assert (pod.deletion_grace_seconds, pod.termination_grace_seconds) == (5, 7)


def test_parse_pod_of_nothing_has_the_defaults_of_kubernetes() -> None:
    pod = parse_pod({})
    assert pod.phase is PodPhase.PENDING
    assert (pod.termination_grace_seconds, pod.deletion_grace_seconds) == (30, 0)
    assert (pod.name, pod.uid, pod.task_uid, pod.task_attempt_id) == ("", "", "", "")
    assert pod.owner is None
    assert not pod.is_terminating
    assert not pod.is_ended


@pytest.mark.parametrize(
    ("phase", "expected"),
    [*((phase, phase) for phase in PodPhase), ("Sleeping", "Unknown"), ("", "Pending")],
)
def test_parse_pod_phase_table(phase: str, expected: str) -> None:
    pod = build_pod(phase=phase)
    assert pod.phase == expected
    assert pod.is_ended is (phase in {"Succeeded", "Failed"})


def test_parse_pod_keeps_only_annotations_of_ours() -> None:
    ours = {constants.TASK_UID: "t", constants.WRAPPER_ANNOTATION: "true"}
    others = {"kubectl.kubernetes.io/restartedAt": "x", "FC_NUMBER": 5}
    assert build_pod(metadata={"annotations": ours | others}).annotations == ours


def test_parse_pod_bounds_annotations_and_gates() -> None:
    """Each Pod may have 256 kB of annotations, and as many gates as fit into it."""
    mine = dict.fromkeys(("FC_MINE", constants.ANNOTATION_PREFIX + "mine"), "a" * 100_000)
    long = {constants.WRAPPER_ANNOTATION: "a" * 200_000}
    gates = [{"name": f"example.com/gate-{number}"} for number in range(20_000)]
    pod = build_pod(metadata={"annotations": mine | long}, spec={"schedulingGates": gates})
    assert set(pod.annotations) == {constants.WRAPPER_ANNOTATION}
    assert len(pod.annotations[constants.WRAPPER_ANNOTATION]) <= constants.READINESS_MAX_BYTES
    assert len(pod.scheduling_gates) <= 10


def test_parse_pod_reads_all_addresses_and_the_controlling_owner() -> None:
    pod = build_pod(podIP="10.0.0.2", podIPs=[{"ip": "10.0.0.2"}, {"ip": "fd00::2"}, {"ip": ""}])
    assert (pod.pod_ip, pod.more_ips) == ("10.0.0.2", ("fd00::2",))
    other = {"kind": "ConfigMap", "name": "x", "uid": "x", "controller": False}
    owner = {"kind": "Job", "name": "j", "uid": "u", "controller": True}
    assert build_pod(metadata={"ownerReferences": [other]}).owner is None
    pod = build_pod(metadata={"ownerReferences": [other, owner]})
    assert pod.owner == OwnerView("Job", "j", "u")


def test_parse_pod_lists_init_containers_first_and_unknown_times_as_zero() -> None:
    init = build_ended("init", finishedAt=None)
    main = build_ended("main", 1, 2, reason="Error", message="m", signal=9)
    running = {"name": "side", "state": {"running": {}}}
    assert build_pod(containers=[main, running], init_containers=[init]).containers == (
        ContainerView("init", Terminated(0, 0, "", "", ZERO_TIME)),
        ContainerView("main", Terminated(1, 9, "Error", "m", at(2))),
        ContainerView("side"),
    )
    assert ZERO_TIME < AT


def test_parse_pod_reads_the_reason_why_it_is_not_scheduled() -> None:
    conditions = [
        {"type": "Ready", "status": "False", "reason": "x"},
        {"type": "PodScheduled", "status": "False", "reason": "", "message": "0/3 nodes"},
    ]
    assert build_pod(conditions=conditions).unscheduled == ("Unschedulable", "0/3 nodes")
    conditions[1]["status"] = "True"
    assert build_pod(conditions=conditions).unscheduled is None


def test_parse_configmap_reads_the_fields_of_decisions() -> None:
    wire = build_configmap_wire({constants.GENERATION_ANNOTATION: "3"})
    wire["binaryData"] = {constants.ROSTER_KEY: "AAAA"}
    configmap = parse_configmap(wire)
    assert configmap.owner == OwnerView("Framework", "gang", FRAMEWORK_UID)
    assert configmap.attempt_id == "0"
    assert configmap.finalizers == ("foregroundDeletion",)
    assert configmap.roster == "AAAA"
    assert configmap.annotations[constants.GENERATION_ANNOTATION] == "3"
    illegal: tuple[Any, ...] = (None, "foregroundDeletion", [1, None], {})
    for finalizers in illegal:
        configmap = parse_configmap(build_configmap_wire(finalizers=finalizers))
        assert (configmap.finalizers, configmap.roster) == ((), "")


KEYS = st.sampled_from(
    [
        "annotations", "binaryData", "conditions", "containerStatuses",
        "deletionGracePeriodSeconds", "deletionTimestamp", "exitCode", "finalizers", "finishedAt",
        "metadata", "ownerReferences", "phase", "podIPs", "spec", "state", "status", "terminated",
        "waiting", constants.TASK_UID, constants.ROSTER_KEY,
    ]
)  # fmt: skip
pod_like = st.dictionaries(
    KEYS,
    st.recursive(
        json_values,
        lambda inner: st.dictionaries(KEYS, inner, max_size=4) | st.lists(inner, max_size=2),
        max_leaves=10,
    ),
)


@given(pod_like)
def test_parse_of_any_json_never_fails(wire: Wire) -> None:
    pod = parse_pod(wire)
    assert isinstance(explain_waiting(pod), str)
    assert len(extract_completion(pod).containers) == len(pod.containers)
    assert isinstance(parse_configmap(wire).roster, str)
    assert parse_pod(trim_pod(wire)) == pod
    assert parse_configmap(trim_configmap(wire)) == parse_configmap(wire)


def test_extract_completion_lists_every_container() -> None:
    pod = build_pod(
        phase="Failed",
        reason="Evicted",
        message="low on memory",
        containers=[build_ended("main", 137, reason="OOMKilled", signal=9), build_waiting("side")],
        init_containers=[build_ended("init", 0, reason="Completed")],
    )
    assert extract_completion(pod) == PodCompletionStatus(
        "Evicted",
        "low on memory",
        (
            ContainerCompletionStatus("init", "Completed"),
            ContainerCompletionStatus("main", "OOMKilled", "", 9, 137),
            ContainerCompletionStatus("side"),
        ),
    )


UNSCHEDULED = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
GATED = UNSCHEDULED | {"reason": "SchedulingGated", "message": "blocked"}
GATES = [{"name": "example.com/quota"}, {"name": "b"}]


def unbound(**spec: object) -> dict[str, Any]:
    return {"nodeName": "", **spec}


@cases(
    "fields expected",
    {
        "unschedulable": (
            {"conditions": [UNSCHEDULED | {"message": "0/3 nodes are available"}]},
            "Unschedulable: 0/3 nodes are available",
        ),
        "without words": ({"conditions": [UNSCHEDULED]}, "Unschedulable"),
        "image": (
            {"containers": [build_waiting("main", "ImagePullBackOff", "no such image")]},
            "ImagePullBackOff: no such image",
        ),
        "reason only": (
            {"containers": [build_waiting("main", "CrashLoopBackOff")]},
            "CrashLoopBackOff (container main)",
        ),
        "ordinary waits say nothing": (
            {
                "init_containers": [build_waiting("init", "PodInitializing")],
                "containers": [build_waiting("main", "ErrImagePull", "denied")],
            },
            "ErrImagePull: denied",
        ),
        "creating": (
            {"containers": [build_waiting("main", "ContainerCreating")]},
            "Pod is Pending on node, without an address yet",
        ),
        "no node": ({"spec": unbound()}, "Pod waits for the scheduler"),
        "default scheduler": (
            {"spec": unbound(schedulerName="default-scheduler")},
            "Pod waits for the scheduler",
        ),
        "another scheduler": (
            {"spec": unbound(schedulerName="hivedscheduler")},
            "Pod waits for the scheduler hivedscheduler",
        ),
        "gates": (
            {
                "spec": unbound(schedulerName="hivedscheduler", schedulingGates=GATES),
                "conditions": [GATED],
            },
            "Pod is held by the scheduling gates example.com/quota, b",
        ),
        "no address": ({}, "Pod is Pending on node, without an address yet"),
    },
)
def test_explain_waiting_table(fields: dict[str, Any], expected: str) -> None:
    assert explain_waiting(build_pod(phase="Pending", **fields)) == expected

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from framework.kube.resources import Object
from localcluster.kubelet.status import (
    ContainerState,
    ContainerView,
    PodView,
    Running,
    Terminated,
    Waiting,
    build_abandoned_status,
    build_container_status,
    build_status,
    compute_phase,
)

NOW = datetime(2030, 1, 2, 3, 4, 5, tzinfo=UTC)
STAMP = "2030-01-02T03:04:05Z"
WAITING = Waiting("PodInitializing")
RUNNING = Running(NOW)


def ended(code: int) -> Terminated:
    reason = "Error" if code else "Completed"
    return Terminated(code, reason, "", NOW, NOW + timedelta(seconds=1), "local://x")


def view(state: ContainerState, name: str = "main", **fields: Any) -> ContainerView:
    return ContainerView(name=name, image="i", state=state, **fields)


def build(*containers: ContainerView, **fields: Any) -> PodView:
    return PodView(
        **{
            "containers": containers,
            "host_ip": "127.0.0.1",
            "pod_ips": ("127.64.0.1",),
            "started_at": NOW,
            "init_over": True,
            **fields,
        }
    )


@pytest.mark.parametrize(
    ("states", "running", "stopped"),
    [
        ([WAITING], "Pending", "Failed"),
        ([RUNNING, WAITING], "Pending", "Failed"),
        ([RUNNING, RUNNING], "Running", "Failed"),
        ([RUNNING, ended(1)], "Running", "Failed"),
        ([ended(0), ended(0)], "Running", "Succeeded"),
        ([ended(0), ended(3)], "Running", "Failed"),
    ],
)
def test_compute_phase_pod_is_terminal_only_once_stopped(
    states: list[ContainerState], running: str, stopped: str
) -> None:
    pod = build(*(view(state) for state in states))

    assert compute_phase(pod) == running
    assert compute_phase(replace(pod, has_stopped=True)) == stopped


def test_compute_phase_crash_back_off_is_running() -> None:
    crashed = view(Waiting("CrashLoopBackOff"), last=ended(1))

    assert compute_phase(build(crashed)) == "Running"


@pytest.mark.parametrize("state", [RUNNING, ended(0), ended(201)])
def test_compute_phase_init_container_holds_the_pod_pending(state: ContainerState) -> None:
    init = view(state, "init", is_init=True)
    pod = build(init, view(WAITING), init_over=False)

    assert compute_phase(pod) == "Pending"
    assert compute_phase(replace(pod, has_stopped=True)) == "Failed"


def test_compute_phase_failure_of_the_pod_beats_its_containers() -> None:
    assert compute_phase(build(view(ended(0)), has_stopped=True, is_failed=True)) == "Failed"


def test_compute_phase_sidecar_counts_for_nothing() -> None:
    sidecar = view(ended(143), "side", is_init=True, is_sidecar=True)

    assert compute_phase(build(sidecar, view(ended(0)), has_stopped=True)) == "Succeeded"


def conditions(pod: PodView) -> dict[str, Object]:
    return {c["type"]: c for c in build_status(pod, NOW)["conditions"]}


def test_build_status_initializing_pod_has_its_address() -> None:
    pod = build(view(RUNNING, "init", is_init=True), view(WAITING), init_over=False)

    status = build_status(pod, NOW)

    assert status["phase"] == "Pending"
    assert status["podIP"] == "127.64.0.1"
    assert status["podIPs"] == [{"ip": "127.64.0.1"}]
    assert status["startTime"] == STAMP
    initialized = conditions(pod)["Initialized"]
    assert initialized["status"] == "False"
    assert initialized["message"] == "containers with incomplete status: [init]"
    assert conditions(pod)["PodScheduled"]["status"] == "True"


def test_build_status_ready_pod_has_all_conditions_true() -> None:
    pod = build(view(RUNNING, is_ready=True, is_started=True))

    assert {c["status"] for c in conditions(pod).values()} == {"True"}


def test_build_status_unready_container_is_named() -> None:
    pod = build(view(RUNNING, "a", is_ready=True), view(RUNNING, "b"))

    assert conditions(pod)["Ready"]["message"] == "containers with unready status: [b]"
    assert conditions(pod)["ContainersReady"]["status"] == "False"


def test_build_status_succeeded_pod_is_completed() -> None:
    ready = conditions(build(view(ended(0)), has_stopped=True))["Ready"]

    assert (ready["status"], ready["reason"]) == ("False", "PodCompleted")


def test_build_status_readiness_gate_holds_ready_back() -> None:
    gate = {"type": "x.io/gate", "status": "False"}
    pod = build(
        view(RUNNING, is_ready=True), readiness_gates=("x.io/gate",), former_conditions=[gate]
    )

    assert conditions(pod)["Ready"]["reason"] == "ReadinessGatesNotReady"
    assert conditions(pod)["x.io/gate"] == gate


def test_build_status_condition_unchanged_keeps_its_time() -> None:
    pod = build(view(RUNNING, is_ready=True))
    former = build_status(pod, NOW)["conditions"]

    later = build_status(replace(pod, former_conditions=former), NOW + timedelta(minutes=1))

    assert later["conditions"] == former


def test_build_status_failed_pod_says_why() -> None:
    failed = build(
        view(ended(143)), is_failed=True, has_stopped=True, reason="DeadlineExceeded", message="m"
    )

    status = build_status(failed, NOW)

    assert (status["phase"], status["reason"]) == ("Failed", "DeadlineExceeded")


def test_build_container_status_states_are_written_as_the_api_has_them() -> None:
    waiting = build_container_status(view(Waiting("CrashLoopBackOff", "m"), last=ended(1)))
    running = build_container_status(view(RUNNING, is_ready=True, is_started=True))
    never_ran = Terminated(128, "StartError", "no such file", None, NOW, "local://x")
    failed = build_container_status(view(never_ran, restart_count=2))

    assert waiting["state"] == {"waiting": {"reason": "CrashLoopBackOff", "message": "m"}}
    assert waiting["lastState"]["terminated"]["exitCode"] == 1
    assert running["state"] == {"running": {"startedAt": STAMP}}
    assert (running["ready"], running["started"]) == (True, True)
    assert failed["restartCount"] == 2
    assert failed["state"]["terminated"] == {
        "exitCode": 128,
        "reason": "StartError",
        "message": "no such file",
        "startedAt": "1970-01-01T00:00:00Z",
        "finishedAt": STAMP,
        "containerID": "local://x",
    }


def test_container_view_init_container_is_ready_once_it_succeeded() -> None:
    assert view(ended(0), is_init=True).counts_as_ready
    assert not view(ended(1), is_init=True).counts_as_ready
    assert not view(ended(0)).counts_as_ready


def test_build_abandoned_status_keeps_what_had_ended() -> None:
    pod: Object = {
        "status": {
            "startTime": STAMP,
            "conditions": [
                {"type": "Ready", "status": "True", "lastTransitionTime": "x"},
                {"type": "PodScheduled", "status": "True", "lastTransitionTime": "y"},
            ],
            "initContainerStatuses": [{"name": "i", "state": {"terminated": {"exitCode": 0}}}],
            "containerStatuses": [{"name": "m", "state": {"running": {}}, "ready": True}],
        }
    }

    status = build_abandoned_status(pod, "gone", NOW)

    assert (status["phase"], status["reason"]) == ("Failed", "NodeShutdown")
    assert status["initContainerStatuses"][0]["state"]["terminated"]["exitCode"] == 0
    main = status["containerStatuses"][0]
    assert main["state"]["terminated"]["exitCode"] == 137
    assert main["ready"] is False
    assert [c["status"] for c in status["conditions"]] == ["False", "True"]

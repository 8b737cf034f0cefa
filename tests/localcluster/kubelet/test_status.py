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


INIT_RUNS = view(RUNNING, "init", is_init=True)
READY = view(RUNNING, is_ready=True, is_started=True)


def build(*containers: ContainerView, **fields: Any) -> PodView:
    defaults = {"host_ip": "127.0.0.1", "pod_ips": ("127.64.0.1",), "started_at": NOW}
    return PodView(containers=containers, **{**defaults, "init_over": True, **fields})


def list_conditions(pod: PodView) -> dict[str, Object]:
    return {c["type"]: c for c in build_status(pod, NOW)["conditions"]}


def build_init_pod(state: ContainerState) -> PodView:
    return build(view(state, "init", is_init=True), view(WAITING), init_over=False)


@pytest.mark.parametrize(
    ("pod", "running", "stopped"),
    [
        (build(view(WAITING)), "Pending", "Failed"),
        (build(view(RUNNING), view(WAITING)), "Pending", "Failed"),
        (build(view(RUNNING), view(RUNNING)), "Running", "Failed"),
        (build(view(RUNNING), view(ended(1))), "Running", "Failed"),
        (build(view(ended(0)), view(ended(0))), "Running", "Succeeded"),
        (build(view(ended(0)), view(ended(3))), "Running", "Failed"),
        (build(view(Waiting("CrashLoopBackOff"), last=ended(1))), "Running", "Failed"),
        (build_init_pod(RUNNING), "Pending", "Failed"),
        (build_init_pod(ended(0)), "Pending", "Failed"),
        (build_init_pod(ended(201)), "Pending", "Failed"),
        (
            build(view(ended(143), "side", is_init=True, is_sidecar=True), view(ended(0))),
            "Running",
            "Succeeded",
        ),
        (build(view(ended(0)), is_failed=True), "Running", "Failed"),
    ],
)
def test_compute_phase_pod_ends_only_when_it_has_stopped(
    pod: PodView, running: str, stopped: str
) -> None:
    assert compute_phase(pod) == running
    assert compute_phase(replace(pod, has_stopped=True)) == stopped


def test_build_status_initializing_pod_has_its_address() -> None:
    pod = build(INIT_RUNS, view(WAITING), init_over=False)
    status = build_status(pod, NOW)
    assert status["phase"] == "Pending"
    assert status["podIP"] == "127.64.0.1"
    assert status["podIPs"] == [{"ip": "127.64.0.1"}]
    assert status["startTime"] == STAMP
    initialized = list_conditions(pod)["Initialized"]
    assert initialized["status"] == "False"
    assert initialized["message"] == "containers with incomplete status: [init]"
    assert list_conditions(pod)["PodScheduled"]["status"] == "True"


def test_build_status_ready_pod_has_all_conditions_true_and_keeps_their_times() -> None:
    former = build_status(build(READY), NOW)["conditions"]
    assert {c["status"] for c in former} == {"True"}
    later = build_status(build(READY, former_conditions=former), NOW + timedelta(minutes=1))
    assert later["conditions"] == former


def test_build_status_unready_container_is_named() -> None:
    conditions = list_conditions(build(view(RUNNING, "a", is_ready=True), view(RUNNING, "b")))
    assert conditions["Ready"]["message"] == "containers with unready status: [b]"
    assert conditions["ContainersReady"]["status"] == "False"


def test_build_status_succeeded_pod_is_completed() -> None:
    ready = list_conditions(build(view(ended(0)), has_stopped=True))["Ready"]
    assert (ready["status"], ready["reason"]) == ("False", "PodCompleted")


def test_build_status_failed_pod_has_its_reason() -> None:
    ending: Object = {"is_failed": True, "has_stopped": True, "reason": "DeadlineExceeded"}
    status = build_status(build(view(ended(143)), message="m", **ending), NOW)
    assert (status["phase"], status["reason"]) == ("Failed", "DeadlineExceeded")


def test_build_container_status_states_are_written_as_the_api_has_them() -> None:
    waiting = build_container_status(view(Waiting("CrashLoopBackOff", "m"), last=ended(1)))
    assert waiting["state"] == {"waiting": {"reason": "CrashLoopBackOff", "message": "m"}}
    assert waiting["lastState"]["terminated"]["exitCode"] == 1
    running = build_container_status(READY)
    assert running["state"] == {"running": {"startedAt": STAMP}}
    assert (running["ready"], running["started"]) == (True, True)
    never_ran = Terminated(128, "StartError", "no such file", None, NOW, "local://x")
    failed = build_container_status(view(never_ran, restart_count=2))
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

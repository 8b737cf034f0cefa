from typing import Any

import pytest

from framework.kube.resources import Object
from localcluster.kubelet.pod.admission import (
    Admission,
    Bind,
    Capacity,
    Leave,
    Refuse,
    Run,
    count_extended,
    decide_admission,
)

NOTHING = Capacity(extended={})


def build(*requests: Object, phase: str = "Pending", deleted: bool = False, **spec: Any) -> Object:
    containers = [{"name": f"c{i}", "resources": {"limits": r}} for i, r in enumerate(requests)]
    metadata = {"name": "p", "uid": "u"} | ({"deletionTimestamp": "x"} if deleted else {})
    return {
        "metadata": metadata,
        "spec": {"containers": containers or [{"name": "c"}], **spec},
        "status": {"phase": phase},
    }


@pytest.mark.parametrize(
    ("pod", "expected"),
    [
        pytest.param(build(), Bind(), id="default"),
        pytest.param(build(schedulerName="default-scheduler"), Bind(), id="default scheduler"),
        pytest.param(build(schedulerName="kueue"), Leave(), id="foreign scheduler"),
        pytest.param(build(schedulingGates=[{"name": "g"}]), Leave(), id="gated"),
        pytest.param(build(nodeName="local"), Run(), id="bound here"),
        pytest.param(build(nodeName="other"), Leave(), id="bound elsewhere"),
        pytest.param(build(nodeName="local", phase="Failed"), Leave(), id="over"),
        pytest.param(build(deleted=True), Leave(), id="deleted before it was bound"),
        pytest.param(build({"cpu": "512", "memory": "9Ti"}), Bind(), id="cpu is not counted"),
        pytest.param(
            build({"nvidia.com/gpu": "1"}),
            Refuse(
                "0/1 nodes are available: 1 Insufficient nvidia.com/gpu; "
                "this local cluster offers 0: start it with --gpus N, where N is what all "
                "Pods need together, at least 1."
            ),
            id="no gpu",
        ),
        pytest.param(
            build({"example.com/nic": "1"}),
            Refuse("0/1 nodes are available: 1 Insufficient example.com/nic."),
            id="no such resource",
        ),
    ],
)
def test_decide_admission_pod_is_run_bound_left_or_refused(
    pod: Object, expected: Admission
) -> None:
    assert decide_admission(pod, "local", NOTHING, []) == expected


def test_decide_admission_extended_resources_are_shared_out() -> None:
    capacity = Capacity(extended={"nvidia.com/gpu": 4})
    running = [build({"nvidia.com/gpu": "3"})]
    fits, too_much = build({"nvidia.com/gpu": "1"}), build({"nvidia.com/gpu": "2"})
    assert decide_admission(fits, "local", capacity, running) == Bind()
    assert isinstance(decide_admission(too_much, "local", capacity, running), Refuse)


def test_count_extended_init_containers_run_one_by_one() -> None:
    pod = build({"x.io/a": "1"}, {"x.io/a": "1", "cpu": "3"})
    pod["spec"]["initContainers"] = [
        {"name": "i1", "resources": {"requests": {"x.io/a": "3", "x.io/b": "1"}}},
        {"name": "i2", "resources": {"requests": {"x.io/a": "2"}}},
    ]
    assert count_extended(pod) == {"x.io/a": 3, "x.io/b": 1}

"""tests.support.builders: what the strategies draw and the builders build is legal."""

from collections import Counter
from typing import Any

import pytest
from hypothesis import given

from framework.api import codec
from framework.api.pods import PodPhase, parse_configmap, parse_pod
from framework.api.roster import Roster
from framework.api.states import TaskState
from framework.api.types import Framework, FrameworkStatus
from framework.api.validation import validate_framework
from tests.support.builders import (
    build_configmap_wire,
    build_framework,
    build_framework_wire,
    build_pod,
    build_pod_wire,
    build_roster,
    build_status,
    build_task,
    pod_uid,
    strategies,
)


@given(strategies.frameworks)
def test_framework_drawn_is_valid(framework: Framework) -> None:
    assert validate_framework(framework) == ()


@given(strategies.statuses())
def test_status_drawn_is_legal(status: FrameworkStatus) -> None:
    strategies.check_status(status)


@given(strategies.pod_wires())
def test_pod_drawn_has_containers_that_fit_its_phase(wire: dict[str, Any]) -> None:
    pod = parse_pod(wire)
    [container] = pod.containers
    assert pod.is_ended is (container.terminated is not None)
    if container.terminated is not None:
        assert (container.terminated.code == 0) is (pod.phase is PodPhase.SUCCEEDED)


@given(strategies.rosters())
def test_roster_drawn_names_no_task_twice(roster: Roster) -> None:
    for role in roster.roles:
        indexes = [m.index for m in role.members] + [c.index for c in role.completed]
        assert max(Counter([*indexes, *role.absent]).values(), default=1) == 1
        assert role.ready <= role.wanted


@pytest.mark.parametrize("state", TaskState)
def test_built_task_has_a_pod_exactly_from_its_creation_on(state: TaskState) -> None:
    task = build_task(state)
    has_pod = state not in {
        TaskState.ATTEMPT_CREATION_PENDING,
        TaskState.ATTEMPT_CREATION_REQUESTED,
    }
    assert (task.attempt_status.pod_uid is not None) is has_pod


def test_builders_agree_with_one_another() -> None:
    assert validate_framework(build_framework()) == ()
    framework = codec.decode_framework(build_framework_wire())
    assert framework.key == build_framework().key
    pod, configmap = parse_pod(build_pod_wire()), parse_configmap(build_configmap_wire())
    assert pod.owner is not None
    assert pod.owner.uid == configmap.uid == build_status().attempt_status.configmap_uid
    assert pod.uid == pod_uid("worker", 0) == build_task().attempt_status.pod_uid
    assert pod.pod_ip == build_task().attempt_status.pod_ip == build_pod().pod_ip
    assert build_roster().instance_uid == build_status().attempt_status.instance_uid

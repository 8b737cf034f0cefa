"""Pods whose scheduler says nothing: it does not exist, or does not run."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from cli.why.answers import describe_healthy
from cli.why.cause import Cause, Kind
from cli.why.observation import Observation
from cli.why.ranking import find_causes
from framework.api.wire import format_time
from framework.kube.resources import Object
from tests.cli.why.builders import LATER, event, observe
from tests.support.builders import build_pod_wire

ADVICE = "a scheduler usually answers within a second: check that "
MESSAGE = "0/1 nodes are available: 1 Insufficient cpu."


def build_unbound(index: int, scheduler: str | None, created_at: str, **status: Any) -> Object:
    """A Pod without a node."""
    spec = {"nodeName": "", **({"schedulerName": scheduler} if scheduler else {})}
    pod = build_pod_wire(index=index, phase="Pending", spec=spec, **status)
    pod["metadata"]["creationTimestamp"] = created_at
    return pod


def build_age(seconds: int) -> str:
    return format_time(LATER - timedelta(seconds=seconds))


def find_schedulers(observation: Observation) -> list[Cause]:
    causes = find_causes(observation)
    return [cause for cause in causes if cause.kind is Kind.UNSCHEDULABLE]


@pytest.mark.parametrize(
    ("scheduler", "seconds", "is_cause"),
    [("nope", 9, False), ("nope", 12, True), (None, 12, False), (None, 31, True)],
)
def test_scheduler_that_says_nothing_is_a_cause_after_some_seconds(
    *, scheduler: str | None, seconds: int, is_cause: bool
) -> None:
    observation = observe([build_unbound(0, scheduler, build_age(seconds))])
    assert bool(find_schedulers(observation)) is is_cause


@pytest.mark.parametrize(
    ("scheduler", "seconds", "text"),
    [
        (None, 1, "1 s"),
        (None, 5, f"5 s; {ADVICE}default-scheduler runs: kubectl get pods -n kube-system"),
        ("volcano", 9, f"9 s; {ADVICE}volcano runs: kubectl get pods -n kube-system"),
    ],
)
def test_pods_that_are_not_scheduled_yet_are_not_called_healthy(
    scheduler: str | None, seconds: int, text: str
) -> None:
    pods = [build_unbound(index, scheduler, build_age(seconds)) for index in range(2)]
    observation = observe(pods)
    assert find_causes(observation) == ()
    assert (
        describe_healthy(observation)
        == f"all 2 Tasks wait to start, but 2 Pods are not scheduled yet, for {text}"
    )


def test_pod_that_is_not_scheduled_yet_on_a_local_cluster_lacks_its_kubelet() -> None:
    observation = replace(observe([build_unbound(0, None, build_age(5))]), is_local=True)
    assert "1 Pod is not scheduled yet, for 5 s; a local cluster" in describe_healthy(observation)


def test_scheduler_that_does_not_exist_is_named_with_both_remedies() -> None:
    pods = [build_unbound(index, "nope", build_age(60)) for index in range(2)]
    (cause,) = find_schedulers(observe(pods))
    assert [str(key) for key in cause.tasks] == ["worker/0", "worker/1"]
    assert "the scheduler nope, which has not answered: it does not run, or has" in cause.text
    default, start = cause.remedies
    assert "schedulerName" in default.commands[0]
    assert "nope" in start.text


def test_scheduler_that_has_placed_another_pod_has_no_other_name() -> None:
    placed = build_pod_wire(index=1, spec={"nodeName": "n1", "schedulerName": "volcano"})
    (cause,) = find_schedulers(observe([build_unbound(0, "volcano", build_age(60)), placed]))
    assert cause.text == "waits for the scheduler volcano, which has not answered"


@pytest.mark.parametrize("reason", ["FailedScheduling", "Unschedulable"])
def test_scheduler_that_answers_with_an_event_only_is_not_silent(reason: str) -> None:
    pods = [build_unbound(index, "volcano", build_age(60)) for index in range(2)]
    causes = find_schedulers(observe(pods, events={0: [event(reason, MESSAGE)]}))
    (cause,) = causes
    assert cause.text.startswith("cannot be scheduled: "), cause.text
    assert cause.quote == MESSAGE

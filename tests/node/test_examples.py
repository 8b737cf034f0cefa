"""Each plain example, with the agents injected, under `restricted`, ends as its text says."""

import subprocess
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import NamedTuple

import pytest

from tests.examples.commandline import read_outcome
from tests.examples.test_examples import LASTING, OUTCOMES
from tests.node.cluster import Cluster
from tests.node.examples import (
    EXAMPLES,
    Injected,
    apply_example,
    inject_example,
    run_example,
    stop_example,
)
from tests.node.gangs import list_pods

pytestmark = pytest.mark.node

# They wait for most of their time: several at once, as many as two cores bear.
AT_ONCE = 3
# Its Task that is stopped takes the 30 seconds that Kubernetes gives it.
SLOWEST = "fail-permanent.yaml"
# For a scheduler that is not there.
WAITING = ("coscheduling", "hived", "kueue")
FETCH = """\
import sys, urllib.request, time
for _ in range(300):
    try:
        print(urllib.request.urlopen("http://service/", timeout=5).read().decode().strip())
        break
    except OSError:
        time.sleep(0.2)
"""


class Run(NamedTuple):
    injected: Injected
    done: "subprocess.CompletedProcess[str]"
    described: str


def run_whole(cluster: Cluster, name: str) -> Run:
    """Inject, lint and run one example in a namespace of its own."""
    namespace = f"team-{name.removesuffix('.yaml')}"
    cluster.create_namespace(namespace, pod_security="restricted")
    injected = inject_example(cluster, EXAMPLES / name)
    done = run_example(cluster, namespace, injected)
    described = cluster.describe(namespace)
    cluster.kubectl("delete", "namespace", namespace, "--wait=false")
    return Run(injected, done, described)


@pytest.fixture(scope="module")
def runs(cluster: Cluster) -> Iterator[dict[str, Future[Run]]]:
    """All examples that end, on their way."""
    with ThreadPoolExecutor(AT_ONCE) as pool:
        ordered = sorted(OUTCOMES, key=lambda name: name != SLOWEST)
        yield {name: pool.submit(run_whole, cluster, name) for name in ordered}
        pool.shutdown(cancel_futures=True)


@pytest.mark.parametrize("name", OUTCOMES)
def test_example_injected_lints_clean_and_ends_as_it_says(
    name: str, runs: dict[str, Future[Run]]
) -> None:
    run = runs[name].result()
    assert (run.injected.linted.returncode, run.injected.linted.stdout) == (0, "nothing found\n")
    told = run.done.stdout + run.done.stderr + run.described
    assert read_outcome(run.done) == OUTCOMES[name], told


def test_lasting_examples_are_those_tested_here() -> None:
    assert {*LASTING} - {*WAITING} == {"rescale", "service", "service-stateful"}


def start(cluster: Cluster, namespace: str, name: str) -> None:
    injected = inject_example(cluster, EXAMPLES / f"{name}.yaml")
    assert injected.linted.stdout == "nothing found\n"
    apply_example(cluster, namespace, injected)


def wait_until_ready(cluster: Cluster, namespace: str, count: int) -> None:
    """Wait until there are this many Pods, all of them Ready."""

    def look() -> bool | None:
        every = list_pods(cluster, namespace).values()
        pods = [pod for pod in every if "FC_FRAMEWORK_NAME" in pod["metadata"]["labels"]]
        ready = [
            condition["status"]
            for pod in pods
            for condition in pod["status"].get("conditions", [])
            if condition["type"] == "Ready" and not pod["metadata"].get("deletionTimestamp")
        ]
        return True if ready == ["True"] * count and len(pods) == count else None

    cluster.wait(look, f"{count} Pods are Ready", namespace)


def test_service_is_reached_by_its_name(cluster: Cluster, namespace: str) -> None:
    start(cluster, namespace, "service")
    wait_until_ready(cluster, namespace, 2)
    ask = ("service-server-0", "web", "python3", "-c", FETCH)
    answers = {cluster.run_in(namespace, *ask).strip() for _ in range(8)}
    assert answers
    assert answers <= {"hello from server 0", "hello from server 1"}
    status = stop_example(cluster, namespace, "service")["status"]
    assert status["attemptStatus"]["completionStatus"]["code"] == -210


def test_stateful_service_members_find_one_another_by_name(
    cluster: Cluster, namespace: str
) -> None:
    start(cluster, namespace, "service-stateful")
    wait_until_ready(cluster, namespace, 3)
    pods = list_pods(cluster, namespace)

    lookup = (
        "import socket, sys; "
        "print(*(socket.gethostbyname(f'member-{i}.service-stateful') for i in range(3)))"
    )
    ask = ("exec", "--namespace", namespace, "service-stateful-member-0", "-c", "main", "--")

    def look() -> str | None:
        found = cluster.try_kubectl(*ask, "python3", "-c", lookup)
        return found.stdout if found.returncode == 0 else None

    found = cluster.wait(look, "all names are known", namespace)

    assert found.split() == [
        pods[f"service-stateful-member-{index}"]["status"]["podIP"] for index in range(3)
    ]
    stop_example(cluster, namespace, "service-stateful")


def test_rescale_follows_the_number_of_tasks(cluster: Cluster, namespace: str) -> None:
    start(cluster, namespace, "rescale")
    wait_until_ready(cluster, namespace, 4)
    before = list_pods(cluster, namespace)
    fields = ("taskNumber", "frameworkAttemptCompletionPolicy/minFailedTaskCount")

    for count in (2, 3):
        changes = [
            {"op": "replace", "path": f"/spec/taskRoles/0/{field}", "value": count}
            for field in fields
        ]
        cluster.patch_framework(namespace, "rescale", *changes)
        wait_until_ready(cluster, namespace, count)
    after = list_pods(cluster, namespace)

    same = [
        name for name in after if after[name]["metadata"]["uid"] == before[name]["metadata"]["uid"]
    ]
    assert sorted(same) == ["rescale-worker-0", "rescale-worker-1"]
    stop_example(cluster, namespace, "rescale")

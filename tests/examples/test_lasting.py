"""Examples that do not end by themselves: services, gangs without their scheduler, scaling."""

import pytest

from framework.api import constants
from framework.kube.client import KubeClient
from framework.kube.resources import CONFIGMAPS, SERVICES, Object
from tests.examples.rescaling import walk_through
from tests.examples.stage import Stage, list_tasks, read_documents
from tests.support.builders import build_role_wire, build_submission
from tests.support.servers.watching import watch_until

pytestmark = pytest.mark.local
# What a client of the service runs: each address must answer as the server of that index.
FETCH = """\
import sys, urllib.request
for index, address in enumerate(sys.argv[1:]):
    with urllib.request.urlopen(f"http://{address}:8080/") as answer:
        page = answer.read().decode().strip()
    if page != f"hello from server {index}":
        sys.exit(page)
"""
WAITS = {
    "kueue": "Pod is held by the scheduling gate kueue.x-k8s.io/admission",
    "hived": "Pod waits for the scheduler hivedscheduler",
    "coscheduling": "Pod waits for the scheduler scheduler-plugins-scheduler",
}


def build_client(addresses: list[str]) -> Object:
    """A Framework whose only Task fetches from some addresses, and ends."""
    command = ["python3", "-c", FETCH, *addresses]
    container = {"name": "main", "image": "python:3.12-slim", "command": command}
    pod = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    policy = {"minFailedTaskCount": 1, "minSucceededTaskCount": -1}
    role = build_role_wire("client", task={"pod": pod}, frameworkAttemptCompletionPolicy=policy)
    return build_submission("client", role)


def is_task_1_replaced(tasks: list[Object]) -> bool:
    """Return whether its second Pod runs."""
    return (tasks[1]["attemptStatus"]["id"], tasks[1]["state"]) == (1, "AttemptRunning")


async def test_service_is_served_and_its_tasks_are_replaced(kube: KubeClient) -> None:
    stage = Stage(kube, "default", read_documents("service.yaml"))
    await stage.apply()
    await stage.wait_until_running(2)
    service = await kube.get(SERVICES, "default", "service")
    pods = await stage.read_pods()
    for pod in pods:
        assert service["spec"]["selector"].items() <= pod["metadata"]["labels"].items()
    await stage.delete_pod("server", 1)

    tasks = await stage.wait_for_tasks(is_task_1_replaced)
    await stage.wait_until_ready(2)  # a server that runs may not listen yet
    addresses = [task["attemptStatus"]["podIP"] for task in tasks]
    client = Stage(kube, "default", [build_client(addresses)])
    await client.apply()
    status = await client.wait_for(lambda status: status["state"] == "Completed")
    assert list_tasks(status)[0]["attemptStatus"]["completionStatus"]["code"] == 0
    assert (await stage.stop())["attemptStatus"]["completionStatus"]["code"] == -210


async def test_stateful_service_keeps_the_names_of_its_members(kube: KubeClient) -> None:
    stage = Stage(kube, "default", read_documents("service-stateful.yaml"))
    await stage.apply()
    before = await stage.wait_until_running(3)
    await stage.delete_pod("member", 1)

    after = await stage.wait_for_tasks(is_task_1_replaced)
    assert [task["instanceUID"] for task in after] == [task["instanceUID"] for task in before]
    names = [(pod["spec"]["hostname"], pod["spec"]["subdomain"]) for pod in await stage.read_pods()]
    assert names == [(f"member-{index}", "service-stateful") for index in range(3)]
    assert (await stage.stop())["attemptStatus"]["completionStatus"]["code"] == -210


@pytest.mark.parametrize("name", WAITS)
async def test_gang_of_another_scheduler_reports_why_it_waits(name: str, kube: KubeClient) -> None:
    documents = read_documents(f"{name}.yaml")
    stage = Stage(kube, "default", documents)
    await stage.apply()
    await stage.wait_for_tasks(
        lambda tasks: [task["state"] for task in tasks] == ["AttemptPreparing"] * 2
    )
    template = documents[0]["spec"]["taskRoles"][0]["task"]["pod"]
    pods = await stage.read_pods()
    for pod in pods:
        assert pod["status"]["phase"] == "Pending"
        assert pod["spec"].get("nodeName") is None
        for key in ("schedulerName", "schedulingGates"):
            assert pod["spec"].get(key, "") == template["spec"].get(key, pod["spec"].get(key, ""))
        for key in ("annotations", "labels"):
            for label, value in template["metadata"].get(key, {}).items():
                text = value.replace("{{FC_FRAMEWORK_NAME}}", name)
                text = text.replace("{{FC_FRAMEWORK_NAMESPACE}}", "default")
                assert pod["metadata"][key][label] == text
    await wait_for_readiness(stage, WAITS[name])
    assert (await stage.stop())["attemptStatus"]["completionStatus"]["code"] == -210


async def wait_for_readiness(stage: Stage, reason: str) -> None:
    """Watch the ConfigMap of the attempt until it says why Tasks are missing.

    Before, it may say that their Pods are not created yet.
    """

    def has_reason(_: str, body: Object) -> bool:
        annotations = body["metadata"].get("annotations") or {}
        return reason in annotations.get(constants.READINESS_ANNOTATION, "")

    selector = f"metadata.name={stage.name}-attempt"
    await watch_until(stage.kube, CONFIGMAPS, stage.namespace, has_reason, field_selector=selector)


async def test_rescaling_walk_through(kube: KubeClient) -> None:
    await walk_through(Stage(kube, "default", read_documents("rescale.yaml")))

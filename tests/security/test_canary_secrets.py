"""A canary in every field of a Pod template: no program writes one.

Frameworks take all their states on an API server, with the controller as a process at each level
and in each format of its log. Then its log, the Events, the metrics, the Frameworks' statuses, the
ConfigMaps and the output of ``framework run`` are searched for the canaries.
"""

import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.security.canaries import Canaries, build_valid
from tests.support.builders import build_role_wire, build_submission
from tests.support.servers.childprocess import find_free_ports
from tests.support.servers.controlplane import Access
from tests.support.servers.frameworkcrd import ROOT
from tests.support.servers.frameworkserver import build_env, open_local_server, start_controller
from tests.support.servers.jsonhttp import JsonHttp
from tests.support.slow import keep_first
from tests.support.waiting import HANG_SECONDS, wait_until

pytestmark = pytest.mark.local

Object = dict[str, Any]
CORE = "/api/v1/namespaces/default"
FRAMEWORKS = "/apis/frameworkcontroller.microsoft.com/v1/namespaces/default/frameworks"
MERGE = "application/merge-patch+json"
MESSAGE = "the-termination-message"

# The fields whose canaries may be written. Each is a name or a word of Kubernetes, and no place for
# a secret.
SHOWN = {
    r"spec\.(initContainers|containers)\[\]\.(name|image)": "names the container and its program",
    r"spec\.(initContainers|containers)\[\]\.resources\.claims\[\]\.name": "names a claim",
    r"spec\.((initContainers|containers)\[\]\.)?(imagePull|restart)Policy": "an enumeration",
    r"spec\.(nodeName|schedulerName|serviceAccountName|priorityClassName)": "names an object",
    r"spec\.schedulingGates\[\]\.name": "says why the Pod waits",
    # The API server's messages about a name quote it.
    r".*\.name": "names a part of the Pod",
}


@pytest.fixture(scope="module")
def access(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Access]:
    with open_local_server(tmp_path_factory.mktemp("server")) as opened:
        yield opened


class World:
    """An API server with our controller, and all that it showed of its Frameworks."""

    def __init__(self, http: JsonHttp) -> None:
        self.http = http
        self.seen: list[str] = []

    def send(self, method: str, path: str, body: Any = None) -> Any:
        kind = MERGE if method == "PATCH" else "application/json"
        code, answer = self.http.request(method, path, body, content_type=kind)
        assert code < 300, (method, path, code, answer)
        return answer

    def create(self, name: str, template: Any, count: int = 1, retries: int = 0) -> None:
        self.send("POST", FRAMEWORKS, build_framework(name, template, count, retries))

    def record(self) -> None:
        """Record the statuses, the ConfigMaps and the Events as they are now."""
        for framework in self.send("GET", FRAMEWORKS)["items"]:
            self.seen.append(json.dumps(framework.get("status")))
        self.seen.append(json.dumps(self.send("GET", f"{CORE}/configmaps")))
        self.seen.append(json.dumps(self.send("GET", f"{CORE}/events")))

    def wait_for(self, find: Callable[[], Any]) -> Any:
        def find_and_record() -> Any:
            found = find()
            self.record()
            return found

        return wait_until(find_and_record, lambda: str(self.seen[-3:]))

    def list_pods(self, framework: str) -> list[Object]:
        selector = f"labelSelector=FC_FRAMEWORK_NAME%3D{framework}"
        return list(self.send("GET", f"{CORE}/pods?{selector}")["items"])

    def wait_for_pod(self, framework: str, attempts: str) -> Object:
        """Wait for the Pod of the first Task in these attempts of Framework and Task."""

        def find() -> Object | None:
            for pod in self.list_pods(framework):
                notes = pod["metadata"]["annotations"]
                found = f"{notes['FC_FRAMEWORK_ATTEMPT_ID']}.{notes['FC_TASK_ATTEMPT_ID']}"
                is_meant = (notes["FC_TASK_INDEX"], found) == ("0", attempts)
                if is_meant and "deletionTimestamp" not in pod["metadata"]:
                    return pod
            return None

        pod: Object = self.wait_for(find)
        return pod

    def count_tasks(self, framework: str) -> int:
        status = self.send("GET", f"{FRAMEWORKS}/{framework}").get("status") or {}
        roles = (status.get("attemptStatus") or {}).get("taskRoleStatuses") or ()
        return sum(len(role["taskStatuses"]) for role in roles)

    def fail(self, pod: Object) -> None:
        """Write the status of a Pod whose first container has failed."""
        ended = {"exitCode": 3, "reason": "Error", "message": MESSAGE}
        name = pod["spec"]["containers"][0]["name"]
        containers = [{"name": name, "state": {"terminated": ended}}]
        path = f"{CORE}/pods/{pod['metadata']['name']}/status"
        body = {"status": {"phase": "Failed", "containerStatuses": containers}}
        self.send("PATCH", path, body)

    def wait_until_completed(self, name: str) -> None:
        def is_completed() -> bool:
            status = self.send("GET", f"{FRAMEWORKS}/{name}").get("status") or {}
            return bool(status.get("state") == "Completed")

        self.wait_for(is_completed)


def build_framework(name: str, template: Any, count: int = 1, retries: int = 0) -> Object:
    retry = {"maxRetryCount": retries}
    task = {"retryPolicy": retry, "pod": template}
    policy = {"minFailedTaskCount": 1}
    role = build_role_wire("worker", count, task=task, frameworkAttemptCompletionPolicy=policy)
    return build_submission(name, role, retryPolicy=retry)


def list_faults(http: JsonHttp, template: Object) -> list[str]:
    pod = {"apiVersion": "v1", "kind": "Pod", **template}
    pod["metadata"] = {**template["metadata"], "name": "trial"}
    code, answer = http.request("POST", f"{CORE}/pods?dryRun=All", pod)
    if code == 201:
        return []
    causes = (answer.get("details") or {}).get("causes") or []
    assert causes, answer
    return [cause["field"] for cause in causes]


def run_through_all_states(world: World, valid: Object) -> None:
    """Create, run, fail, retry the Task, retry the Framework, scale, complete, delete."""
    name = "complete"
    world.create(name, valid, count=2, retries=1)
    for attempts in ("0.0", "0.1", "1.0"):
        world.fail(world.wait_for_pod(name, attempts))
    last = world.wait_for_pod(name, "1.1")
    world.wait_for(lambda: len(world.list_pods(name)) == 2)
    roles = build_framework(name, valid, count=1, retries=1)["spec"]["taskRoles"]
    world.send("PATCH", f"{FRAMEWORKS}/{name}", {"spec": {"taskRoles": roles}})
    world.wait_for(lambda: world.count_tasks(name) == 1 == len(world.list_pods(name)))
    world.fail(last)
    world.wait_until_completed(name)
    world.send("DELETE", f"{FRAMEWORKS}/{name}?propagationPolicy=Foreground")
    world.wait_for(lambda: not world.list_pods(name))


def run_refused(world: World, template: Object, canaries: Canaries) -> None:
    """Create Frameworks whose Pods the server refuses, each for another reason."""
    number = canaries.make("spec.containers[].env[].value of another type")
    container = {"name": "a", "image": "b"}
    metadata = {k: template["metadata"][k] for k in ("annotations", "labels", "finalizers")}
    priority_class = template["spec"]["priorityClassName"]
    templates = {
        "invalid": {"metadata": metadata, "spec": template["spec"]},
        "type": {"spec": {"containers": [{**container, "args": number}]}},
        "class": {"spec": {"containers": [container], "priorityClassName": priority_class}},
    }
    for name, refused in templates.items():
        world.create(name, refused)
    for name in templates:
        world.wait_until_completed(name)


def create_unreadable(world: World, valid: Object) -> None:
    """Create a Framework whose status cannot be read, before a controller runs."""
    world.create("unreadable", valid)
    at = "2026-01-01T00:00:00Z"
    status = {
        "startTime": at,
        "state": "AttemptRunning",
        "transitionTime": at,
        "retryPolicyStatus": {},
        "attemptStatus": {"id": 0, "startTime": at, "taskRoleStatusesCompressed": "bm8gZ3ppcA=="},
    }
    world.send("PATCH", f"{FRAMEWORKS}/unreadable/status", {"status": status})


def run_command(access: Access, file: Path, framework: Object) -> str:
    file.write_text(json.dumps(framework))
    command = [sys.executable, "-m", "cli.main", "run", "--kubeconfig", access.kubeconfig]
    done = subprocess.run(
        [*command, "--timeout", f"{HANG_SECONDS}s", str(file)],
        capture_output=True,
        text=True,
        env=build_env(),
        cwd=ROOT,
        timeout=HANG_SECONDS,
        check=False,
    )
    assert done.returncode != 0
    return done.stdout + done.stderr


def find_unexpected(canaries: Canaries, text: str) -> dict[str, str]:
    return {
        canary: path
        for canary, path in canaries.find(text).items()
        if not any(re.fullmatch(pattern, path) for pattern in SHOWN)
    }


@pytest.mark.parametrize(
    ("log_format", "log_level"),
    keep_first([("text", "debug"), ("json", "debug"), ("text", "info"), ("json", "info")]),
)
def test_programs_write_no_canary(
    access: Access, tmp_path: Path, log_format: str, log_level: str
) -> None:
    http = access.open_http()
    canaries = Canaries()
    template = canaries.build_template()
    valid = build_valid(template, lambda pod: list_faults(http, pod))
    assert len(canaries.find_fields(valid)) >= 300
    assert len(canaries.find_fields(template)) >= 500

    (port,) = find_free_ports(1)
    options = ["--log-format", log_format, "--log-level", log_level]
    world = World(http)
    create_unreadable(world, valid)
    with start_controller(access, tmp_path, "--health-port", str(port), *options) as controller:
        run_through_all_states(world, valid)
        run_refused(world, template, canaries)
        world.wait_for(lambda: any("UnreadableFramework" in text for text in world.seen[-2:]))
        refused = {"metadata": valid["metadata"], "spec": template["spec"]}
        secret = canaries.make("metadata.labels of a Framework")
        shown = run_command(access, tmp_path / "a.json", build_framework("ran", refused))
        bad = build_framework("bad", valid)
        bad["metadata"]["labels"] = {"team": f"{secret} !"}
        shown += run_command(access, tmp_path / "b.json", bad)
        _, metrics = JsonHttp(f"http://127.0.0.1:{port}", "", None).request("GET", "/metrics")
        controller.raise_if_ended()
    for framework in world.send("GET", FRAMEWORKS)["items"]:
        name = framework["metadata"]["name"]
        world.send("DELETE", f"{FRAMEWORKS}/{name}?propagationPolicy=Foreground")
    wait_until(lambda: not world.send("GET", FRAMEWORKS)["items"])
    logged = controller.log.read_text()
    sinks = {"log": logged, "api": "\n".join(world.seen), "metrics": str(metrics), "run": shown}
    for name, text in sinks.items():
        assert find_unexpected(canaries, text) == {}, name
    # Each sink has its usual content.
    for reason in ("OnTaskRetry", "OnFrameworkRetry", "OnPodDeletion", "OnTaskDeletion"):
        assert reason in logged
    assert "frameworkcontroller" in str(metrics)
    assert "Invalid value: [hidden]" in shown
    # A termination message is in the status, as with the Go original; log and Events leave it out.
    assert MESSAGE in sinks["api"]
    assert MESSAGE not in logged
    events = json.dumps(world.send("GET", f"{CORE}/events"))
    assert "TaskFailed" in events
    assert MESSAGE not in events
    assert access.token not in "".join(sinks.values())

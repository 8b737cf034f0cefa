"""A canary in every field of a Pod template: none comes out of the programs.

Frameworks run through their life on an API server, with the controller as a process at each level
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
from tests.support.servers.childprocess import ChildProcess, find_free_ports
from tests.support.servers.controlplane import Access
from tests.support.servers.frameworkcrd import ROOT
from tests.support.servers.frameworkserver import build_env, open_local_server
from tests.support.servers.jsonhttp import JsonHttp
from tests.support.slow import keep_first
from tests.support.waiting import HANG_SECONDS, wait_until

pytestmark = pytest.mark.local

Object = dict[str, Any]
CORE = "/api/v1/namespaces/default"
FRAMEWORKS = "/apis/frameworkcontroller.microsoft.com/v1/namespaces/default/frameworks"
MERGE = "application/merge-patch+json"
MESSAGE = "the-termination-message"

# Where a canary may be found, by the field that holds it. Each of these is an identity or a word
# that Kubernetes knows, which names what an object is or needs; none is a place for a secret.
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
    """An API server with our controller, and all that is seen of its Frameworks."""

    def __init__(self, http: JsonHttp) -> None:
        self.http = http
        self.seen: list[str] = []

    def ask(self, method: str, path: str, body: Any = None, content_type: str = MERGE) -> Any:
        kind = content_type if method == "PATCH" else "application/json"
        code, answer = self.http.request(method, path, body, content_type=kind)
        assert code < 300, (method, path, code, answer)
        return answer

    def look(self) -> None:
        """Note the statuses, the ConfigMaps and the Events as they are now."""
        for framework in self.ask("GET", FRAMEWORKS)["items"]:
            self.seen.append(json.dumps(framework.get("status")))
        self.seen.append(json.dumps(self.ask("GET", f"{CORE}/configmaps")))
        self.seen.append(json.dumps(self.ask("GET", f"{CORE}/events")))

    def wait_for(self, what: Callable[[], Any]) -> Any:
        def look() -> Any:
            found = what()
            self.look()
            return found

        return wait_until(look, lambda: str(self.seen[-3:]))

    def list_pods(self, framework: str) -> list[Object]:
        selector = f"labelSelector=FC_FRAMEWORK_NAME%3D{framework}"
        return list(self.ask("GET", f"{CORE}/pods?{selector}")["items"])

    def wait_for_pod(self, framework: str, attempts: str) -> Object:
        def find() -> Object | None:
            for pod in self.list_pods(framework):
                notes = pod["metadata"]["annotations"]
                found = f"{notes['FC_FRAMEWORK_ATTEMPT_ID']}.{notes['FC_TASK_ATTEMPT_ID']}"
                if found == attempts and "deletionTimestamp" not in pod["metadata"]:
                    return pod
            return None

        pod: Object = self.wait_for(find)
        return pod

    def fail(self, pod: Object) -> None:
        """Be the kubelet: the first container has failed."""
        ended = {"exitCode": 3, "reason": "Error", "message": MESSAGE}
        name = pod["spec"]["containers"][0]["name"]
        status = {
            "phase": "Failed",
            "containerStatuses": [{"name": name, "state": {"terminated": ended}}],
        }
        path = f"{CORE}/pods/{pod['metadata']['name']}/status"
        self.ask("PATCH", path, {"status": status})

    def wait_completed(self, name: str) -> Object:
        def find() -> Object | None:
            found: Object = self.ask("GET", f"{FRAMEWORKS}/{name}")
            return found if (found.get("status") or {}).get("state") == "Completed" else None

        framework: Object = self.wait_for(find)
        return framework


def build_framework(name: str, template: Any, count: int = 1, retries: int = 0) -> Object:
    retry = {"maxRetryCount": retries}
    policy = {"minFailedTaskCount": 1}
    task = {"retryPolicy": retry, "pod": template}
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


def live(world: World, valid: Object) -> None:
    """Create, run, fail, retry the Task, retry the Framework, scale, complete, delete."""
    world.ask("POST", FRAMEWORKS, build_framework("lives", valid, count=2, retries=1))
    for attempts in ("0.0", "0.1", "1.0"):
        world.fail(world.wait_for_pod("lives", attempts))
    world.wait_for_pod("lives", "1.1")
    roles = build_framework("lives", valid, count=1, retries=1)["spec"]["taskRoles"]
    world.ask("PATCH", f"{FRAMEWORKS}/lives", {"spec": {"taskRoles": roles}})
    world.wait_for(lambda: len(world.list_pods("lives")) == 1)
    world.fail(world.list_pods("lives")[0])
    world.wait_completed("lives")
    world.ask("DELETE", f"{FRAMEWORKS}/lives?propagationPolicy=Foreground")
    world.wait_for(lambda: not world.list_pods("lives"))


def be_refused(world: World, template: Object, canaries: Canaries) -> None:
    """Frameworks whose Pods the server refuses, for each in another way."""
    number = canaries.make("spec.containers[].env[].value of another type")
    wrong_type = {"spec": {"containers": [{"name": "a", "image": "b", "args": number}]}}
    only_class = {
        "spec": {
            "containers": [{"name": "a", "image": "b"}],
            "priorityClassName": template["spec"]["priorityClassName"],
        }
    }
    metadata = {k: template["metadata"][k] for k in ("annotations", "labels", "finalizers")}
    templates = {
        "invalid": {"metadata": metadata, "spec": template["spec"]},
        "type": wrong_type,
        "class": only_class,
    }
    for name, refused in templates.items():
        world.ask("POST", FRAMEWORKS, build_framework(name, refused))
    for name in templates:
        world.wait_completed(name)


def poison(world: World, valid: Object) -> None:
    """Make a Framework whose status cannot be read, before there is a controller."""
    world.ask("POST", FRAMEWORKS, build_framework("poison", valid))
    at = "2026-01-01T00:00:00Z"
    status = {
        "startTime": at,
        "state": "AttemptRunning",
        "transitionTime": at,
        "retryPolicyStatus": {},
        "attemptStatus": {"id": 0, "startTime": at, "taskRoleStatusesCompressed": "bm8gZ3ppcA=="},
    }
    world.ask("PATCH", f"{FRAMEWORKS}/poison/status", {"status": status})


def be_poisoned(world: World) -> None:
    world.wait_for(lambda: any("UnreadableFramework" in text for text in world.seen[-2:]))


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
def test_no_canary_comes_out_of_the_programs(
    access: Access, tmp_path: Path, log_format: str, log_level: str
) -> None:
    http = access.open_http()
    canaries = Canaries()
    template = canaries.build_template()
    valid = build_valid(template, lambda pod: list_faults(http, pod))
    assert len(canaries.find_fields(valid)) >= 300
    assert len(canaries.find_fields(template)) >= 500

    (port,) = find_free_ports(1)
    command = [sys.executable, "-m", "controller", "--kubeconfig", access.kubeconfig]
    command += ["--health-port", str(port), "--log-format", log_format, "--log-level", log_level]
    log = tmp_path / "controller.log"
    world = World(http)
    poison(world, valid)
    controller = ChildProcess("controller", command, log=log, env=build_env())
    try:
        live(world, valid)
        be_refused(world, template, canaries)
        be_poisoned(world)
        refused = {"metadata": valid["metadata"], "spec": template["spec"]}
        secret = canaries.make("metadata.labels of a Framework")
        shown = run_command(access, tmp_path / "a.json", build_framework("ran", refused))
        bad = build_framework("bad", valid)
        bad["metadata"]["labels"] = {"team": f"{secret} !"}
        shown += run_command(access, tmp_path / "b.json", bad)
        _, metrics = JsonHttp(f"http://127.0.0.1:{port}", "", None).request("GET", "/metrics")
        controller.raise_if_ended()
    finally:
        controller.terminate()
        for name in ("lives", "invalid", "type", "class", "poison", "ran"):
            http.request("DELETE", f"{FRAMEWORKS}/{name}?propagationPolicy=Foreground")
    logged = log.read_text()
    sinks = {"log": logged, "api": "\n".join(world.seen), "metrics": str(metrics), "run": shown}
    assert {name: find_unexpected(canaries, text) for name, text in sinks.items()} == {
        "log": {},
        "api": {},
        "metrics": {},
        "run": {},
    }
    # They have something to say.
    for said in ("OnTaskRetry", "OnFrameworkRetry", "OnPodDeletion", "OnTaskDeletion"):
        assert said in logged
    assert "frameworkcontroller" in str(metrics)
    assert "Invalid value: [hidden]" in shown
    # A container's last words are in the status, as of the Go original; the log leaves them out.
    assert MESSAGE in sinks["api"]
    assert MESSAGE not in logged
    assert access.token not in "".join(sinks.values())

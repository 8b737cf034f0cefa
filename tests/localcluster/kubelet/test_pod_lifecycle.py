import asyncio
import base64
import json
import os
import re
import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from framework.api.constants import WORKING_DIR
from framework.kube.resources import CONFIGMAPS, SECRETS, Object
from localcluster.kubelet.container import container as container_module
from localcluster.kubelet.container.restarts import BackoffBounds
from localcluster.kubelet.container.sandbox import Isolation
from tests.localcluster.kubelet.nodes import (
    TOKEN,
    Node,
    build_container,
    build_pod,
    find_condition,
    find_container,
    is_alive,
    open_node,
)
from tests.support.servers.childprocess import find_free_ports
from tests.support.waiting import HANG_SECONDS

pytestmark = pytest.mark.local

VOLUME: dict[str, Any] = {"volumes": [{"name": "shared", "emptyDir": {}}]}
MOUNTS: dict[str, Any] = {"volumeMounts": [{"name": "shared", "mountPath": WORKING_DIR}]}
# A probe that neither a busy machine nor a slow start fails.
PATIENT: dict[str, Any] = {"timeoutSeconds": 60, "failureThreshold": 100}
# Prints a word when it can be asked to end.
LOOP = "echo up; while :; do sleep 0.01; done"
LATE_CONFIGMAP = {"metadata": {"name": "late", "namespace": "default"}, "data": {"k": "v"}}


def get_ended(pod: Object, name: str = "main") -> Object:
    ended: Object = find_container(pod, name)["state"]["terminated"]
    return ended


def is_running(name: str = "main") -> Callable[[Object], bool]:
    return lambda pod: "running" in find_container(pod, name)["state"]


def find_waiting(pod: Object) -> Object:
    waiting: Object = find_container(pod)["state"].get("waiting", {})
    return waiting


async def test_pod_init_and_main_share_a_volume_and_succeed(either_node: Node) -> None:
    init = build_container("echo hello >/mnt/frameworkbarrier/greeting", "init", **MOUNTS)
    main = build_container("cat /mnt/frameworkbarrier/greeting", **MOUNTS)
    pod = await either_node.finish(build_pod("p", main, inits=(init,), **VOLUME))
    assert pod["status"]["phase"] == "Succeeded"
    assert get_ended(pod, "init")["reason"] == "Completed"
    assert get_ended(pod)["exitCode"] == 0
    assert get_ended(pod)["finishedAt"] >= get_ended(pod, "init")["finishedAt"]
    assert await either_node.read_log("p") == "hello\n"


async def test_pod_initializing_already_has_its_address(node: Node) -> None:
    init = build_container("sleep 600", "init")
    await node.create(build_pod("p", build_container("true"), inits=(init,)))
    pod = await node.wait_for("p", is_running("init"))
    assert pod["status"]["phase"] == "Pending"
    assert pod["status"]["podIP"].startswith("127.64.")
    assert pod["spec"]["nodeName"] == "local"
    assert find_condition(pod, "Initialized")["status"] == "False"
    assert find_container(pod)["state"]["waiting"]["reason"] == "PodInitializing"


async def test_pods_two_at_once_have_their_own_addresses(node: Node) -> None:
    (port,) = find_free_ports(1)
    script = f"python3 -c 'import socket; s=socket.create_server((\"'$IP'\", {port})); print(1)'"
    ip = {"name": "IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}
    pods = [build_pod(name, build_container(script, env=[ip])) for name in ("a", "b")]
    ended = await asyncio.gather(*map(node.finish, pods))
    assert [pod["status"]["phase"] for pod in ended] == ["Succeeded", "Succeeded"]
    assert len({pod["status"]["podIP"] for pod in ended}) == 2


async def test_pod_failed_container_reports_code_and_log(node: Node) -> None:
    policy = {"terminationMessagePolicy": "FallbackToLogsOnError"}
    pod = await node.finish(build_pod("p", build_container("echo broken; exit 7", **policy)))
    assert pod["status"]["phase"] == "Failed"
    ended = get_ended(pod)
    assert (ended["exitCode"], ended["reason"], ended["message"]) == (7, "Error", "broken\n")
    assert ended["containerID"] == find_container(pod)["containerID"]


@pytest.mark.parametrize("path", ["/dev/termination-log", "/own/place/message"])
async def test_pod_termination_message_is_read(either_node: Node, path: str) -> None:
    script = f"printf '{{\"why\": 1}}' >{path}; exit 201"
    container = build_container(script, terminationMessagePath=path)
    pod = await either_node.finish(build_pod("p", container))
    assert get_ended(pod)["message"] == '{"why": 1}'


async def test_pod_failed_init_container_fails_the_pod(node: Node) -> None:
    inits = (build_container("exit 210", "first"), build_container("true", "second"))
    pod = await node.finish(build_pod("p", build_container("true"), inits=inits))
    assert pod["status"]["phase"] == "Failed"
    assert get_ended(pod, "first")["exitCode"] == 210
    assert "waiting" in find_container(pod, "second")["state"]
    assert "waiting" in find_container(pod)["state"]


async def test_pod_missing_command_is_a_start_error(either_node: Node) -> None:
    container = {"name": "main", "image": "any", "command": ["no-such-program"]}
    pod = await either_node.finish(build_pod("p", container))
    ended = get_ended(pod)
    assert (ended["exitCode"], ended["reason"]) == (128, "StartError")
    assert re.search(r'exec: "no-such-program": .*not found', ended["message"])


async def test_pod_unknown_image_without_command_waits_with_a_reason(node: Node) -> None:
    await node.create(build_pod("p", {"name": "main", "image": "python:3"}))
    pod = await node.wait_for("p", lambda pod: "message" in find_waiting(pod))
    waiting = find_waiting(pod)
    assert waiting["reason"] == "ErrImagePull"
    assert "python:3" in waiting["message"]
    assert "`command`" in waiting["message"]
    await node.delete("p")
    await node.wait_until_deleted("p")


async def test_pod_on_failure_restarts_until_it_succeeds(tmp_path: Path) -> None:
    bounds = BackoffBounds(initial_seconds=0.05)
    script = "cd /mnt/frameworkbarrier; n=$(cat n || echo 0); echo $((n+1)) >n; exit $((n<2))"
    async with open_node(tmp_path, backoff=bounds) as node:
        container = build_container(script, **MOUNTS)
        pod = await node.finish(build_pod("p", container, restartPolicy="OnFailure", **VOLUME))
    assert pod["status"]["phase"] == "Succeeded"
    assert find_container(pod)["restartCount"] == 2
    assert find_container(pod)["lastState"]["terminated"]["exitCode"] == 1


async def test_pod_that_crashes_again_waits_for_its_back_off(tmp_path: Path) -> None:
    # A shorter wait could be over before its status is written.
    async with open_node(tmp_path, backoff=BackoffBounds(initial_seconds=600)) as node:
        await node.create(build_pod("p", build_container("exit 1"), restartPolicy="OnFailure"))
        crashed = await node.wait_for(
            "p", lambda pod: find_waiting(pod).get("reason") == "CrashLoopBackOff"
        )
    assert find_container(crashed)["restartCount"] == 1
    assert find_container(crashed)["lastState"]["terminated"]["exitCode"] == 1
    assert crashed["status"]["phase"] == "Running"


async def test_pod_over_its_deadline_fails(either_node: Node) -> None:
    container = build_container("sleep 600")
    # On a busy machine a short deadline may be over before the container is started.
    ended: Object = {}
    seconds = 1
    while not ended:
        body = build_pod(f"p-{seconds}", container, activeDeadlineSeconds=seconds)
        pod = await either_node.finish(body)
        assert (pod["status"]["phase"], pod["status"]["reason"]) == ("Failed", "DeadlineExceeded")
        ended = find_container(pod)["state"].get("terminated", {})
        seconds *= 10
    assert ended["exitCode"] == 143


async def test_pod_sidecar_is_stopped_after_main_has_ended(node: Node) -> None:
    # The Pod may end as soon as the file is there.
    up = "echo up; touch /mnt/frameworkbarrier/up; while :; do sleep 0.01; done"
    script = f"trap 'echo stopped; exit 0' TERM; {up}"
    check = "test -e /mnt/frameworkbarrier/up"
    probe = {"exec": {"command": check.split()}, "periodSeconds": 1, **PATIENT}
    sidecar = build_container(script, "side", restartPolicy="Always", startupProbe=probe, **MOUNTS)
    main = build_container(check, **MOUNTS)
    pod = await node.finish(build_pod("p", main, inits=(sidecar,), **VOLUME))
    assert pod["status"]["phase"] == "Succeeded"
    assert get_ended(pod, "side")["exitCode"] == 0
    assert await node.read_log("p", "side") == "up\nstopped\n"


async def test_pod_deleted_runs_its_hook_then_gets_sigterm(either_node: Node) -> None:
    node = either_node
    command = ["sh", "-c", "echo hook >>/mnt/frameworkbarrier/said"]
    hook = {"preStop": {"exec": {"command": command}}}
    script = f"trap 'cat /mnt/frameworkbarrier/said; echo bye; exit 5' TERM; {LOOP}"
    await node.create(build_pod("p", build_container(script, lifecycle=hook, **MOUNTS), **VOLUME))
    await node.wait_for("p", is_running())
    await node.wait_for_log("p", "up")
    await node.delete("p")
    last = await node.wait_until_deleted("p")
    assert get_ended(last)["exitCode"] == 5
    assert last["status"]["phase"] == "Failed"
    assert await node.read_log("p") == "up\nhook\nbye\n"


async def test_pod_that_ignores_sigterm_is_killed_after_its_grace(node: Node) -> None:
    container = build_container(f"trap '' TERM; {LOOP}")
    await node.create(build_pod("p", container, terminationGracePeriodSeconds=1))
    await node.wait_for("p", is_running())
    await node.wait_for_log("p", "up")
    await node.delete("p")
    last = await node.wait_until_deleted("p")
    assert (get_ended(last)["exitCode"], get_ended(last)["reason"]) == (137, "Error")


async def test_pod_deleted_again_with_a_shorter_grace_is_killed_after_it(node: Node) -> None:
    container = build_container(f"trap '' TERM; {LOOP}")
    await node.create(build_pod("p", container, terminationGracePeriodSeconds=86400))
    await node.wait_for("p", is_running())
    await node.wait_for_log("p", "up")
    for grace_seconds in (None, 43200, 1):
        await node.delete("p", grace_seconds=grace_seconds)
    last = await node.wait_until_deleted("p")
    assert get_ended(last)["exitCode"] == 137


async def test_pod_force_deleted_is_killed_at_once(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "localcluster.kubelet.container.process._KILL_TIMEOUT_SECONDS", HANG_SECONDS
    )
    marker = f"{86400 + os.getpid()}.4"
    await node.create(build_pod("p", build_container(f"trap '' TERM; sleep {marker}")))
    await node.wait_for("p", is_running())
    await node.delete("p", grace_seconds=0)
    await node.wait_until_deleted("p")
    await asyncio.gather(*node.kubelet._tasks)
    assert not is_alive(marker)


async def test_pod_running_is_ready_and_one_created_later_under_its_name_runs(node: Node) -> None:
    await node.create(build_pod("p", build_container("sleep 600")))
    pod = await node.wait_for_phase("p", "Running")
    assert find_condition(pod, "Ready")["status"] == "True"
    assert find_container(pod)["started"] is True
    await node.delete("p", grace_seconds=1)
    await node.wait_until_deleted("p")
    await node.create(build_pod("p", build_container("echo second")))
    await node.wait_for_phase("p", "Succeeded")
    assert await node.read_log("p") == "second\n"


async def test_pod_environment_is_clean_and_complete(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBELET_TEST_LEAK", "1")
    env = [
        {"name": "UID", "valueFrom": {"fieldRef": {"fieldPath": "metadata.uid"}}},
        {"name": "BOTH", "value": "$(UID)-$(KUBERNETES_SERVICE_PORT)"},
    ]
    script = "python3 -c 'import json, os; print(json.dumps(dict(os.environ)))'; echo $0"
    container = build_container(script, env=env, args=["$(UID)"])

    pod = await node.finish(build_pod("p", container))

    log = await node.read_log("p")
    seen, name = json.loads(log.splitlines()[0]), log.splitlines()[1]
    port = node.address.rpartition(":")[2]
    assert name == pod["metadata"]["uid"]
    assert seen["BOTH"] == f"{name}-{port}"
    assert seen["HOSTNAME"] == "p"
    assert seen["KUBERNETES_SERVICE_HOST"] == "127.0.0.1"
    assert "KUBELET_TEST_LEAK" not in seen
    assert "KUBE_APISERVER_ADDRESS" not in seen


async def test_pod_of_a_project_image_finds_server_token_and_directory(
    either_node: Node,
) -> None:
    script = "cat $FRAMEWORKBARRIER_SERVICE_ACCOUNT_DIR/token; echo; env; cd $BARRIER_WORKING_DIR"
    env = [{"name": "BARRIER_TERMINATION_LOG", "value": "own"}]
    container = build_container(script, env=env, **MOUNTS)
    container["image"] = "frameworkcontroller/frameworkbarrier"
    await either_node.finish(build_pod("p", container, **VOLUME))
    log = await either_node.read_log("p")
    lines = log.splitlines()
    assert lines[0] == TOKEN
    assert f"KUBE_APISERVER_ADDRESS={either_node.address}" in lines
    assert "BARRIER_TERMINATION_LOG=own" in lines
    assert "cd:" not in log


async def test_pod_volumes_of_every_kind_are_mounted(either_node: Node, tmp_path: Path) -> None:
    node = either_node
    (tmp_path / "host").mkdir()
    (tmp_path / "host" / "file").write_text("from host\n")
    secret = base64.b64encode(b"secret\n").decode()
    for resource, name, value in ((CONFIGMAPS, "conf", "conf\n"), (SECRETS, "key", secret)):
        body = {"metadata": {"namespace": "default", "name": name}, "data": {"k": value}}
        await node.client.create(resource, "default", body)
    label = {"path": "name", "fieldRef": {"fieldPath": "metadata.name"}}
    volumes = [
        {"name": "conf", "configMap": {"name": "conf"}},
        {"name": "key", "secret": {"secretName": "key"}},
        {"name": "host", "hostPath": {"path": str(tmp_path / "host")}},
        {"name": "all", "projected": {"sources": [{"downwardAPI": {"items": [label]}}]}},
    ]
    mounts = [
        {"name": "conf", "mountPath": "/etc/conf.txt", "subPath": "k"},
        {"name": "key", "mountPath": "/run/key"},
        {"name": "host", "mountPath": "/mnt/host"},
        {"name": "all", "mountPath": "/a/b/c"},
    ]
    script = "cat /etc/conf.txt /run/key/k /mnt/host/file /a/b/c/name"
    container = build_container(script, volumeMounts=mounts)
    pod = await node.finish(build_pod("p", container, volumes=volumes))

    assert await node.read_log("p") == "conf\nsecret\nfrom host\np"
    assert pod["status"]["phase"] == "Succeeded"


async def test_pod_in_private_root_knows_its_own_name(tmp_path: Path) -> None:
    script = "python3 -c 'import socket; print(socket.gethostbyname(socket.gethostname()))'"
    async with open_node(tmp_path, isolation=Isolation.ROOT) as node:
        pod = await node.finish(build_pod("p", build_container(script)))
        assert await node.read_log("p") == pod["status"]["podIP"] + "\n"


async def test_pod_with_replaced_paths_gets_one_event(tmp_path: Path) -> None:
    async with open_node(tmp_path, isolation=Isolation.PATHS) as node:
        script = "pwd; touch here; cd /srv/dir/that/is/not && echo never"
        pod = build_pod("p", build_container(script, workingDir="/srv/dir/that/is/not"))
        await node.finish(pod)
        events = await node.wait_for_events("PathsReplaced")
        log = await node.read_log("p")
    assert [event["type"] for event in events] == ["Warning"]
    assert str(tmp_path) in log
    assert "never" in log


async def test_pod_missing_volume_source_waits_with_an_event(node: Node) -> None:
    volumes = [{"name": "conf", "configMap": {"name": "late"}}]
    mounts = [{"name": "conf", "mountPath": "/conf"}]
    container = build_container("cat /conf/k", volumeMounts=mounts)
    await node.create(build_pod("p", container, volumes=volumes))
    events = await node.wait_for_events("FailedMount")
    await node.client.create(CONFIGMAPS, "default", LATE_CONFIGMAP)
    await node.wait_for_phase("p", "Succeeded")
    assert 'configmap "late" not found' in events[0]["message"]
    assert await node.read_log("p") == "v"


async def test_pod_missing_env_source_waits_with_a_reason(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(container_module, "_CONFIG_RETRY_SECONDS", 0.05)
    env = [{"name": "A", "valueFrom": {"configMapKeyRef": {"name": "late", "key": "k"}}}]
    await node.create(build_pod("p", build_container("echo $A", env=env)))
    waiting = await node.wait_for("p", lambda pod: "message" in find_waiting(pod))
    await node.client.create(CONFIGMAPS, "default", LATE_CONFIGMAP)
    await node.wait_for_phase("p", "Succeeded")
    assert find_waiting(waiting)["reason"] == "CreateContainerConfigError"
    assert await node.read_log("p") == "v\n"


async def test_pod_readiness_follows_its_probe(node: Node, tmp_path: Path) -> None:
    ready = {"tcpSocket": {"port": "web"}, "periodSeconds": 1, **PATIENT}
    (port,) = find_free_ports(1)
    serve_port = (
        f"import socket; s = socket.create_server(('0.0.0.0', {port}))\nwhile True: s.accept()"
    )
    container = build_container(
        "until [ -e /gate/open ]; do sleep 0.05; done; "
        f"{shlex.quote(sys.executable)} -c {shlex.quote(serve_port)}; sleep 600",
        readinessProbe=ready,
        ports=[{"name": "web", "containerPort": port}],
        volumeMounts=[{"name": "gate", "mountPath": "/gate"}],
    )
    gate = tmp_path / "gate"
    gate.mkdir()
    volume = {"name": "gate", "hostPath": {"path": str(gate)}}
    await node.create(build_pod("p", container, volumes=[volume]))
    unready = await node.wait_for("p", is_running())
    (gate / "open").touch()
    pod = await node.wait_for("p", lambda pod: find_condition(pod, "Ready").get("status") == "True")
    assert find_container(unready)["ready"] is False
    assert find_container(pod)["ready"] is True


async def test_pod_failed_liveness_restarts_the_container(node: Node) -> None:
    command = ["test", "-e", "/mnt/frameworkbarrier/once"]
    probe = {"exec": {"command": command}, "failureThreshold": 1}
    script = "cd /mnt/frameworkbarrier; if test -e seen; then touch once; fi; touch seen; sleep 600"
    container = build_container(script, livenessProbe=probe, **MOUNTS)
    await node.create(build_pod("p", container, restartPolicy="Always", **VOLUME))
    pod = await node.wait_for("p", lambda pod: find_container(pod)["restartCount"] == 1)
    assert find_container(pod)["lastState"]["terminated"]["exitCode"] == 143
    assert "Liveness probe failed" in (await node.wait_for_events("Unhealthy"))[0]["message"]

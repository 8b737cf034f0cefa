"""The real kubectl against the local server.

Skipped without a kubectl on PATH or in $FRAMEWORKBARRIER_KUBECTL. It runs as a child process while
this test's loop serves it.
"""

import asyncio
import json
import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from framework.kube.tokenurl import url_with_token
from localcluster.apiserver.model.options import ContainerLog, LogReadOptions
from tests.localcluster.server.conftest import KUBECTL_TOKEN, open_server
from tests.support.servers.binaries import find_kubectl
from tests.support.waiting import HANG_SECONDS

KUBECTL = find_kubectl()

pytestmark = pytest.mark.skipif(KUBECTL is None, reason="no kubectl: let make test-kube build it")

CRD = """
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: gangs.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: gangs, singular: gang, kind: Gang, shortNames: [gg], categories: [all]}
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {status: {}}
    additionalPrinterColumns:
    - {name: Size, type: integer, jsonPath: .spec.size}
    - {name: State, type: string, jsonPath: .status.state}
    schema:
      openAPIV3Schema:
        type: object
        description: A gang.
        properties:
          spec:
            type: object
            description: What is wanted.
            properties:
              size: {type: integer, minimum: 0, description: How many.}
          status: {type: object, x-kubernetes-preserve-unknown-fields: true}
"""
OBJECTS = """
apiVersion: example.com/v1
kind: Gang
metadata: {name: gang}
spec: {size: %(size)s}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: config}
data: {a: "%(size)s"}
---
apiVersion: v1
kind: Pod
metadata: {name: pod}
spec:
  nodeName: local
  containers:
  - {name: main, image: "example.com/main:%(size)s"}
  - {name: side, image: "example.com/side:1"}
"""

NAMESPACE = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "ns"}}
EVENT = {
    "apiVersion": "v1",
    "kind": "Event",
    "metadata": {"name": "event", "namespace": "default"},
    "involvedObject": {"kind": "Pod", "name": "pod", "namespace": "default", "uid": ""},
    "reason": "Waited",
    "message": "For its gang.",
    "type": "Normal",
}
# Of a Gang.
GUARDED = [
    {"op": "test", "path": "/spec/size", "value": 1},
    {"op": "replace", "path": "/spec/size", "value": 5},
]


class Logs:
    async def stream(self, log: ContainerLog, options: LogReadOptions) -> AsyncIterator[bytes]:
        yield f"first of {log.namespace}/{log.pod}/{log.container}\n".encode()
        if options.follow:
            yield b"second\n"


class Kubectl:
    def __init__(self, server: str, home: Path) -> None:
        self._server = server
        self._home = home

    async def call(self, *words: str, stdin: str = "") -> tuple[int, str]:
        """Run a command; return its exit code and what it printed."""
        child = await asyncio.create_subprocess_exec(
            str(KUBECTL), "--server", self._server, *words,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env={"PATH": os.environ["PATH"], "HOME": str(self._home), "NO_PROXY": "*"},
            cwd=self._home,
        )  # fmt: skip
        output, errors = await child.communicate(stdin.encode())
        assert child.returncode is not None
        # Warnings (of another client version, for example) are no part of the answer.
        answer = output + errors if child.returncode else output
        return child.returncode, answer.decode()

    async def run(self, *words: str, stdin: str = "") -> str:
        code, output = await self.call(*words, stdin=stdin)
        assert code == 0, output
        return output

    async def fail(self, *words: str, stdin: str = "") -> str:
        code, output = await self.call(*words, stdin=stdin)
        assert code == 1, output
        return output

    async def apply(self, text: str) -> list[str]:
        return (await self.run("apply", "-f", "-", stdin=text)).splitlines()


@pytest.fixture
async def kubectl(tmp_path: Path) -> AsyncIterator[Kubectl]:
    async with open_server(pod_logs=Logs()) as running:
        yield Kubectl(url_with_token(running.url, KUBECTL_TOKEN), tmp_path)


@pytest.fixture
async def installed(kubectl: Kubectl) -> Kubectl:
    """A server with the definition of Gangs, and with a Gang, a ConfigMap and a Pod."""
    await kubectl.apply(CRD)
    await kubectl.run("wait", "--for=condition=established", "crd/gangs.example.com")
    await kubectl.apply(OBJECTS % {"size": 1})
    return kubectl


async def test_apply_creates_then_leaves_then_changes(kubectl: Kubectl) -> None:
    await kubectl.apply(CRD)
    seen = [await kubectl.apply(OBJECTS % {"size": size}) for size in (1, 1, 2)]
    names = ("gang.example.com/gang", "configmap/config", "pod/pod")
    for lines, word in zip(seen, ("created", "unchanged", "configured"), strict=True):
        assert lines == [f"{name} {word}" for name in names]
    pod = json.loads(await kubectl.run("get", "pod", "pod", "-o", "json"))
    images = [item["image"] for item in pod["spec"]["containers"]]
    assert images == ["example.com/main:2", "example.com/side:1"]


async def test_apply_with_mistakes_names_kind_and_fields(kubectl: Kubectl) -> None:
    text = '{"apiVersion": "example.com/v1", "kind": "Gang", "metadata": {"name": "x"}, "spec": %s}'
    apply = ("apply", "-f", "-")
    no_kind = await kubectl.fail(*apply, stdin=text % '{"size": 1}')
    await kubectl.apply(CRD)
    assert 'no matches for kind "Gang" in version "example.com/v1"' in no_kind
    unknown = await kubectl.fail(*apply, stdin=text % '{"sice": 1}')
    assert 'unknown field "spec.sice"' in unknown
    invalid = await kubectl.fail(*apply, stdin=text % '{"size": -1}')
    assert "spec.size: Invalid value: -1" in invalid


async def test_get_prints_the_columns(installed: Kubectl) -> None:
    gangs = await installed.run("get", "gg")
    pods = (await installed.run("get", "pods", "-o", "wide")).splitlines()
    everything = await installed.run("get", "all,cm")
    assert [line.split() for line in gangs.splitlines()] == [
        ["NAME", "SIZE", "STATE"],
        ["gang", "1"],
    ]
    assert pods[0].split()[:7] == ["NAME", "READY", "STATUS", "RESTARTS", "AGE", "IP", "NODE"]
    assert pods[1].split()[:4] == ["pod", "0/2", "Pending", "0"]
    for name in ("pod/pod", "gang.example.com/gang", "configmap/config"):
        assert name in everything
    missing = await installed.fail("get", "pod", "none")
    assert missing == 'Error from server (NotFound): pods "none" not found\n'


async def test_describe_shows_object_and_events(installed: Kubectl) -> None:
    uid = await installed.run("get", "pod", "pod", "-o", "jsonpath={.metadata.uid}")
    await installed.apply(json.dumps(EVENT).replace('"uid": ""', f'"uid": "{uid}"'))
    pod = await installed.run("describe", "pod", "pod")
    assert "example.com/side:1" in pod
    assert "For its gang." in pod
    assert "Size:  1" in await installed.run("describe", "gg", "gang")


async def test_patch_label_and_annotate(installed: Kubectl) -> None:
    await installed.run("label", "pod", "pod", "a=b")
    await installed.run("annotate", "gg", "gang", "c=d")
    await installed.run("patch", "cm", "config", "-p", '{"data":{"z":"9"}}')
    guarded = ("patch", "gg", "gang", "--type=json", "-p", json.dumps(GUARDED))
    await installed.run(*guarded)
    await installed.fail(*guarded)
    assert await installed.run("get", "pods", "-l", "a=b", "-o", "name") == "pod/pod\n"
    gang = json.loads(await installed.run("get", "gg", "gang", "-o", "json"))
    assert (gang["spec"]["size"], gang["metadata"]["annotations"]["c"]) == (5, "d")
    data = await installed.run("get", "cm", "config", "-o", "jsonpath={.data}")
    assert json.loads(data) == {"a": "1", "z": "9"}


async def test_wait_sees_a_later_status(installed: Kubectl) -> None:
    state = "--for=jsonpath={.status.state}=Done"
    async with asyncio.TaskGroup() as group:
        wait = installed.call("wait", state, "gg/gang", f"--timeout={HANG_SECONDS:g}s")
        waiting = group.create_task(wait, name="kubectl wait")
        patch = ("patch", "gg", "gang", "--subresource=status", "--type=merge")
        await installed.run(*patch, "-p", '{"status":{"state":"Done"}}')
    assert waiting.result() == (0, "gang.example.com/gang condition met\n")


async def test_logs_of_one_container_and_followed(installed: Kubectl) -> None:
    side = await installed.run("logs", "pod", "-c", "side")
    assert side == "first of default/pod/side\n"
    followed = await installed.run("logs", "pod", "-c", "main", "-f")
    assert followed == "first of default/pod/main\nsecond\n"
    unknown = await installed.fail("logs", "pod", "-c", "none")
    assert "container none is not valid for pod pod" in unknown


async def test_explain_knows_custom_fields(installed: Kubectl) -> None:
    gang = await installed.run("explain", "gangs.spec")
    assert "What is wanted." in gang
    assert "How many." in gang


async def test_delete_waits_until_the_objects_do_not_exist(installed: Kubectl) -> None:
    await installed.run("delete", "gg", "--all")
    await installed.run("delete", "cm", "config")
    await installed.run("delete", "pod", "pod", "--force", "--grace-period=0")
    await installed.run("delete", "crd", "gangs.example.com")
    assert await installed.run("get", "pods,cm", "-o", "name") == ""
    unknown = await installed.fail("get", "gg")
    assert "gangs" in unknown or "gg" in unknown


async def test_version_resources_and_raw_paths(kubectl: Kubectl) -> None:
    version = json.loads(await kubectl.run("version", "-o", "json"))
    assert version["serverVersion"]["minor"] == "34"
    resources = (await kubectl.run("api-resources", "-o", "name")).split()
    assert {"pods", "configmaps", "leases.coordination.k8s.io"} <= set(resources)
    assert await kubectl.run("get", "--raw", "/readyz") == "ok"


async def test_create_without_a_file_is_refused_with_the_remedy(kubectl: Kubectl) -> None:
    """Only ``create KIND`` and ``auth can-i`` send protobuf; ``create -f`` sends JSON."""
    refused = await kubectl.fail("create", "namespace", "ns")
    assert "with kubectl, give the object in a file (-f)" in refused
    await kubectl.run("create", "-f", "-", stdin=json.dumps(NAMESPACE))
    assert await kubectl.run("get", "ns", "ns", "-o", "name") == "namespace/ns\n"

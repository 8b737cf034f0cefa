"""The real kubectl against the local server.

Skipped without a kubectl on PATH or in $FRAMEWORKBARRIER_KUBECTL. It runs as a child process while
this test's loop serves it.
"""

import asyncio
import json
import os
import shutil
from collections.abc import AsyncIterator, Callable, Coroutine
from pathlib import Path

import pytest

from framework.clock import SystemClock, SystemUids
from framework.kube.tokenurl import url_with_token
from localcluster.apiserver.server import ApiServer
from localcluster.apiserver.storage import Storage
from tests.support.waiting import HANG_SECONDS

KUBECTL = os.environ.get("FRAMEWORKBARRIER_KUBECTL") or shutil.which("kubectl")

pytestmark = [
    pytest.mark.skipif(
        KUBECTL is None, reason="no kubectl: put it on PATH or name it in FRAMEWORKBARRIER_KUBECTL"
    ),
]

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

Kubectl = Callable[..., Coroutine[None, None, tuple[int, str]]]


class _Logs:
    async def stream(
        self, namespace: str, pod: str, container: str, **options: object
    ) -> AsyncIterator[bytes]:
        yield f"first of {namespace}/{pod}/{container}\n".encode()
        if options["follow"]:
            yield b"second\n"


@pytest.fixture
async def kubectl(tmp_path: Path) -> AsyncIterator[Kubectl]:
    storage = Storage(SystemClock(), SystemUids())
    tokens = ["kubectl token"]
    env = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "NO_PROXY": "*"}
    async with ApiServer(storage, clock=SystemClock(), tokens=tokens, pod_logs=_Logs()) as server:
        address = url_with_token(await server.start(), tokens[0])

        async def run(*words: str, stdin: str = "") -> tuple[int, str]:
            child = await asyncio.create_subprocess_exec(
                str(KUBECTL),
                "--server",
                address,
                *words,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                env=env,
                cwd=tmp_path,
            )
            output, errors = await child.communicate(stdin.encode())
            assert child.returncode is not None
            # Warnings (of another client version, for example) are no part of the answer.
            answer = output + errors if child.returncode else output
            return child.returncode, answer.decode()

        yield run


async def _apply(kubectl: Kubectl, text: str, *options: str) -> list[str]:
    code, output = await kubectl("apply", "-f", "-", *options, stdin=text)
    assert code == 0, output
    return output.splitlines()


async def _install(kubectl: Kubectl) -> None:
    await _apply(kubectl, CRD)
    code, output = await kubectl("wait", "--for=condition=established", "crd/gangs.example.com")
    assert code == 0, output
    await _apply(kubectl, OBJECTS % {"size": 1})


async def _run(kubectl: Kubectl, *words: str, stdin: str = "") -> str:
    code, output = await kubectl(*words, stdin=stdin)
    assert code == 0, output
    return output


async def test_apply_creates_then_leaves_then_changes(kubectl: Kubectl) -> None:
    await _apply(kubectl, CRD)
    seen = [await _apply(kubectl, OBJECTS % {"size": size}) for size in (1, 1, 2)]

    names = ("gang.example.com/gang", "configmap/config", "pod/pod")
    for lines, word in zip(seen, ("created", "unchanged", "configured"), strict=True):
        assert lines == [f"{name} {word}" for name in names]
    output = await _run(kubectl, "get", "pod", "pod", "-o", "json")
    containers = json.loads(output)["spec"]["containers"]
    assert [item["image"] for item in containers] == ["example.com/main:2", "example.com/side:1"]


async def test_apply_of_an_unknown_kind_says_so(kubectl: Kubectl) -> None:
    code, output = await kubectl("apply", "-f", "-", stdin=OBJECTS % {"size": 1})

    assert code == 1
    assert 'no matches for kind "Gang" in version "example.com/v1"' in output


async def test_apply_with_mistakes_names_the_fields(kubectl: Kubectl) -> None:
    await _apply(kubectl, CRD)
    text = '{"apiVersion": "example.com/v1", "kind": "Gang", "metadata": {"name": "x"}, "spec": %s}'

    unknown = await kubectl("apply", "-f", "-", stdin=text % '{"sice": 1}')
    invalid = await kubectl("apply", "-f", "-", stdin=text % '{"size": -1}')

    assert unknown[0] == invalid[0] == 1
    assert 'unknown field "spec.sice"' in unknown[1]
    assert "spec.size: Invalid value: -1" in invalid[1]


async def test_get_prints_the_columns(kubectl: Kubectl) -> None:
    await _install(kubectl)

    gangs = await _run(kubectl, "get", "gg")
    pods = await _run(kubectl, "get", "pods", "-o", "wide")
    everything = await _run(kubectl, "get", "all,cm")
    missing = await kubectl("get", "pod", "none")

    assert [line.split() for line in gangs.splitlines()] == [
        ["NAME", "SIZE", "STATE"],
        ["gang", "1"],
    ]
    assert pods.splitlines()[0].split()[:7] == [
        "NAME",
        "READY",
        "STATUS",
        "RESTARTS",
        "AGE",
        "IP",
        "NODE",
    ]
    assert pods.splitlines()[1].split()[:4] == ["pod", "0/2", "Pending", "0"]
    assert all(
        name in everything for name in ("pod/pod", "gang.example.com/gang", "configmap/config")
    )
    assert missing == (1, 'Error from server (NotFound): pods "none" not found\n')


async def test_describe_shows_object_and_events(kubectl: Kubectl) -> None:
    await _install(kubectl)
    uid = await _run(kubectl, "get", "pod", "pod", "-o", "jsonpath={.metadata.uid}")
    event = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": "event", "namespace": "default"},
        "involvedObject": {"kind": "Pod", "name": "pod", "namespace": "default", "uid": uid},
        "reason": "Waited",
        "message": "For its gang.",
        "type": "Normal",
    }
    await _apply(kubectl, json.dumps(event))

    pod = await _run(kubectl, "describe", "pod", "pod")
    gang = await _run(kubectl, "describe", "gg", "gang")

    assert "example.com/side:1" in pod
    assert "For its gang." in pod
    assert "Size:  1" in gang


async def test_patch_label_and_annotate(kubectl: Kubectl) -> None:
    await _install(kubectl)

    await _run(kubectl, "label", "pod", "pod", "a=b")
    await _run(kubectl, "annotate", "gg", "gang", "c=d")
    await _run(kubectl, "patch", "cm", "config", "-p", '{"data":{"z":"9"}}')
    guarded = json.dumps(
        [
            {"op": "test", "path": "/spec/size", "value": 1},
            {"op": "replace", "path": "/spec/size", "value": 5},
        ]
    )
    await _run(kubectl, "patch", "gg", "gang", "--type=json", "-p", guarded)
    refused = await kubectl("patch", "gg", "gang", "--type=json", "-p", guarded)

    assert refused[0] == 1
    assert await _run(kubectl, "get", "pods", "-l", "a=b", "-o", "name") == "pod/pod\n"
    gang = json.loads(await _run(kubectl, "get", "gg", "gang", "-o", "json"))
    assert (gang["spec"]["size"], gang["metadata"]["annotations"]["c"]) == (5, "d")
    data = await _run(kubectl, "get", "cm", "config", "-o", "jsonpath={.data}")
    assert json.loads(data) == {"a": "1", "z": "9"}


async def test_wait_sees_a_status_that_comes(kubectl: Kubectl) -> None:
    await _install(kubectl)
    async with asyncio.TaskGroup() as group:
        waiting = group.create_task(
            kubectl(
                "wait",
                "--for=jsonpath={.status.state}=Done",
                "gg/gang",
                f"--timeout={HANG_SECONDS:g}s",
            ),
            name="kubectl wait",
        )
        patch = ("patch", "gg", "gang", "--subresource=status", "--type=merge")
        await _run(kubectl, *patch, "-p", '{"status":{"state":"Done"}}')

    assert waiting.result() == (0, "gang.example.com/gang condition met\n")


async def test_logs_of_one_container_and_followed(kubectl: Kubectl) -> None:
    await _install(kubectl)

    assert await _run(kubectl, "logs", "pod", "-c", "side") == "first of default/pod/side\n"
    followed = await _run(kubectl, "logs", "pod", "-c", "main", "-f")
    assert followed == "first of default/pod/main\nsecond\n"
    code, output = await kubectl("logs", "pod", "-c", "none")
    assert (code, "container none is not valid for pod pod" in output) == (1, True)


async def test_explain_knows_custom_fields(kubectl: Kubectl) -> None:
    await _install(kubectl)

    gang = await _run(kubectl, "explain", "gangs.spec")

    assert "What is wanted." in gang
    assert "How many." in gang


async def test_delete_waits_until_all_is_gone(kubectl: Kubectl) -> None:
    await _install(kubectl)

    await _run(kubectl, "delete", "gg", "--all")
    await _run(kubectl, "delete", "cm", "config")
    await _run(kubectl, "delete", "pod", "pod", "--force", "--grace-period=0")
    await _run(kubectl, "delete", "crd", "gangs.example.com")

    assert await _run(kubectl, "get", "pods,cm", "-o", "name") == ""
    code, output = await kubectl("get", "gg")
    assert (code, "gangs" in output or "gg" in output) == (1, True)


async def test_version_resources_and_raw_paths(kubectl: Kubectl) -> None:
    version = await _run(kubectl, "version", "-o", "json")
    resources = await _run(kubectl, "api-resources", "-o", "name")

    assert json.loads(version)["serverVersion"]["minor"] == "34"
    assert {"pods", "configmaps", "leases.coordination.k8s.io"} <= set(resources.split())
    assert await _run(kubectl, "get", "--raw", "/readyz") == "ok"


async def test_create_without_a_file_is_refused_with_the_remedy(kubectl: Kubectl) -> None:
    """Only ``create KIND`` and ``auth can-i`` send it; ``create -f`` sends JSON."""
    code, output = await kubectl("create", "namespace", "ns")

    assert (code, "with kubectl, give the object in a file (-f)" in output) == (1, True)
    await _run(kubectl, "create", "-f", "-", stdin=json.dumps(NAMESPACE))
    assert await _run(kubectl, "get", "ns", "ns", "-o", "name") == "namespace/ns\n"
    await _run(kubectl, "delete", "namespace", "ns")

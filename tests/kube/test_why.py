"""Broken gangs on a real API server: what it refuses, and what schedulers and kubelets write.

Each case breaks a gang, reads the answer that users see, and runs the commands of a remedy as they
are printed; then the gang ends well. A fake kubelet writes the statuses of the Pods.
"""

import asyncio
import json
import re
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from framework.clock import SystemClock
from framework.kube.client import KubeClient
from framework.kube.resources import EVENTS, FRAMEWORKS, NAMESPACES, PODS, Object, Resource
from tests.support.builders import FAIL_FAST, build_submission
from tests.support.fakes.kubelet import FakeKubelet, FakePod
from tests.support.servers.controlplane import Access
from tests.support.servers.frameworkserver import start_controller
from tests.support.servers.remedies import ExpectedAnswer, Shell
from tests.support.servers.rights import create_account_access
from tests.support.servers.watching import wait_until_completed
from tests.support.waiting import HANG_SECONDS

QUOTAS = Resource("", "v1", "resourcequotas", "ResourceQuota", namespaced=True)
LIMIT_RANGES = Resource("", "v1", "limitranges", "LimitRange", namespaced=True)
ADMISSION = "admissionregistration.k8s.io"
POLICY = Resource(
    ADMISSION, "v1", "validatingadmissionpolicies", "ValidatingAdmissionPolicy", namespaced=False
)
BINDING = Resource(
    ADMISSION,
    "v1",
    "validatingadmissionpolicybindings",
    "ValidatingAdmissionPolicyBinding",
    namespaced=False,
)
IMAGE, OTHER_IMAGE = "registry.team/train:1", "registry.team/train:2"
# What containerd and the kubelet say of an image that does not exist.
NO_IMAGE = (
    f'Failed to pull image "{OTHER_IMAGE}": rpc error: code = NotFound desc = failed to pull and '
    f'unpack image "{OTHER_IMAGE}": failed to resolve reference "{OTHER_IMAGE}": '
    f"{OTHER_IMAGE}: not found"
)
TAINTED = (
    "0/2 nodes are available: 2 node(s) had untolerated taint {gpu: a100}. preemption: 0/2 nodes "
    "are available: 2 Preemption is not helpful for scheduling."
)
LOW = "512Mi"
LIMITS = {"memory": LOW, "cpu": "1"}
# The grace period of a Pod that is evicted.
EVICTED_SECONDS = 8


def build_gang(
    count: int = 2,
    image: str = IMAGE,
    labels: Mapping[str, str] | None = None,
    limits: Mapping[str, str] = LIMITS,
    **spec: Any,
) -> Object:
    """A gang of one role, whose Tasks are not retried; ``spec`` is of its Pods."""
    resources = {"limits": dict(limits)}
    container = {"name": "main", "image": image, "command": ["train"], "resources": resources}
    spec = {"restartPolicy": "Never", "containers": [container], **spec}
    pod = {"metadata": {"labels": dict(labels or {})}, "spec": spec}
    task = {"retryPolicy": {"maxRetryCount": 0}, "pod": pod}
    role = {"name": "worker", "taskNumber": count, "task": task}
    return build_submission("gang", {**role, "frameworkAttemptCompletionPolicy": FAIL_FAST})


@dataclass(frozen=True)
class World:
    """A namespace in which a controller and a fake kubelet work."""

    kube: KubeClient
    namespace: str
    shell: Shell


Prepare = Callable[[World], Any]


async def do_nothing(_: World) -> None:
    """The gang itself is broken."""


async def limit_pods(world: World) -> None:
    await create_quota(world, pods="1")


async def limit_memory(world: World) -> None:
    await create_quota(world, **{"limits.memory": "768Mi"})


async def limit_cpu(world: World) -> None:
    await create_quota(world, **{"limits.cpu": "4"})


async def limit_containers(world: World) -> None:
    limits = [{"type": "Container", "max": {"memory": "256Mi"}}]
    body = {"metadata": {"name": "small"}, "spec": {"limits": limits}}
    await world.kube.create(LIMIT_RANGES, world.namespace, body)
    # The server has read it when it refuses a Pod.
    container = {"name": "main", "image": IMAGE, "resources": {"limits": {"memory": LOW}}}
    await wait_for_refusal(world, container, "maximum memory usage per Container")


async def create_quota(world: World, **hard: str) -> None:
    body = {"metadata": {"name": "team"}, "spec": {"hard": hard}}
    await world.kube.create(QUOTAS, world.namespace, body)
    # It is in force when its controller has counted.
    async with aclosing(follow(world, QUOTAS)) as quotas:
        async for quota in quotas:
            if (quota.get("status") or {}).get("used"):
                return


async def restrict_pods(world: World) -> None:
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    await world.kube.patch(NAMESPACES, None, world.namespace, {"metadata": {"labels": labels}})


async def deny_images(world: World) -> None:
    """A policy for the images of this namespace's Pods."""
    name = f"images-{world.namespace}"
    rule = {
        "apiGroups": [""],
        "apiVersions": ["v1"],
        "operations": ["CREATE"],
        "resources": ["pods"],
    }
    check = {
        "expression": f"object.spec.containers.all(c, c.image != '{OTHER_IMAGE}')",
        "message": "this image is not released",
    }
    spec = {"matchConstraints": {"resourceRules": [rule]}, "validations": [check]}
    await world.kube.create(POLICY, None, {"metadata": {"name": name}, "spec": spec})
    selector = {"matchLabels": {"kubernetes.io/metadata.name": world.namespace}}
    binding = {
        "policyName": name,
        "validationActions": ["Deny"],
        "matchResources": {"namespaceSelector": selector},
    }
    await world.kube.create(BINDING, None, {"metadata": {"name": name}, "spec": binding})
    container = {"name": "main", "image": OTHER_IMAGE}
    await wait_for_refusal(world, container, "not released")


async def wait_for_refusal(world: World, container: Object, words: str) -> None:
    """Return when a Pod with this container is refused: a moment after the rule is stored."""
    probe = {"metadata": {"name": "probe"}, "spec": {"containers": [container]}}
    manifest = world.shell.folder / "probe.json"
    manifest.write_text(json.dumps({"apiVersion": "v1", "kind": "Pod", **probe}))
    create = f"kubectl create --dry-run=server -n {world.namespace} -f probe.json"
    while words not in (await world.shell.run(create)).output:
        continue


@dataclass(frozen=True)
class Case:
    """A broken gang."""

    kind: str
    """Kind of the expected root cause."""
    words: tuple[str, ...]
    """Texts of the expected answer."""
    gang: Callable[[], Object] = build_gang
    """Builds it."""
    prepare: Prepare = do_nothing
    """What is done before it is created."""
    remedy: str = ""
    """Begin of the remedy that is carried out; "" for the first."""
    values: Mapping[str, str] = field(default_factory=dict)
    """The user's values for words in capitals."""
    edit: tuple[str, str] | None = None
    """A pattern and its replacement, for the file that the user edits after the first command."""


CASES = {
    "quota": Case(
        "Quota",
        ("cannot be created: the quota team is used up (pods: 1 of 1 used, a Pod needs 1)",),
        gang=lambda: build_gang(labels={"waits-for-all": "yes"}),
        prepare=limit_pods,
    ),
    "quota of memory": Case(
        "Quota",
        (
            "the quota team is used up (limits.memory: 512Mi of 768Mi used, a Pod needs 512Mi)",
            '{"limits.memory":"1024Mi"}',
        ),
        gang=lambda: build_gang(labels={"waits-for-all": "yes"}),
        prepare=limit_memory,
    ),
    # The API server enforces this for cpu and memory only.
    "quota that needs a limit": Case(
        "Refused",
        ("the quota team requires that its containers state limits.cpu for: main",),
        gang=lambda: build_gang(limits={"memory": LOW}),
        prepare=limit_cpu,
        remedy="add the limits or requests to its containers",
        edit=(r"^( +)memory: 512Mi$", r'\1memory: 512Mi\n\1cpu: "1"'),
    ),
    "LimitRange": Case(
        "Refused",
        (("a LimitRange of the namespace does not allow it: maximum memory usage per Container "
         "is 256Mi, but limit is 512Mi"),),
        prepare=limit_containers,
        edit=("memory: 512Mi", "memory: 256Mi"),
    ),
    "eviction": Case(
        "Node",
        ("was ended by its node: Evicted", "The node was low on resource: memory."),
        gang=lambda: build_gang(count=1, terminationGracePeriodSeconds=EVICTED_SECONDS),
    ),
    "Pod Security": Case(
        "Refused",
        ("the namespace enforces the level restricted of Pod Security",
         "allowPrivilegeEscalation != false"),
        prepare=restrict_pods,
    ),
    "admission policy": Case(
        "Refused",
        ("the admission policy images-", "this image is not released"),
        gang=lambda: build_gang(image=OTHER_IMAGE),
        prepare=deny_images,
        edit=(OTHER_IMAGE, IMAGE),
    ),
    "service account": Case(
        "Refused",
        ("the namespace has no service account trainer",),
        gang=lambda: build_gang(serviceAccountName="trainer"),
    ),
    "image": Case(
        "Image",
        (f"cannot pull the image {OTHER_IMAGE} of its container main: the registry has no such",
         "rpc error: code = NotFound"),
        gang=lambda: build_gang(image=OTHER_IMAGE),
        values={"IMAGE": IMAGE},
    ),
    "taint": Case(
        "Unschedulable",
        ("2 nodes: the taint gpu: a100, which it does not tolerate",),
        gang=lambda: build_gang(nodeSelector={"tainted": "yes"}),
        remedy="tolerate the taint",
    ),
    "memory": Case(
        "OutOfMemory",
        ("ran out of memory: its container main was killed",),
        gang=lambda: build_gang(terminationGracePeriodSeconds=7),
    ),
}  # fmt: skip


def find_shortage(pod: Object) -> str:
    """Be a scheduler whose nodes have a taint."""
    spec = pod["spec"]
    tolerated = {toleration.get("key") for toleration in spec.get("tolerations") or ()}
    return TAINTED if spec.get("nodeSelector") and "gpu" not in tolerated else ""


async def run_pod(world: World, pod: FakePod) -> None:
    """Be a kubelet whose registry has one image, and whose programs need memory."""
    container = pod.body["spec"]["containers"][0]
    if container["image"] == OTHER_IMAGE:
        await pod.wait("ImagePullBackOff", f'Back-off pulling image "{OTHER_IMAGE}"')
        await world.kube.create(EVENTS, world.namespace, build_event(pod))
        await wait_for_image(world, pod)
    await pod.initialize()
    await pod.start()
    if pod.body["spec"]["terminationGracePeriodSeconds"] == EVICTED_SECONDS:
        await evict_once(world, pod)
        return
    is_hungry = pod.body["spec"]["terminationGracePeriodSeconds"] == 7
    if "waits-for-all" in pod.labels:
        await wait_for_pods(world, 2)
    if is_hungry and container["resources"]["limits"]["memory"] == LOW:
        await pod.finish(137, reason="OOMKilled")
    else:
        await pod.finish()


async def evict_once(world: World, pod: FakePod) -> None:
    """End the first Pod as a node does that is low on memory, and the next ones well."""
    mark = world.shell.folder / "evicted"
    if mark.exists():
        await pod.finish()
        return
    mark.touch()
    message = "The node was low on resource: memory."
    status = {"phase": "Failed", "reason": "Evicted", "message": message}
    await world.kube.patch(PODS, pod.namespace, pod.name, {"status": status}, subresource="status")


async def wait_for_pods(world: World, count: int) -> None:
    """Return when there are so many Pods."""
    names = set()
    async with aclosing(follow(world, PODS)) as pods:
        async for pod in pods:
            names.add(pod["metadata"]["name"])
            if len(names) >= count:
                return


def build_event(pod: FakePod) -> Object:
    involved = {"kind": "Pod", "name": pod.name, "namespace": pod.namespace, "uid": pod.uid}
    return {
        "metadata": {"name": f"{pod.name}.pull"},
        "involvedObject": involved,
        "reason": "Failed",
        "type": "Warning",
        "message": NO_IMAGE,
        "firstTimestamp": "2026-01-01T00:00:00Z",
        "lastTimestamp": "2026-01-01T00:00:00Z",
    }


async def wait_for_image(world: World, pod: FakePod) -> None:
    """Return when the Pod has another image."""
    async with aclosing(follow(world, PODS)) as pods:
        async for body in pods:
            image = body["spec"]["containers"][0]["image"]
            if body["metadata"]["name"] == pod.name and image != OTHER_IMAGE:
                return


async def follow(world: World, resource: Resource) -> AsyncGenerator[Object]:
    """Give the objects of the namespace, and each of their changes."""
    async with asyncio.timeout(HANG_SECONDS):
        while True:
            events = world.kube.watch(
                resource, world.namespace, read_deadline_seconds=2 * HANG_SECONDS
            )
            async with aclosing(events):
                async for kind, body in events:
                    if kind in {"ADDED", "MODIFIED"}:
                        yield body


@asynccontextmanager
async def open_world(
    access: Access, kube: KubeClient, namespace: str, folder: Path
) -> AsyncIterator[World]:
    assert access.kubectl is not None
    world = World(kube, namespace, Shell(folder, access.kubeconfig, access.kubectl))

    async def script(pod: FakePod) -> None:
        await run_pod(world, pod)

    kubelet = FakeKubelet(
        kube,
        SystemClock(),
        namespace,
        choose_script=lambda _: script,
        find_shortage=find_shortage,
    )
    with start_controller(access, folder, "--namespace", namespace):
        async with kubelet:
            yield world


@pytest.mark.usefixtures("framework_crd")
@pytest.mark.parametrize("name", CASES)
async def test_why_names_the_cause_and_its_remedy_works(
    audited_plane: Access, kube: KubeClient, namespace: str, tmp_path: Path, name: str
) -> None:
    case = CASES[name]
    options = ("-n", namespace)
    async with open_world(audited_plane, kube, namespace, tmp_path) as world:
        try:
            await case.prepare(world)
            await kube.create(FRAMEWORKS, namespace, case.gang())
            expected = ExpectedAnswer(case.kind, case.words, case.remedy)
            _, (first, *rest) = await world.shell.read_remedy("gang", expected, *options)
            await world.shell.carry_out([first], case.values)
            if case.edit is not None:
                file = tmp_path / "gang.yaml"
                text, count = re.subn(*case.edit, file.read_text(), flags=re.MULTILINE)
                assert count
                file.write_text(text)
            await world.shell.carry_out(rest, case.values)
            await wait_until_succeeded(world)
            await world.shell.ask_until("gang", None, *options)
        finally:
            await remove_policy(world)


async def wait_until_succeeded(world: World) -> None:
    body = await wait_until_completed(world.kube, world.namespace)
    assert body["status"]["attemptStatus"]["completionStatus"]["code"] == 0


async def remove_policy(world: World) -> None:
    name = f"images-{world.namespace}"
    for kind in ("validatingadmissionpolicybinding", "validatingadmissionpolicy"):
        await world.shell.run(f"kubectl delete {kind} {name} --ignore-not-found")


@pytest.mark.usefixtures("framework_crd")
async def test_tenant_who_may_read_frameworks_only_gets_an_answer_that_says_so(
    audited_plane: Access, kube: KubeClient, namespace: str, tmp_path: Path
) -> None:
    async with open_world(audited_plane, kube, namespace, tmp_path) as world:
        shell = world.shell
        for words in (
            f"kubectl create serviceaccount tenant -n {namespace}",
            f"kubectl create role reader -n {namespace} --verb=get --resource=frameworks",
            (
                f"kubectl create rolebinding reader -n {namespace} --role=reader "
                f"--serviceaccount={namespace}:tenant"
            ),
        ):
            assert (await shell.run(words)).code == 0
        tenant = create_account_access(audited_plane, tmp_path, namespace, "tenant")
        await kube.create(FRAMEWORKS, namespace, build_gang(serviceAccountName="trainer"))
        await shell.ask_until("gang", "Refused", "-n", namespace)

        limited = replace_kubeconfig(shell, tenant.kubeconfig, tmp_path / "tenant")
        answer = await limited.read_answer("gang", "-n", namespace)

    assert "the namespace has no service account trainer" in answer
    assert "not seen, for lack of a right or of an answer: Events, Pods, " in answer


def replace_kubeconfig(shell: Shell, kubeconfig: str, folder: Path) -> Shell:
    folder.mkdir()
    kubectl = (shell.folder / "programs" / "kubectl").readlink()
    return Shell(folder, kubeconfig, str(kubectl))

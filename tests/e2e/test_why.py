"""Broken gangs on a local cluster: ``framework why`` names the cause, and its remedy works.

Each case breaks a gang, reads the answer that users see, runs the commands of a remedy as they are
printed, and then the gang runs or ends well, or nothing is wrong with it.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from framework.kube.resources import PODS, Object
from tests.support.servers.binaries import find_kubectl
from tests.support.servers.gang import NAMESPACE, SCARCE, GangCluster, build_gang, build_role
from tests.support.servers.remedies import ExpectedAnswer, Shell
from tests.support.servers.watching import wait_until_completed
from tests.support.slow import keep_first

KUBECTL = find_kubectl()

pytestmark = pytest.mark.skipif(KUBECTL is None, reason="no kubectl: let make test-kube build it")

World = GangCluster
Break = Callable[[World], Awaitable[None]]
END_AT_ONCE = "echo started; exit 0"
FAIL = "echo one; echo two; echo KeyError: lr >&2; exit 3"


@dataclass(frozen=True)
class Case:
    """A broken gang."""

    gang: Callable[[], Object]
    """Builds it."""
    kind: str
    """Kind of the expected root cause."""
    words: tuple[str, ...]
    """Texts of the expected answer."""
    remedy: str = ""
    """Begin of the remedy that is carried out; "" for the first."""
    values: Mapping[str, str] = field(default_factory=dict)
    """The user's values for words in capitals."""
    break_it: Break | None = None
    """What is done to it, beside being created."""
    released: int = 0
    """How many workers the test lets end after the remedy; the others end by themselves."""
    edit: tuple[str, str] | None = None
    """A text of the file that the user replaces between two commands."""


def build_simple(script: str = END_AT_ONCE, count: int = 1, **fields: object) -> Object:
    """A gang of one role without a barrier; ``fields`` are of its Pod spec."""
    role = build_role("worker", count, script, has_barrier=False)
    role["task"]["pod"]["spec"].update(fields)
    return build_gang(role)


def build_retained(script: str) -> Object:
    """A gang whose Pod, and so its log, is kept."""
    gang = build_simple(script)
    gang["spec"]["completedPodPolicy"] = "Retain"
    return gang


def build_gated() -> Object:
    """A gang whose Task runs until the test ends it."""
    return build_gang(build_role("worker", 1, has_barrier=False))


def build_with_container(**fields: object) -> Object:
    gang = build_simple()
    find_container(gang).update(fields)
    return gang


def find_container(gang: Object) -> Object:
    container: Object = gang["spec"]["taskRoles"][0]["task"]["pod"]["spec"]["containers"][0]
    return container


def build_with_spec(**fields: object) -> Object:
    gang = build_simple()
    gang["spec"].update(fields)
    return gang


def build_with_role(**fields: object) -> Object:
    gang = build_gang(build_role("worker", 2, has_barrier=False))
    gang["spec"]["taskRoles"][0].update(fields)
    return gang


def build_with_volume(source: Object) -> Object:
    gang = build_simple()
    spec = gang["spec"]["taskRoles"][0]["task"]["pod"]["spec"]
    spec["volumes"].append({"name": "data", **source})
    spec["containers"][0]["volumeMounts"].append({"name": "data", "mountPath": "/data"})
    return gang


def build_env(kind: str, name: str, key: str) -> Object:
    reference = {"name": name, "key": key}
    return build_with_container(env=[{"name": "LR", "valueFrom": {kind: reference}}])


def build_waiting_gang() -> Object:
    """One Task of the gang has no GPU; the others wait for it in their barriers."""
    workers = build_role("worker", 2, END_AT_ONCE)
    return build_gang(workers, build_role("evaluator", 1, END_AT_ONCE, is_scarce=True))


def build_requiring() -> Object:
    """A launcher that waits for a port on which nobody listens."""
    launcher = build_role("launcher", 1, END_AT_ONCE)
    barrier = launcher["task"]["pod"]["spec"]["initContainers"][0]
    barrier["env"] = [{"name": "BARRIER_REQUIRE", "value": "worker=tcp:2222"}]
    worker = build_role("worker", 1, "sleep 1000")
    worker["frameworkAttemptCompletionPolicy"] = {"minFailedTaskCount": 1}
    launcher["frameworkAttemptCompletionPolicy"] = {"minSucceededTaskCount": 1}
    return build_gang(launcher, worker)


async def take_name(world: World) -> None:
    await world.client.create(PODS, NAMESPACE, build_foreign_pod())


def build_foreign_pod() -> Object:
    container = {"name": "main", "image": "busybox", "command": ["sleep", "1000"]}
    spec = {"containers": [container], "terminationGracePeriodSeconds": 0}
    return {"metadata": {"name": "gang-worker-0"}, "spec": spec}


async def stop(world: World) -> None:
    await world.patch_spec("gang", {"op": "add", "path": "/spec/executionType", "value": "Stop"})
    await world.wait_for_state("Completed")
    # The replaced gang ends at once.
    world.end_task("worker", 0)


async def delete_pod(world: World) -> None:
    await world.wait_for_task("worker", 0, "AttemptRunning")
    await world.client.delete(PODS, NAMESPACE, "gang-worker-0", grace_seconds=0)
    await world.wait_for_state("Completed")
    world.end_task("worker", 0)


async def hold_pod(world: World) -> None:
    """Delete the Pod of a Task that a finalizer holds."""
    await world.wait_for_task("worker", 0, "AttemptRunning")
    finalizer = {"metadata": {"finalizers": ["example.com/hold"]}}
    await world.client.patch(PODS, NAMESPACE, "gang-worker-0", finalizer)
    world.end_task("worker", 0)
    await world.wait_for_task("worker", 0, "AttemptDeleting")


CASES: dict[str, Case] = {
    "missing ConfigMap": Case(
        lambda: build_env("configMapKeyRef", "settings", "KEY"),
        "Config",
        ("worker/0 cannot create its container main: there is no ConfigMap settings",),
    ),
    "missing key of a Secret": Case(
        lambda: build_env("secretKeyRef", "token", "value"),
        "Config",
        ("there is no Secret token",),
        values={"KEY": "value"},
    ),
    "missing Secret of a volume": Case(
        lambda: build_with_volume({"secret": {"secretName": "certificates"}}),
        "Volume",
        ("cannot mount its volume data: there is no Secret certificates", "MountVolume.SetUp"),
    ),
    "missing ConfigMap of a volume": Case(
        lambda: build_with_volume({"configMap": {"name": "settings"}}),
        "Volume",
        ("cannot mount its volume data: there is no ConfigMap settings",),
    ),
    "too few GPUs": Case(
        lambda: build_with_container(resources={"limits": {SCARCE: "1"}}),
        "Unschedulable",
        ("worker/0 cannot be scheduled: 1 node lacks free nvidia.com/gpu",
         "0/1 nodes are available"),
        remedy="ask for less",
    ),
    "barriers wait for a Task without GPU": Case(
        build_waiting_gang,
        "Unschedulable",
        ("evaluator/0 cannot be scheduled", "2 other Tasks wait"),
        remedy="ask for less",
    ),
    "root user with runAsNonRoot": Case(
        lambda: build_with_container(securityContext={"runAsNonRoot": True, "runAsUser": 0}),
        "Config",
        ("cannot create its container main", "non-root"),
    ),
    "scheduling gate": Case(
        lambda: build_simple(schedulingGates=[{"name": "example.com/quota"}]),
        "Unschedulable",
        ("is held by the scheduling gate example.com/quota",),
    ),
    "Pod of another owner": Case(
        build_simple,
        "NameTaken",
        ("another Pod has the name gang-worker-0", "belongs to no object"),
        break_it=take_name,
    ),
    "not started": Case(
        lambda: build_with_spec(executionType="Create"),
        "NotStarted",
        ("gang: is created and not started",),
    ),
    "stopped by a user": Case(
        build_gated,
        "Stopped",
        ("gang: was stopped by a user",),
        break_it=stop,
    ),
    "zero Tasks": Case(
        lambda: build_simple(count=0),
        "NoTasks",
        ("gang: has nothing to run: no role has a taskNumber above 0",),
    ),
    "crash": Case(
        lambda: build_retained(FAIL),
        "Crash",
        ("worker/0 exited with 3", "KeyError: lr", "framework logs gang worker/0"),
        remedy="correct the program",
        edit=("exit 3", "exit 0"),
    ),
    "command that does not exist": Case(
        lambda: build_with_container(command=["no-such-program"]),
        "Config",
        ("cannot start the command of its container main", "no-such-program"),
        edit=("no-such-program", "/bin/true"),
    ),
    "restart loop": Case(
        lambda: build_simple("echo all done", restartPolicy="Always"),
        "Restarts",
        ("restarts its container main, which exited with 0", "all done", "restartPolicy is Always"),
        remedy="let the controller see the end",
    ),
    "Pod deleted by another client": Case(
        build_gated,
        "PodLost",
        ("worker/0 lost its Pod: another client deleted it, or its node is gone",),
        break_it=delete_pod,
    ),
    "finalizer on a Pod": Case(
        build_gated,
        "PodDeletion",
        ("the finalizer example.com/hold of its Pod holds the deletion",),
        break_it=hold_pod,
    ),
    "count that cannot be reached": Case(
        lambda: build_with_role(
            frameworkAttemptCompletionPolicy={"minFailedTaskCount": 1, "minSucceededTaskCount": 5}
        ),
        "Policy",
        ("worker cannot reach its minSucceededTaskCount of 5: it has 2 Tasks",),
        released=2,
    ),
    "requirement of a barrier": Case(
        build_requiring,
        "Requirement",
        ("launcher/0 waits in its barrier for BARRIER_REQUIRE=worker=tcp:2222", "not reached yet"),
        remedy="correct BARRIER_REQUIRE",
        edit=("worker=tcp:2222", "worker=running"),
    ),
}  # fmt: skip


@pytest.fixture
def shell(world: GangCluster, tmp_path: Path) -> Shell:
    assert KUBECTL is not None
    folder = tmp_path / "user"
    folder.mkdir()
    return Shell(folder, str(world.cluster.kubeconfig_path), KUBECTL)


@pytest.mark.parametrize("name", keep_first(CASES, 0))
async def test_why_names_the_cause_and_its_remedy_works(
    world: GangCluster, shell: Shell, name: str
) -> None:
    case = CASES[name]
    if case.break_it is take_name:
        await take_name(world)
    await world.create(case.gang())
    if case.break_it not in {None, take_name}:
        assert case.break_it is not None
        await case.break_it(world)

    expected = ExpectedAnswer(case.kind, case.words, case.remedy)
    _, commands = await shell.read_remedy("gang", expected)

    await carry_out(shell, commands, case)
    await shell.ask_until("gang", None)
    for index in range(case.released):
        world.end_task("worker", index)
    await wait_until_completed(world.client, NAMESPACE)
    await shell.ask_until("gang", None)


async def carry_out(shell: Shell, commands: list[str], case: Case) -> None:
    """Run the commands; after the first, edit the file as the user does."""
    first, *rest = commands
    await shell.carry_out([first], case.values)
    if case.edit is not None:
        file = shell.folder / "gang.yaml"
        text = file.read_text()
        assert case.edit[0] in text
        file.write_text(text.replace(*case.edit))
    await shell.carry_out(rest, case.values)

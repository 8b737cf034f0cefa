"""A seeded life of a cluster with the real controller in it, in virtual time.

Called by tests/simulation. Everything runs in one event loop whose time is virtual: the whole shell
of the controller on a ``StorageClient``, and beside it users, kubelets, a garbage collector,
strangers and a network that loses, delays and refuses. Equal seed, equal life: every draw comes
from one generator. ``Simulation.trace`` tells what happened, in order.
"""

import asyncio
import base64
import random
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from controller.app import Controller, Options
from controller.config import ControllerConfig
from framework.api import codec, constants
from framework.api.pods import parse_pod
from framework.api.roster import decode_roster, fingerprint_uid
from framework.api.states import FrameworkState, TaskState
from framework.api.types import ExecutionType, Framework
from framework.kube.client import WatchEvent
from framework.kube.errors import GoneError, UnreachableError
from framework.kube.resources import CONFIGMAPS, FRAMEWORKS, PODS, Object, Resource
from localcluster.apiserver.model.errors import StatusError
from localcluster.apiserver.model.options import DeleteOptions
from localcluster.apiserver.model.registry import ResourceType
from tests.support.auditor import Auditor
from tests.support.builders import FRAMEWORK, NAMESPACE, build_role_wire, build_template_wire
from tests.support.storageclient import (
    Fate,
    LoopClock,
    Network,
    Request,
    StorageClient,
    find_type,
    open_storage,
)

EXIT_CODES = (0, 0, 0, 1, 137, 200, 201, 210)
MERGE_PATCH = "application/merge-patch+json"
TRACE_LINES = 120
MAX_PER_SECOND = 30
SETTLE_SECONDS = 600
# Longer than anything waits by itself: a backoff is at most 30 s, a retry's delay 20 s.
PATIENCE_SECONDS = 40
QUIET_SECONDS = 60
_CONFIG = ControllerConfig(
    conflict_retry_delay_min_seconds=5, conflict_retry_delay_max_seconds=20, worker_number=2
)


class FaultyNetwork(Network):
    """Draws the fate of every request; kind once ``rate`` is 0."""

    def __init__(self, draw: random.Random, trace: Callable[[str], None]) -> None:
        self.rate = 0.0
        self.held: dict[str, float] = {}
        """Resources whose watches are held back, and until when."""
        self.broken: dict[str, Exception] = {}
        """Resources whose next watch event comes as this error."""
        self.crash_after: int | None = None
        """So many more writes of the controller are sent; then it is killed."""
        self.on_crash: Callable[[], None] = lambda: None
        self.on_send: Callable[[Request], None] = lambda _: None
        self._draw = draw
        self._trace = trace

    def draw_fate(self, request: Request) -> Fate:
        self.on_send(request)
        if request.resource.plural == "events":
            return Fate()
        delay = 0.002
        if self._draw.random() < self.rate:
            delay = self._draw.choice((0.0, 0.01, 0.3, 2.0, 12.0))
        fate = Fate(delay / 2, delay / 2)
        if self._draw.random() < self.rate:
            fate = replace(fate, **self._draw_fault())
        self._count_write(request)
        return fate

    def _draw_fault(self) -> dict[str, Any]:
        kind = self._draw.choice(("lost", "answer", "error", "applied_error", "silence"))
        if kind == "lost":
            return {"is_lost": True}
        if kind == "answer":
            return {"is_answer_lost": True}
        if kind == "silence":
            return {"downlink_seconds": 100.0}
        codes = (429, 500, 503, 409) if kind == "error" else (500, 504)
        return {
            "error": _build_error(self._draw.choice(codes)),
            "is_answer_lost": kind == "applied_error",
        }

    def _count_write(self, request: Request) -> None:
        if self.crash_after is None or request.verb in {"get", "list"}:
            return
        self.crash_after -= 1
        if self.crash_after <= 0:
            self.crash_after = None
            asyncio.get_running_loop().call_soon(self.on_crash)

    def draw_watch_delay(self, resource: Resource) -> float:
        now = asyncio.get_running_loop().time()
        held = max(0.0, self.held.get(resource.plural, 0.0) - now)
        if self._draw.random() < self.rate:
            held += self._draw.choice((0.01, 0.2, 1.0, 4.0))
        return held

    def draw_repetition(self, told: Sequence[WatchEvent]) -> WatchEvent | None:
        if self._draw.random() >= self.rate / 2:
            return None
        return self._draw.choice(told)

    def check_watch(self, resource: Resource) -> None:
        error = self.broken.pop(resource.plural, None)
        if error is not None:
            raise error

    def note(self, request: Request, outcome: str) -> None:
        if request.resource.plural != "events":
            self._trace(f"  {request}: {outcome}")


class Simulation:
    """One life. ``run`` fails with the trace if anything happened that must not."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.draw = random.Random(seed)  # seeded: the only source of chance
        self.clock = LoopClock()
        self.storage = open_storage(self.clock, seed)
        self.trace: list[str] = []
        self.network = FaultyNetwork(self.draw, self.note)
        self.network.on_crash = self.crash
        self.auditor = Auditor(self.storage)
        self.auditor.open()
        self.client: StorageClient | None = None
        self.squatters: set[str] = set()
        self._controller: asyncio.Task[None] | None = None
        self._ended: list[asyncio.Task[None]] = []
        self._addresses = 0
        self._sent: dict[str, deque[float]] = {}

    def note(self, text: str) -> None:
        """Write a line of the trace."""
        now = asyncio.get_running_loop().time()
        self.trace.append(f"{now:9.3f} {text}")

    # --- the controller

    def start(self) -> None:
        """Start the controller; it knows nothing."""
        if self._controller is not None:
            return
        self.note("controller starts")
        client = self.client = StorageClient(self.storage, self.network)
        self.network.on_send = self._judge
        controller = Controller(
            client,
            _CONFIG,
            Options(NAMESPACE, "127.0.0.1", 0),
            clock=self.clock,
            random=self.draw,
        )
        self._controller = asyncio.create_task(controller._run_loops(), name="controller")

    def crash(self) -> None:
        """Kill the controller: what it sent goes its way, what it knew is lost."""
        if self._controller is None or self.client is None:
            return
        self.note("controller is killed")
        self.client.is_dead = True
        for request in self.client.pending:
            if request.resource == PODS and request.verb == "create":
                self._note_late(request)
        self._controller.cancel()
        self._ended.append(self._controller)
        self._controller = None

    def _judge(self, request: Request) -> None:
        if self.client is None or self.client.is_dead:
            return
        faults = len(self.auditor.faults)
        self._check_pace(request)
        self.auditor.check_request(request)
        for fault in self.auditor.faults[faults:]:
            self.note(f"!! {fault}")

    def _check_pace(self, request: Request) -> None:
        """I11: nothing is asked for again and again in one second."""
        now = asyncio.get_running_loop().time()
        times = self._sent.setdefault(f"{request}", deque(maxlen=MAX_PER_SECOND))
        if len(times) == MAX_PER_SECOND and now - times[0] < 1.0:
            self.auditor.fail(f"I11: {request} {MAX_PER_SECOND} times within a second")
        times.append(now)

    def _note_late(self, request: Request) -> None:
        pod = parse_pod(request.body)
        self.auditor.late.add(f"{pod.task_uid}/{pod.task_attempt_id}")

    # --- the life

    async def run(self, steps: int) -> None:
        """Live through faults, then without them to a rest."""
        try:
            await self._live(steps)
            await self._settle()
        finally:
            self.crash()
            await asyncio.gather(*self._ended, return_exceptions=True)

    async def _live(self, steps: int) -> None:
        self.start()
        self.create_framework()
        self.network.rate = self.draw.choice((0.0, 0.02, 0.1, 0.3))
        for _ in range(steps):
            step = self.draw.choices(_STEPS, _WEIGHTS)[0]
            step(self)
            await asyncio.sleep(self.draw.choice((0.0, 0.001, 0.01, 0.1, 0.5, 2.0)))
            self.check()

    async def _settle(self) -> None:
        """Faults off: what is asked for must be reached, and stay."""
        self.note("faults off")
        network = self.network
        network.rate, network.crash_after = 0.0, None
        network.held.clear()
        network.broken.clear()
        await asyncio.sleep(0.001)  # a crash may be due just now
        self.start()
        for name in sorted(self.squatters):
            self._attempt(partial(self._delete, PODS, name, DeleteOptions(grace_seconds=0)))
        for pod in self.storage.list(self._type(PODS), NAMESPACE).items:
            if pod["metadata"].get("finalizers"):
                self._set_finalizers(pod["metadata"]["name"], None)
        last, since = -1, 0
        for second in range(SETTLE_SECONDS):
            self.advance_kubelets(all_pods=True)
            self.storage.collect_garbage()
            if self.storage.resource_version != last:
                last, since = self.storage.resource_version, second
            if second - since > PATIENCE_SECONDS:
                break
            await asyncio.sleep(1.0)
            self.check()
        quiet = self.storage.resource_version
        self.note("must rest")
        await asyncio.sleep(QUIET_SECONDS)
        self.check()
        self._expect(self.storage.resource_version == quiet, "I11: writes while all rests")
        self.check_rest()

    def check(self) -> None:
        """Fail with the trace if anything happened that must not."""
        if self._controller is not None and self._controller.done():
            error = None if self._controller.cancelled() else self._controller.exception()
            self.auditor.fail(f"the controller ended: {error!r}")
        if self.auditor.faults:
            self._fail(self.auditor.faults[0])

    def _expect(self, condition: object, text: str) -> None:
        if not condition:
            self._fail(text)

    def _fail(self, text: str) -> None:
        tail = "\n".join(self.trace[-TRACE_LINES:])
        raise AssertionError(f"seed {self.seed}: {text}\n{tail}\nseed {self.seed}: {text}")

    # --- users

    def create_framework(self) -> None:
        roles = [self._draw_role("ps"), self._draw_role("worker")]
        body: Object = {
            "apiVersion": constants.API_VERSION,
            "kind": constants.FRAMEWORK_KIND,
            "metadata": {"name": FRAMEWORK},
            "spec": {
                "executionType": self.draw.choice(("Start", "Start", "Start", "Create")),
                "retryPolicy": self._draw_retry(),
                "taskRoles": roles,
            },
        }
        self._attempt(lambda: self.storage.create(self._type(FRAMEWORKS), NAMESPACE, body))

    def _draw_role(self, name: str) -> Object:
        counts = (-1, -1, 1, 2)
        policy = {
            "minFailedTaskCount": self.draw.choice(counts),
            "minSucceededTaskCount": self.draw.choice(counts),
        }
        task = {
            "retryPolicy": self._draw_retry(),
            "podGracefulDeletionTimeoutSec": self.draw.choice((None, None, 5)),
            "pod": build_template_wire(),
        }
        return build_role_wire(
            name,
            self.draw.choice((0, 1, 2, 3)),
            frameworkAttemptCompletionPolicy=policy,
            task=task,
        )

    def _draw_retry(self) -> Object:
        return {
            "fancyRetryPolicy": self.draw.random() < 0.5,
            "maxRetryCount": self.draw.choice((0, 0, 1, 3)),
        }

    def edit_framework(self) -> None:
        edit = self.draw.choice(
            (_edit_scale, _edit_scale, _edit_scale, _edit_absent, _edit_roles, _edit_policy)
        )
        self._edit(lambda spec: edit(self.draw, spec))

    def start_or_stop(self) -> None:
        kind = self.draw.choice((ExecutionType.START, ExecutionType.START, ExecutionType.STOP))

        def change(spec: Object) -> None:
            if spec["executionType"] != ExecutionType.STOP:
                spec["executionType"] = kind.value

        self._edit(change)

    def delete_framework(self) -> None:
        policy = self.draw.choice(("Foreground", "Foreground", "Background"))
        self._attempt(
            lambda: self._delete(FRAMEWORKS, FRAMEWORK, DeleteOptions(propagation=policy))
        )

    def delete_configmap(self) -> None:
        self._attempt(lambda: self._delete(CONFIGMAPS, f"{FRAMEWORK}-attempt", DeleteOptions()))

    def _edit(self, change: Callable[[Object], None]) -> None:
        def apply() -> None:
            rt = self._type(FRAMEWORKS)
            body = self.storage.get(rt, NAMESPACE, FRAMEWORK)
            change(body["spec"])
            self.storage.update(rt, NAMESPACE, FRAMEWORK, body)

        self._attempt(apply)

    # --- kubelets and the garbage collector

    def advance_kubelets(self, *, all_pods: bool = False) -> None:
        """One Pod goes a step on; or every Pod as far as Running, and every leaver away."""
        pods = self.storage.list(self._type(PODS), NAMESPACE).items
        if not all_pods:
            pods = [self.draw.choice(pods)] if pods else []
        for pod in pods:
            self._attempt(partial(self._advance, pod, is_ending=not all_pods), quiet=True)

    def _advance(self, pod: Object, *, is_ending: bool) -> None:
        meta, name = pod["metadata"], pod["metadata"]["name"]
        phase = pod["status"].get("phase", "Pending")
        if meta.get("deletionTimestamp"):
            if not meta.get("finalizers"):
                self.note(f"kubelet lets {name} go")
                options = DeleteOptions(uid=meta["uid"], grace_seconds=0)
                self.storage.delete(self._type(PODS), NAMESPACE, name, options)
        elif not pod["spec"].get("nodeName"):
            target = {"target": {"kind": "Node", "name": "node"}}
            binding = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name}, **target}
            self.storage.create_subresource(self._type(PODS), NAMESPACE, name, "binding", binding)
        elif not pod["status"].get("podIP"):
            self._addresses += 1
            ip = f"10.{self._addresses >> 8}.{self._addresses & 255}.1"
            self._patch_status(name, {"podIP": ip, "podIPs": [{"ip": ip}], "hostIP": "192.168.0.1"})
        elif phase == "Pending":
            self._patch_status(name, {"phase": "Running"})
        elif phase == "Running" and is_ending:
            self._end(name, self.draw.choice(EXIT_CODES))

    def _end(self, name: str, code: int) -> None:
        phase = "Succeeded" if code == 0 else "Failed"
        finished = self.clock.now().strftime("%Y-%m-%dT%H:%M:%SZ")
        ended = {"exitCode": code, "finishedAt": finished}
        statuses = [
            {
                "name": "main",
                "state": {"terminated": ended},
                "image": "busybox",
                "imageID": "",
                "ready": False,
                "restartCount": 0,
            }
        ]
        self._patch_status(name, {"phase": phase, "containerStatuses": statuses})

    def _patch_status(self, name: str, status: Object) -> None:
        self.note(f"kubelet: {name} {status.get('phase') or status.get('podIP')}")
        rt = self._type(PODS)
        self.storage.patch(
            rt, NAMESPACE, name, {"status": status}, MERGE_PATCH, subresource="status"
        )

    def collect_garbage(self) -> None:
        self.storage.collect_garbage_once()

    # --- strangers

    def kill_pod(self) -> None:
        """Someone deletes a Pod, with or without its grace."""
        pods = self.storage.list(self._type(PODS), NAMESPACE).items
        if pods:
            name = self.draw.choice(pods)["metadata"]["name"]
            options = DeleteOptions(grace_seconds=self.draw.choice((None, None, 0)))
            self._attempt(lambda: self._delete(PODS, name, options))

    def strip_label(self) -> None:
        """Someone removes our label: the watch says DELETED, but the Pod lives.

        Not of a terminating one: of those DELETED is believed (FRAMEWORK, "absence").
        """
        pods = self.storage.list(self._type(PODS), NAMESPACE).items
        pods = [pod for pod in pods if not pod["metadata"].get("deletionTimestamp")]
        if pods:
            name = self.draw.choice(pods)["metadata"]["name"]
            patch = {"metadata": {"labels": {constants.FRAMEWORK_NAME: None}}}
            self.note(f"stranger strips {name}")
            self._attempt(
                lambda: self.storage.patch(self._type(PODS), NAMESPACE, name, patch, MERGE_PATCH)
            )

    def hold_pod(self) -> None:
        """Someone's finalizer keeps a Pod from going."""
        pods = self.storage.list(self._type(PODS), NAMESPACE).items
        if pods:
            name = self.draw.choice(pods)["metadata"]["name"]
            self.note(f"stranger holds {name}")
            self._set_finalizers(name, ["example.com/hold"])

    def _set_finalizers(self, name: str, finalizers: list[str] | None) -> None:
        patch = {"metadata": {"finalizers": finalizers}}
        self._attempt(
            lambda: self.storage.patch(self._type(PODS), NAMESPACE, name, patch, MERGE_PATCH)
        )

    def squat(self) -> None:
        """Someone takes the name of a Task's Pod."""
        name = f"{FRAMEWORK}-worker-{self.draw.randrange(3)}"
        body: Object = {"metadata": {"name": name}, "spec": build_template_wire()["spec"]}
        if self.draw.random() < 0.5:
            body["metadata"]["labels"] = {constants.FRAMEWORK_NAME: FRAMEWORK}

        def take() -> None:
            created = self.storage.create(self._type(PODS), NAMESPACE, body)
            self.squatters.add(created["metadata"]["name"])
            self.note(f"stranger takes {name}")

        self._attempt(take, quiet=True)

    # --- faults

    def crash_now(self) -> None:
        self.crash()

    def crash_at_a_write(self) -> None:
        self.network.crash_after = self.draw.randrange(1, 6)

    def restart(self) -> None:
        self.start()

    def hold_watch(self) -> None:
        """One resource's watch is behind the others."""
        resource = self.draw.choice(("pods", "configmaps", "frameworks"))
        seconds = self.draw.choice((0.5, 3.0, 8.0))
        self.note(f"watch of {resource} is held for {seconds} s")
        self.network.held[resource] = asyncio.get_running_loop().time() + seconds

    def break_watch(self) -> None:
        """One resource's watch breaks: it resumes, or must list anew."""
        resource = self.draw.choice(("pods", "configmaps", "frameworks"))
        error: Exception = UnreachableError("reset", method="WATCH", path=resource)
        if self.draw.random() < 0.5:
            error = GoneError(
                status=410,
                reason="Expired",
                message="too old",
                body=None,
                retry_after_seconds=None,
                method="WATCH",
                path=resource,
            )
        self.network.broken[resource] = error

    def change_rate(self) -> None:
        self.network.rate = self.draw.choice((0.0, 0.0, 0.05, 0.3))

    # --- the rest

    def check_rest(self) -> None:
        """What is asked for is reached: I8 and the reached spec of P8."""
        framework = self._find_framework()
        if framework is None:
            self._expect(not list(self.auditor.walk_owned_pods()), "I8: Pods without a Framework")
            self._expect(not self.auditor.configmaps, "I8: a ConfigMap without a Framework")
            return
        status = framework.status
        self._expect(status is not None, "P8: no status")
        assert status is not None
        is_held = framework.spec.execution_type is ExecutionType.CREATE or (
            framework.metadata.deletion_time is not None
        )
        if status.state is FrameworkState.COMPLETED or (
            is_held and status.state is FrameworkState.ATTEMPT_CREATION_PENDING
        ):
            self._expect(not list(self.auditor.walk_owned_pods()), "I8: Pods of a finished attempt")
            self._expect(not self.auditor.configmaps, "I8: the ConfigMap of a finished attempt")
            return
        stopped = framework.spec.execution_type is ExecutionType.STOP
        self._expect(not stopped, f"P8: stopped, but {status.state}")
        self._check_running(framework)

    def _check_running(self, framework: Framework) -> None:
        status = framework.status
        assert status is not None
        wanted = {
            (role.name, index)
            for role in framework.spec.task_roles
            for index in range(role.task_number)
            if index not in role.absent
        }
        tasks = {
            (role.name, task.index): task
            for role, task in status.attempt_status.walk_tasks()
            if not task.deletion_pending
        }
        self._expect(set(tasks) == wanted, f"P8: wanted {wanted}, but have {set(tasks)}")
        alive = {key for key, task in tasks.items() if task.state is not TaskState.COMPLETED}
        for key in sorted(alive):
            state = tasks[key].state
            self._expect(state is TaskState.ATTEMPT_RUNNING, f"P8: {key} rests in {state}")
        claimed = {tasks[key].attempt_status.pod_uid for key in alive}
        actual = {pod.uid for pod in self.auditor.walk_owned_pods()}
        self._expect(actual == claimed, f"P8: Pods {actual}, but claimed {claimed}")
        expected = FrameworkState.ATTEMPT_RUNNING if alive else FrameworkState.ATTEMPT_PREPARING
        if status.state is not FrameworkState.ATTEMPT_RUNNING:
            self._expect(status.state is expected, f"P8: rests in {status.state}")
        self._check_roster(framework, {key: tasks[key].attempt_status for key in alive})

    def _check_roster(self, framework: Framework, members: dict[tuple[str, int], Any]) -> None:
        """The published roster names exactly the members, and is complete; if anyone reads it."""
        if not members:
            return
        name = f"{framework.metadata.name}-attempt"
        wire = self.storage.get(self._type(CONFIGMAPS), NAMESPACE, name)
        stored = (wire.get("binaryData") or {}).get(constants.ROSTER_KEY, "")
        self._expect(stored, "P8: no roster is published")
        roster = decode_roster(base64.b64decode(stored))
        self._expect(roster.complete, "P8: the roster is not complete")
        told = {
            (role.name, member.index): (member.addresses[0], member.fingerprint)
            for role in roster.roles
            for member in role.members
        }
        known = {
            key: (attempt.pod_ip, fingerprint_uid(attempt.pod_uid or ""))
            for key, attempt in members.items()
        }
        self._expect(told == known, f"P8: the roster tells {told}, known are {known}")

    # --- the server

    def _find_framework(self) -> Framework | None:
        try:
            wire = self.storage.get(self._type(FRAMEWORKS), NAMESPACE, FRAMEWORK)
        except StatusError:
            return None
        return codec.decode_framework(wire)

    def _delete(self, resource: Resource, name: str, options: DeleteOptions) -> None:
        self.note(f"someone deletes {resource.plural} {name} {options}")
        self.storage.delete(self._type(resource), NAMESPACE, name, options)

    def _attempt(self, call: Callable[[], object], *, quiet: bool = False) -> None:
        """Let someone do what the server may refuse."""
        try:
            call()
        except StatusError as e:
            if not quiet:
                self.note(f"refused: {e}")

    def _type(self, resource: Resource) -> ResourceType:
        return find_type(self.storage, resource)


def _build_error(code: int) -> StatusError:
    reasons = {429: "TooManyRequests", 503: "ServiceUnavailable", 504: "Timeout", 409: "Conflict"}
    error = StatusError(code, reasons.get(code, "InternalError"), "injected")
    error.retry_after = 1 if code == 429 else None
    return error


def _edit_scale(draw: random.Random, spec: Object) -> None:
    if spec["taskRoles"]:
        draw.choice(spec["taskRoles"])["taskNumber"] = draw.randrange(4)


def _edit_absent(draw: random.Random, spec: Object) -> None:
    if spec["taskRoles"]:
        role = draw.choice(spec["taskRoles"])
        role[constants.ABSENT_TASK_INDICES_FIELD] = draw.sample(range(3), draw.randrange(3))


def _edit_roles(draw: random.Random, spec: Object) -> None:
    roles = spec["taskRoles"]
    if len(roles) > 1 and draw.random() < 0.6:
        roles.pop(draw.randrange(len(roles)))
    elif "chief" not in [role["name"] for role in roles]:
        roles.insert(draw.randrange(len(roles) + 1), build_role_wire("chief", 1))


def _edit_policy(draw: random.Random, spec: Object) -> None:
    for role in spec["taskRoles"]:
        counts = (-1, 1, 2)
        role["frameworkAttemptCompletionPolicy"] = {
            "minFailedTaskCount": draw.choice(counts),
            "minSucceededTaskCount": draw.choice(counts),
        }


_Step = Callable[[Simulation], None]
_TABLE: tuple[tuple[_Step, int], ...] = (
    (Simulation.advance_kubelets, 40),
    (Simulation.collect_garbage, 12),
    (Simulation.edit_framework, 4),
    (Simulation.start_or_stop, 1),
    (Simulation.create_framework, 2),
    (Simulation.delete_framework, 1),
    (Simulation.delete_configmap, 1),
    (Simulation.kill_pod, 3),
    (Simulation.strip_label, 1),
    (Simulation.squat, 1),
    (Simulation.hold_pod, 1),
    (Simulation.crash_now, 1),
    (Simulation.crash_at_a_write, 3),
    (Simulation.restart, 8),
    (Simulation.hold_watch, 3),
    (Simulation.break_watch, 3),
    (Simulation.change_rate, 1),
)
_STEPS = tuple(step for step, _ in _TABLE)
_WEIGHTS = tuple(weight for _, weight in _TABLE)

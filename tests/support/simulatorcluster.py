"""The cluster of a simulation: users, kubelets, a garbage collector and strangers at one storage.

Called by the simulator, which adds the controller. What they do is drawn; what the server refuses
them is part of a life.
"""

import asyncio
import random
from collections.abc import Callable
from functools import partial

from framework.api import constants
from framework.api.types import ExecutionType
from framework.kube.resources import CONFIGMAPS, FRAMEWORKS, PODS, Object, Resource
from localcluster.apiserver.model.errors import StatusError
from localcluster.apiserver.model.options import DeleteOptions
from localcluster.apiserver.model.registry import ResourceType
from tests.support.builders import FRAMEWORK, NAMESPACE, build_role_wire, build_template_wire
from tests.support.storageclient import LoopClock, find_type, open_storage

EXIT_CODES = (0, 0, 0, 1, 137, 200, 201, 210)
MERGE_PATCH = "application/merge-patch+json"


class Cluster:
    """The storage, and everybody at work on it but the controller."""

    def __init__(self, seed: int) -> None:
        self.draw = random.Random(seed)  # seeded: the only source of chance
        self.clock = LoopClock()
        self.storage = open_storage(self.clock, seed)
        self.trace: list[str] = []
        self.squatters: set[str] = set()
        self._addresses = 0

    def note(self, text: str) -> None:
        """Write a line of the trace."""
        now = asyncio.get_running_loop().time()
        self.trace.append(f"{now:9.3f} {text}")

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

    # --- the server

    def _find(self, resource: Resource, name: str) -> Object | None:
        try:
            return self.storage.get(self._type(resource), NAMESPACE, name)
        except StatusError:
            return None

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

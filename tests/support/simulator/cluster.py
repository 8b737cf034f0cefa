"""Users, kubelets, the garbage collector and other clients, all on one storage.

Each method is a step that the simulation may draw. The server may refuse it, as the trace shows.
"""

import asyncio
import random
from collections.abc import Callable
from functools import partial

from framework.api import constants
from framework.api.epochreports import (
    EpochStart,
    ProcessEnd,
    encode_end,
    encode_start,
    parse_end,
)
from framework.api.naming import build_configmap_name
from framework.api.roster import Roster, decode_stored_roster, fingerprint_uid
from framework.api.types import ExecutionType
from framework.kube.resources import CONFIGMAPS, FRAMEWORKS, NODES, PODS, Object, Resource
from localcluster.apiserver.model.errors import StatusError
from localcluster.apiserver.model.options import DeleteOptions
from localcluster.apiserver.model.registry import ResourceType
from tests.support.builders import FRAMEWORK, NAMESPACE, build_template_wire
from tests.support.fakes.storageclient import LoopClock, find_type, open_storage
from tests.support.simulator.specs import draw_framework_spec, edit_spec

EXIT_CODES = (0, 0, 0, 1, 137, 200, 201, 210)
CLOCK_STEPS_SECONDS = (-3600.0, -20.0, 20.0, 3600.0)
ATTEMPT = build_configmap_name(FRAMEWORK)
MERGE_PATCH = "application/merge-patch+json"
NODE_NAMES = ("node", "other")


class Cluster:
    """The storage and all of its clients except the controllers."""

    def __init__(self, seed: int) -> None:
        self.draw = random.Random(seed)  # seeded: the only source of random numbers
        self.clock = LoopClock()
        self.storage = open_storage(self.clock, seed)
        self.trace: list[str] = []
        self.clocks = [self.clock]
        """All wall clocks, of the server and of the controllers."""
        self.is_clock_set = self.draw.random() < 0.15
        """Whether clocks are set in this run, so that times are no evidence."""
        self._latest_skew = 0.0
        self.foreign_pods: set[str] = set()
        self.orphaned: set[str] = set()
        """UIDs of ConfigMaps that are deleted without their Pods."""
        self.requested: set[str] = set()
        """UIDs of Pods whose Tasks a user requested to retry."""
        self.cordoned: set[str] = set()
        """Nodes that are cordoned now."""
        self.ever_cordoned: set[str] = set()
        """Nodes that were ever cordoned."""
        self._addresses = 0

    def note(self, text: str) -> None:
        now = asyncio.get_running_loop().time()
        self.trace.append(f"{now:9.3f} {text}")

    # --- users

    def create_framework(self) -> None:
        body: Object = {
            "apiVersion": constants.API_VERSION,
            "kind": constants.FRAMEWORK_KIND,
            "metadata": {"name": FRAMEWORK},
            "spec": draw_framework_spec(self.draw),
        }
        self._attempt(lambda: self.storage.create(self._type(FRAMEWORKS), NAMESPACE, body))

    def edit_framework(self) -> None:
        self._edit(lambda spec: edit_spec(self.draw, spec))

    def start_or_stop(self) -> None:
        kind = self.draw.choice((ExecutionType.START, ExecutionType.START, ExecutionType.STOP))

        def change(spec: Object) -> None:
            if spec["executionType"] != ExecutionType.STOP:
                spec["executionType"] = kind.value

        self._edit(change)

    def suspend_or_resume(self) -> None:
        is_suspended = self.draw.random() < 0.4
        self.note("a user suspends" if is_suspended else "a user resumes")
        self._edit(lambda spec: spec.update({constants.SUSPEND_FIELD: is_suspended}))

    def request_retry(self) -> None:
        """Request the retry of a Pod of the gang; keep earlier requests, or not."""
        pods = self._list_pods()
        if not pods:
            return
        uid = str(self.draw.choice(pods)["metadata"]["uid"])
        kept = sorted(self.requested)[-1:] if self.draw.random() < 0.5 else []
        value = ",".join([*kept, uid])

        def apply() -> None:
            rt = self._type(FRAMEWORKS)
            body = self.storage.get(rt, NAMESPACE, FRAMEWORK)
            body["metadata"].setdefault("annotations", {})[constants.RETRY_ANNOTATION] = value
            self.requested.add(uid)
            self.storage.update(rt, NAMESPACE, FRAMEWORK, body)

        self.note(f"a user retries the Task of Pod {uid}")
        self._attempt(apply)

    def delete_framework(self) -> None:
        policy = self.draw.choice(("Foreground", "Foreground", "Background", "Orphan"))
        self._attempt(
            lambda: self._delete(FRAMEWORKS, FRAMEWORK, DeleteOptions(propagation=policy))
        )

    def delete_configmap(self) -> None:
        policy = self.draw.choice((None, None, "Foreground", "Background", "Orphan"))
        found = self._find(CONFIGMAPS, ATTEMPT)
        if found is not None:
            if policy in ("Background", "Orphan"):
                self.orphaned.add(found["metadata"]["uid"])
            options = DeleteOptions(propagation=policy)
            self._attempt(lambda: self._delete(CONFIGMAPS, ATTEMPT, options))

    def set_clock(self) -> None:
        if self.is_clock_set:
            clock, step = self.draw.choice(self.clocks), self.draw.choice(CLOCK_STEPS_SECONDS)
            self.note(f"clock {self.clocks.index(clock)} is set by {step} s")
            clock.skew_seconds += step
            self._latest_skew = max(self._latest_skew, clock.skew_seconds)

    def mend_clocks(self) -> None:
        """Set all clocks to the latest of them, so that no stored time is in the future."""
        for clock in self.clocks:
            clock.skew_seconds = self._latest_skew

    def _edit(self, change: Callable[[Object], None]) -> None:
        def apply() -> None:
            rt = self._type(FRAMEWORKS)
            body = self.storage.get(rt, NAMESPACE, FRAMEWORK)
            change(body["spec"])
            self.storage.update(rt, NAMESPACE, FRAMEWORK, body)

        self._attempt(apply)

    # --- kubelets and the garbage collector

    def advance_kubelets(self, *, all_pods: bool = False) -> None:
        """Advance one Pod by a step; or all Pods as far as Running, and delete terminating ones."""
        pods = self._list_pods()
        if not all_pods:
            pods = [self.draw.choice(pods)] if pods else []
        for pod in pods:
            self._attempt(partial(self._advance, pod, is_ending=not all_pods), quiet=True)

    def _advance(self, pod: Object, *, is_ending: bool) -> None:
        meta, name = pod["metadata"], pod["metadata"]["name"]
        phase = pod["status"].get("phase", "Pending")
        if meta.get("deletionTimestamp"):
            if not meta.get("finalizers"):
                self.note(f"kubelet deletes {name}")
                options = DeleteOptions(uid=meta["uid"], grace_seconds=0)
                self.storage.delete(self._type(PODS), NAMESPACE, name, options)
        elif not pod["spec"].get("nodeName"):
            target = {"target": {"kind": "Node", "name": self._choose_node()}}
            binding = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name}, **target}
            self.storage.bind(self._type(PODS), NAMESPACE, name, binding)
        elif not pod["status"].get("podIP"):
            self._addresses += 1
            ip = f"10.{self._addresses >> 8}.{self._addresses & 255}.1"
            self._patch_status(name, {"podIP": ip, "podIPs": [{"ip": ip}], "hostIP": "192.168.0.1"})
        elif phase in {"Pending", "Unknown"}:
            self._patch_status(name, {"phase": "Running"})
        elif phase == "Running" and is_ending:
            self._end_somehow(name)

    def _end_somehow(self, name: str) -> None:
        kind = self.draw.choice(("exit",) * 8 + ("evicted", "lost"))
        if kind == "exit":
            self._end(name, self.draw.choice(EXIT_CODES))
        elif kind == "evicted":
            self._patch_status(name, {"phase": "Failed", "reason": "Evicted"})
        else:
            self._patch_status(name, {"phase": "Unknown"})

    def let_one_acknowledge(self) -> None:
        """Let the agent of one Pod acknowledge the newest generation."""
        pods = self._list_pods()
        if pods:
            self.acknowledge(self.draw.choice(pods))

    def acknowledge(self, pod: Object) -> None:
        meta = pod["metadata"]
        found = self._find(CONFIGMAPS, ATTEMPT)
        newest = ((found or {}).get("metadata", {}).get("annotations") or {}).get(
            constants.GENERATION_ANNOTATION
        )
        key = constants.ACKNOWLEDGED_GENERATION_ANNOTATION
        before = (meta.get("annotations") or {}).get(key)
        if newest is None or (before is not None and int(newest) < int(before)):
            return
        self.note(f"agent of {meta['name']} has generation {newest}")
        patch = {"metadata": {"annotations": {key: newest}}}
        self._attempt(
            lambda: self.storage.patch(
                self._type(PODS), NAMESPACE, meta["name"], patch, MERGE_PATCH
            )
        )

    # --- agents that restart processes in place

    def fail_process(self) -> None:
        """Let an agent report a failed process, of this or of another epoch."""
        roster, pods = self._find_restartable()
        if roster is None or roster.recovery is None or not pods:
            return
        pod = self.draw.choice(pods)
        epoch = max(0, roster.recovery.epoch - self.draw.choice((0, 0, 0, 1)))
        before = parse_end(_read_annotation(pod, constants.PROCESS_ENDED_ANNOTATION))
        if before is None or before.epoch < epoch:
            end = encode_end(ProcessEnd(epoch, self.draw.choice((1, 137, 210))))
            self._report(pod, constants.PROCESS_ENDED_ANNOTATION, end)

    def advance_agents(self) -> None:
        """End the agents that are refused; the first member reports the start of the epoch."""
        roster, pods = self._find_restartable()
        if roster is None or roster.recovery is None:
            return
        for pod in pods:
            end = parse_end(_read_annotation(pod, constants.PROCESS_ENDED_ANNOTATION))
            is_refused = fingerprint_uid(pod["metadata"]["uid"]) in roster.recovery.refused
            if end is not None and is_refused:
                self._attempt(partial(self._end, pod["metadata"]["name"], end.code), quiet=True)
        target = roster.recovery.since, roster.recovery.epoch
        self._report_start(roster, pods, EpochStart(*target))

    def report_missing(self) -> None:
        """Let the first member report that another member has not come."""
        roster, pods = self._find_restartable()
        if roster is None or roster.recovery is None or not pods:
            return
        missing = fingerprint_uid(self.draw.choice(pods)["metadata"]["uid"])
        target = roster.recovery.since, roster.recovery.epoch
        self._report_start(roster, pods, EpochStart(*target, (missing,)))

    def report_training(self) -> None:
        """Report training progress from a Pod, like its agent or another holder of its token."""
        pods = [pod for pod in self._list_pods() if pod["status"].get("phase") == "Running"]
        if pods:
            generation = self.draw.choice((1, 1, 2, 3, 999_999_999))
            step = self.draw.randrange(10**6)
            text = self.draw.choice((f"{generation} {step} 1000000 2.5 worker/0 0", "1 x"))
            self._report(self.draw.choice(pods), constants.TRAINING_PROGRESS_ANNOTATION, text)

    def _report_start(self, roster: Roster, pods: list[Object], start: EpochStart) -> None:
        roles = roster.recovery.roles if roster.recovery else ()
        first = next((m for r in roster.roles if r.name in roles for m in r.members), None)
        text = encode_start(start)
        for pod in pods:
            is_first = first and fingerprint_uid(pod["metadata"]["uid"]) == first.fingerprint
            if is_first and _read_annotation(pod, constants.EPOCH_STARTED_ANNOTATION) != text:
                self._report(pod, constants.EPOCH_STARTED_ANNOTATION, text)

    def _find_restartable(self) -> tuple[Roster | None, list[Object]]:
        """Find the published roster, and the running members that are restarted in place."""
        stored = ((self._find(CONFIGMAPS, ATTEMPT) or {}).get("binaryData") or {}).get(
            constants.ROSTER_KEY
        )
        roster = decode_stored_roster(stored) if stored else None
        if roster is None or roster.recovery is None:
            return None, []
        names = roster.recovery.roles
        members = {m.fingerprint for r in roster.roles if r.name in names for m in r.members}
        pods = [
            pod
            for pod in self._list_pods()
            if fingerprint_uid(pod["metadata"]["uid"]) in members
            and pod["status"].get("phase") == "Running"
            and not pod["metadata"].get("deletionTimestamp")
        ]
        return roster, pods

    def _report(self, pod: Object, key: str, value: str) -> None:
        name = pod["metadata"]["name"]
        self.note(f"agent of {name} reports {value!r}")
        patch = {"metadata": {"annotations": {key: value}}}
        self._attempt(
            lambda: self.storage.patch(self._type(PODS), NAMESPACE, name, patch, MERGE_PATCH)
        )

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

    # --- other clients

    def kill_pod(self) -> None:
        pods = self._list_pods()
        if pods:
            name = self.draw.choice(pods)["metadata"]["name"]
            options = DeleteOptions(grace_seconds=self.draw.choice((None, None, 0)))
            self._attempt(lambda: self._delete(PODS, name, options))

    def evict_pod(self) -> None:
        """Set the condition of the eviction API, and delete the Pod, or only set the condition."""
        pods = self._list_pods()
        if not pods:
            return
        name = self.draw.choice(pods)["metadata"]["name"]
        self._attempt(partial(self._disrupt, name))
        if self.draw.random() < 0.7:
            options = DeleteOptions(grace_seconds=self.draw.choice((None, None, 0)))
            self._attempt(lambda: self._delete(PODS, name, options))

    def _disrupt(self, name: str) -> None:
        self.note(f"{name} is disrupted")
        reason = "EvictionByEvictionAPI"
        condition = {"type": "DisruptionTarget", "status": "True", "reason": reason}
        body = {"status": {"conditions": [condition]}}
        rt = self._type(PODS)
        self.storage.patch(rt, NAMESPACE, name, body, MERGE_PATCH, subresource="status")

    def cordon_node(self) -> None:
        """Cordon or uncordon a node."""
        name = self.draw.choice(NODE_NAMES)
        self._set_cordon(name, is_cordoned=name not in self.cordoned)

    def _set_cordon(self, name: str, *, is_cordoned: bool) -> None:
        self.note(f"{name} is {'cordoned' if is_cordoned else 'uncordoned'}")
        (self.cordoned.add if is_cordoned else self.cordoned.discard)(name)
        self.ever_cordoned.update(self.cordoned)
        body = {"metadata": {"name": name}, "spec": {"unschedulable": is_cordoned}}
        rt = self._type(NODES)
        if self._find_node(name) is None:
            self._attempt(lambda: self.storage.create(rt, None, body))
        else:
            self._attempt(lambda: self.storage.patch(rt, None, name, body, MERGE_PATCH))

    def _choose_node(self) -> str:
        return next((name for name in NODE_NAMES if name not in self.cordoned), NODE_NAMES[0])

    def _find_node(self, name: str) -> Object | None:
        try:
            return self.storage.get(self._type(NODES), None, name)
        except StatusError:
            return None

    def remove_label(self) -> None:
        """Remove the controller's label: the watch sends DELETED, but the object exists.

        Not from a terminating object: for it, the controller believes DELETED
        (docs/design/state-machines.md, "Absence").
        """
        resource = self.draw.choice((PODS, PODS, CONFIGMAPS))
        objects = self.storage.list(self._type(resource), NAMESPACE).items
        objects = [o for o in objects if not o["metadata"].get("deletionTimestamp")]
        if objects:
            name = self.draw.choice(objects)["metadata"]["name"]
            patch = {"metadata": {"labels": {constants.FRAMEWORK_NAME: None}}}
            self.note(f"label of {name} is removed")
            self._attempt(
                lambda: self.storage.patch(
                    self._type(resource), NAMESPACE, name, patch, MERGE_PATCH
                )
            )

    def remove_owner(self) -> None:
        pods = self._list_pods()
        if pods:
            name = self.draw.choice(pods)["metadata"]["name"]
            patch = {"metadata": {"ownerReferences": None}}
            self.note(f"owner of {name} is removed")
            self._attempt(
                lambda: self.storage.patch(self._type(PODS), NAMESPACE, name, patch, MERGE_PATCH)
            )

    def add_finalizer(self) -> None:
        pods = self._list_pods()
        if pods:
            name = self.draw.choice(pods)["metadata"]["name"]
            self.note(f"finalizer is added to {name}")
            self._set_finalizers(name, ["example.com/hold"])

    def _set_finalizers(self, name: str, finalizers: list[str] | None) -> None:
        patch = {"metadata": {"finalizers": finalizers}}
        self._attempt(
            lambda: self.storage.patch(self._type(PODS), NAMESPACE, name, patch, MERGE_PATCH)
        )

    def take_pod_name(self) -> None:
        """Create a foreign Pod with the name of a Task's Pod."""
        name = f"{FRAMEWORK}-worker-{self.draw.randrange(3)}"
        body: Object = {"metadata": {"name": name}, "spec": build_template_wire()["spec"]}
        if self.draw.random() < 0.5:
            body["metadata"]["labels"] = {constants.FRAMEWORK_NAME: FRAMEWORK}

        def take() -> None:
            created = self.storage.create(self._type(PODS), NAMESPACE, body)
            self.foreign_pods.add(created["metadata"]["name"])
            self.note(f"foreign Pod takes {name}")

        self._attempt(take, quiet=True)

    # --- the server

    def _list_pods(self) -> list[Object]:
        return self.storage.list(self._type(PODS), NAMESPACE).items

    def _find(self, resource: Resource, name: str) -> Object | None:
        try:
            return self.storage.get(self._type(resource), NAMESPACE, name)
        except StatusError:
            return None

    def _delete(self, resource: Resource, name: str, options: DeleteOptions) -> None:
        self.note(f"a client deletes {resource.plural} {name} {options}")
        self.storage.delete(self._type(resource), NAMESPACE, name, options)

    def _attempt(self, call: Callable[[], object], *, quiet: bool = False) -> None:
        """Make a call that the server may refuse."""
        try:
            call()
        except StatusError as e:
            if not quiet:
                self.note(f"refused: {e}")

    def _type(self, resource: Resource) -> ResourceType:
        return find_type(self.storage, resource)


def _read_annotation(pod: Object, key: str) -> str:
    return str((pod["metadata"].get("annotations") or {}).get(key, ""))

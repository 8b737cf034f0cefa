"""Sees each write and each request of a simulation, and collects violations of invariants.

It reads the storage, never the controller: a status counts when it is stored, a request when it is
sent. The codes are those of docs/design/invariants.md.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from framework.api import codec, constants, naming
from framework.api.pods import ConfigMapView, PodView, parse_configmap, parse_pod
from framework.api.states import FRAMEWORK_COMPLETING, TASK_ENDED, FrameworkState, TaskState
from framework.api.types import (
    Framework,
    FrameworkStatus,
)
from framework.kube.resources import CONFIGMAPS, FRAMEWORKS, PODS, SECRETS, Object
from localcluster.apiserver.engine.history import WatchEvent
from localcluster.apiserver.storage import Storage
from tests.support.builders.forger import is_forged
from tests.support.fakes.storageclient import LoopClock, Request, find_type
from tests.support.simulator.auditfacts import (
    find_task,
    find_task_names,
    is_stopped,
    keeps_pods,
    leaves_running,
    list_excluded,
    list_owners,
)
from tests.support.simulator.epochs import Epochs
from tests.support.simulator.invariants import check_step
from tests.support.simulator.ledger import Ledger
from tests.support.simulator.rosters import Rosters
from tests.support.simulator.trainings import Trainings

_TASK_ENDING = (TaskState.ATTEMPT_DELETION_PENDING, TaskState.ATTEMPT_DELETION_REQUESTED)
_ENDING = (FrameworkState.ATTEMPT_DELETION_PENDING, FrameworkState.ATTEMPT_DELETION_REQUESTED)
_ENDED = (FrameworkState.ATTEMPT_COMPLETED, FrameworkState.COMPLETED)
_ALLOWED = {
    ("replace", "frameworks", "status"),
    ("delete", "frameworks", None),
    ("create", "configmaps", None),
    ("patch", "configmaps", None),
    ("delete", "configmaps", None),
    ("create", "pods", None),
    ("delete", "pods", None),
    ("create", "secrets", None),
    ("create", "events", None),
    ("patch", "events", None),
}


@dataclass(slots=True)
class _Recorded:
    """The Task attempt that recorded a Pod's UID."""

    framework_uid: str
    attempt: int
    task_uid: str
    task_attempt: int


@dataclass(slots=True)
class Auditor:
    """The observations so far."""

    storage: Storage
    """The storage of the simulated server."""
    clock: LoopClock
    """The clock of the server."""
    ledger: Ledger
    """Checks ends and retries."""
    rosters: Rosters
    """Checks rosters and drains."""
    epochs: Epochs
    """Checks restarts in place."""
    trainings: Trainings
    """Checks the training progress."""
    faults: list[str] = field(default_factory=list)
    """The violations."""
    frameworks: dict[str, Framework] = field(default_factory=dict)
    """By key: the Frameworks that exist now."""
    last: dict[str, Framework] = field(default_factory=dict)
    """By UID: the last stored form, also of deleted Frameworks."""
    pods: dict[str, PodView] = field(default_factory=dict)
    """By UID: the Pods that exist now."""
    configmaps: dict[str, ConfigMapView] = field(default_factory=dict)
    """By UID: the ConfigMaps that exist now."""
    owned: set[str] = field(default_factory=set)
    """UIDs of the Pods and ConfigMaps that the controller has created."""
    recorded: dict[str, _Recorded] = field(default_factory=dict)
    """By UID of a Pod: the Task attempt that recorded it."""
    late: set[str] = field(default_factory=set)
    """Identities of Pods whose create was applied after its controller had ended."""
    created: dict[str, int] = field(default_factory=dict)
    """By identity of a Task attempt: number of its created Pods."""
    orphaned: set[str] = field(default_factory=set)
    """UIDs of ConfigMaps that are deleted without their Pods."""
    kept: set[str] = field(default_factory=set)
    """UIDs of Pods and ConfigMaps that completedPodPolicy retains."""
    left: set[str] = field(default_factory=set)
    """UIDs of live Pods that completedPodPolicy RetainRunning leaves running."""
    forged: set[str] = field(default_factory=set)
    """UIDs of Pods and ConfigMaps that a tenant forged."""
    is_any_ended: bool = False
    """Whether a controller has ended."""
    keyed: set[str] = field(default_factory=set)
    """UIDs of ConfigMaps for which the create of a gang key was sent."""
    unsure: set[str] = field(default_factory=set)
    """UIDs of ConfigMaps that met a Secret without an owner, which may not be their own key."""
    changes: int = 0
    """Number of writes of Frameworks, Pods and ConfigMaps."""
    retain_seconds: float | None = None
    """How long a Completed Framework is kept."""

    @classmethod
    def of(cls, storage: Storage, clock: LoopClock) -> "Auditor":
        """Build an auditor of a storage, with its ledger."""
        faults: list[str] = []
        books = Ledger(faults.append), Rosters(faults.append, clock.now), Epochs(faults.append)
        return cls(storage, clock, *books, Trainings(faults.append), faults)

    def open(self) -> None:
        """Start to watch: each write is seen before the next one happens."""
        for resource, take in (
            (FRAMEWORKS, self._take_framework),
            (PODS, self._take_pod),
            (CONFIGMAPS, self._take_configmap),
        ):
            watch = self.storage.watch_from(find_type(self.storage, resource), None)

            def pop(watch: Any = watch, take: Any = take) -> None:
                for event in watch.pop():
                    self.changes += 1
                    take(event)

            watch.on_ready = pop
            pop()

    def fail(self, text: str) -> None:
        self.faults.append(text)

    # --- requests of the controller, when they are sent

    def check_request(self, request: Request) -> None:
        """Check a request against what is stored when it is sent."""
        if request.verb in {"get", "list"}:
            return
        resource = request.resource
        if (request.verb, resource.plural, request.subresource) not in _ALLOWED:
            self.fail(f"I10: {request}")
        if request.verb == "delete":
            self._check_delete(request)
        elif request.verb == "create" and resource == PODS:
            self._check_create_pod(request)
        elif request.verb == "create" and resource == SECRETS:
            self._check_create_gang_key(request)
        elif request.verb == "create" and resource == CONFIGMAPS:
            self._check_create_configmap(request)
        elif request.verb == "patch" and resource == CONFIGMAPS:
            self._check_patch_configmap(request)

    def _check_create_pod(self, request: Request) -> None:
        pod = parse_pod(request.body)
        framework = self._find_framework(pod.annotations)
        if framework is None or framework.status is None:
            self.fail(f"I2: {request} for no persisted Framework")
            return
        task = find_task(framework, pod.name)
        attempt = framework.status.attempt_status
        expected = None if task is None else f"{task.instance_uid}/{task.attempt_status.id}"
        if task is None or task.state is not TaskState.ATTEMPT_CREATION_PENDING:
            self.fail(f"I2: {request}, but its Task is {task.state if task else 'not there'}")
        elif expected != f"{pod.task_uid}/{pod.task_attempt_id}":
            self.fail(f"I2: {request} for another Task attempt than the persisted one")
        if pod.owner is None or pod.owner.uid != attempt.configmap_uid:
            self.fail(f"I2: {request} for another ConfigMap than the persisted one")
        if framework.status.state in FRAMEWORK_COMPLETING:
            self.fail(f"P4: {request} while the attempt is {framework.status.state}")
        if task is not None and list_excluded(request.body) != task.attempt_status.avoided_nodes:
            self.fail(f"I22: {request} excludes other nodes than the persisted attempt avoids")
        self._check_gang_key(request, pod)

    def _check_gang_key(self, request: Request, pod: PodView) -> None:
        """Check that the Secret that a Pod mounts exists before the Pod, for the same attempt."""
        configmap = self.configmaps.get(pod.owner.uid if pod.owner else "")
        if configmap is None or configmap.is_terminating:
            return  # the garbage collector may have taken the Secret first
        if configmap.uid in self.unsure:
            return
        for volume in request.body["spec"].get("volumes") or ():
            if "secret" in volume:
                found = self._find_secret(volume["secret"]["secretName"])
                if found is None or configmap.uid not in list_owners(found):
                    self.fail(f"I16: {request}, but its gang key is not there")

    def _check_create_gang_key(self, request: Request) -> None:
        (uid,) = list_owners(request.body)
        name = naming.parse_configmap_name(request.body["metadata"]["ownerReferences"][0]["name"])
        stored = {
            framework.status.attempt_status.configmap_uid
            for framework in self.last.values()
            if framework.metadata.name == name and framework.status is not None
        }
        if uid not in stored:
            self.fail(f"I16: {request} for another ConfigMap than the persisted one")
        self._note_key_without_owner(request.body["metadata"]["name"], uid)

    def _note_key_without_owner(self, name: str, uid: str) -> None:
        """Record that a controller may use an orphaned Secret as the key.

        It may not read Secrets. So after a lost answer, or in another process than the creator of
        the ConfigMap, it does not know its own Secret (docs/rendezvous.md, "Gang key").
        """
        found = self._find_secret(name)
        is_orphan = found is not None and not list_owners(found)
        if is_orphan and (self.is_any_ended or uid in self.keyed):
            self.unsure.add(uid)
        self.keyed.add(uid)

    def _find_secret(self, name: str) -> Object | None:
        found = self.storage.list(find_type(self.storage, SECRETS), "default").items
        return next((body for body in found if body["metadata"]["name"] == name), None)

    def list_gang_keys(self) -> list[str]:
        """List the UIDs of the ConfigMaps that own the existing Secrets."""
        found = self.storage.list(find_type(self.storage, SECRETS), "default").items
        return [uid for body in found for uid in list_owners(body)]

    def _check_create_configmap(self, request: Request) -> None:
        configmap = parse_configmap(request.body)
        framework = self._find_framework(configmap.annotations)
        status = framework.status if framework else None
        if status is None or status.state is not FrameworkState.ATTEMPT_CREATION_PENDING:
            self.fail(f"I2: {request} while the Framework is {status.state if status else None}")
        elif configmap.attempt_id != str(status.attempt_status.id):
            self.fail(f"I2: {request} for another attempt than the persisted one")

    def _check_patch_configmap(self, request: Request) -> None:
        configmap = self.configmaps.get(request.body["metadata"]["uid"])
        if configmap is not None:
            framework = self._find_framework(configmap.annotations)
            self.rosters.check_patch(request.body, framework)

    def _check_delete(self, request: Request) -> None:
        uid = request.uid
        if uid is None:
            self.fail(f"I3: {request} without a UID")
        elif request.resource == FRAMEWORKS:
            self._check_delete_framework(request, uid)
        elif uid not in self.owned:
            self.fail(f"I3: {request}, which was never ours")
        elif request.resource == PODS:
            self._check_delete_pod(request, uid)
        else:
            self._check_delete_configmap(request, uid)

    def _check_delete_framework(self, request: Request, uid: str) -> None:
        framework = self.frameworks.get(f"default/{request.name}")
        if framework is None or framework.status is None or framework.metadata.uid != uid:
            return
        status = framework.status
        if status.state is not FrameworkState.COMPLETED:
            self.fail(f"I2: {request} while it is {status.state}")
        if request.resource_version != framework.metadata.resource_version:
            # The server refuses the request, so the TTL may have changed.
            return
        ttl = framework.spec.ttl_seconds_after_finished
        seconds = self.retain_seconds or 0 if ttl is None else ttl
        due = status.transition_time + timedelta(seconds=seconds)
        if self.ledger.is_time_steady and self.clock.now() < due:
            self.fail(f"I15: {request} before {due}")

    def _check_delete_pod(self, request: Request, uid: str) -> None:
        pod = self.pods.get(uid)
        framework = self._find_framework(pod.annotations) if pod else None
        if pod is None or framework is None or framework.status is None:
            return
        if request.grace_seconds == 0:
            self._check_forced(request, framework, pod)
        for _, task in framework.status.attempt_status.walk_tasks():
            if task.attempt_status.pod_uid == uid:
                forced = request.grace_seconds == 0 and task.state is TaskState.ATTEMPT_DELETING
                done = task.state is TaskState.COMPLETED and task.deletion_pending
                # The attempt ends, and its ConfigMap stays.
                is_kept = framework.spec.retains_pods and framework.status.state in _ENDING
                # A user has stopped the Framework after its end.
                is_kept = is_kept or (uid in self.left and is_stopped(framework))
                if task.state not in _TASK_ENDING and not forced and not done and not is_kept:
                    self.fail(f"I2: {request} while its Task is {task.state}")
                return
        task_now = find_task(framework, pod.name)
        if task_now is None or framework.status.state in FRAMEWORK_COMPLETING:
            return
        is_waited_for = (
            task_now.state is TaskState.ATTEMPT_CREATION_PENDING
            and f"{task_now.instance_uid}/{task_now.attempt_status.id}"
            == f"{pod.task_uid}/{pod.task_attempt_id}"
        )
        if is_waited_for and not pod.is_terminating:
            self.fail(f"I12: {request} wastes the Pod its Task waits for")

    def _check_forced(self, request: Request, framework: Framework, pod: PodView) -> None:
        """Check that the role's force-deletion timeout has passed."""
        assert framework.status is not None
        parsed = naming.parse_pod_name(pod.name)
        role = framework.status.attempt_status.find_role(parsed[1].role if parsed else "")
        timeout = role.pod_graceful_deletion_timeout_seconds if role else None
        if timeout is None or pod.deletion_time is None:
            self.fail(f"I14: {request} by force, but timeout is {timeout}")
        elif self.ledger.is_time_steady:
            due = pod.deletion_time + timedelta(seconds=timeout - pod.deletion_grace_seconds)
            if self.clock.now() < due:
                self.fail(f"I15: {request} by force before {due}")

    def _check_delete_configmap(self, request: Request, uid: str) -> None:
        configmap = self.configmaps.get(uid)
        framework = self._find_framework(configmap.annotations) if configmap else None
        if configmap is None or framework is None or framework.status is None:
            return
        status = framework.status
        if status.attempt_status.configmap_uid == uid:
            if TaskState(status.state) not in _TASK_ENDING:
                self.fail(f"I2: {request} while its Framework is {status.state}")
        elif configmap.attempt_id == str(status.attempt_status.id):
            self.fail(f"I12: {request} wastes the ConfigMap its Framework waits for")

    # --- writes, when they are applied

    def _take_framework(self, event: WatchEvent) -> None:
        framework = codec.decode_framework(event.object)
        before = self.frameworks.get(framework.key)
        if event.type == "DELETED":
            self.frameworks.pop(framework.key, None)
            return
        self.frameworks[framework.key] = self.last[framework.metadata.uid] = framework
        if framework.status is None:
            return
        is_same = before is not None and before.metadata.uid == framework.metadata.uid
        old = before.status if before is not None and is_same else None
        if old == framework.status:
            return
        try:
            check_step(old, framework.status, is_time_steady=self.ledger.is_time_steady)
        except AssertionError as e:
            self.fail(f"I5: {framework.key}: {e}")
        self._check_recorded(framework)
        self._check_ends(framework, old, framework.status)
        self._check_end(framework, old, framework.status)
        self.ledger.check(framework, old)
        self.epochs.check(framework, old.attempt_status if old else None)
        self.trainings.check(framework.status, old)
        self.rosters.check_drains(framework, old.attempt_status if old else None, self.pods)

    def _check_end(
        self, framework: Framework, before: FrameworkStatus | None, after: FrameworkStatus
    ) -> None:
        """Check that the ConfigMap of an ended attempt is gone, or kept after the last attempt."""
        uid = after.attempt_status.configmap_uid
        was_ended = before is not None and before.state in _ENDED
        if was_ended or after.state not in _ENDED or uid not in self.configmaps:
            return
        if not framework.spec.retains_pods or after.state is not FrameworkState.COMPLETED:
            self.fail(f"P4: the attempt is {after.state}, but ConfigMap {uid} is there")
        self.kept.add(uid)

    def _check_ends(
        self, framework: Framework, before: FrameworkStatus | None, after: FrameworkStatus
    ) -> None:
        """Check that the Pod of an ended Task attempt is gone, is kept, or is left running."""
        ended = {
            task.attempt_status.pod_uid
            for _, task in (before.attempt_status.walk_tasks() if before else ())
            if task.state in TASK_ENDED
        }
        for role, task in after.attempt_status.walk_tasks():
            uid = task.attempt_status.pod_uid
            pod = self.pods.get(uid or "")
            if pod is None or task.state not in TASK_ENDED or uid in ended:
                continue
            is_left = not pod.is_ended and leaves_running(framework, after, role.name, task)
            if is_left:
                self.left.add(pod.uid)
            is_kept = is_left or (pod.is_ended and keeps_pods(framework, role.name))
            if is_kept:
                self.kept.add(pod.uid)
            if self._may_outlive(pod):
                continue
            if not is_kept:
                self.fail(f"P4: {role.name}/{task.index} is {task.state}, but Pod {uid} is there")
            elif task.state is not TaskState.COMPLETED:
                self.fail(f"P4: {role.name}/{task.index} is retried, but Pod {uid} is kept")

    def _may_outlive(self, pod: PodView) -> bool:
        """Return whether the Pod may outlive its attempt: without an owner, or created late."""
        is_late = f"{pod.task_uid}/{pod.task_attempt_id}" in self.late
        return is_late or pod.owner is None or pod.owner.uid in self.orphaned

    def _check_recorded(self, framework: Framework) -> None:
        """Check I6: each recorded Pod UID belongs to exactly one Task attempt."""
        assert framework.status is not None
        attempt = framework.status.attempt_status
        if attempt.configmap_uid in self.forged:
            self.fail(f"I18: {framework.key} takes a forged ConfigMap for its own")
        for _, task in attempt.walk_tasks():
            uid = task.attempt_status.pod_uid
            if uid is None:
                continue
            if uid in self.forged:
                self.fail(f"I18: {framework.key} takes the forged Pod {uid} for its own")
            recorded = _Recorded(
                framework.metadata.uid, attempt.id, task.instance_uid, task.attempt_status.id
            )
            if self.recorded.setdefault(uid, recorded) != recorded:
                self.fail(f"I6: Pod {uid} is counted twice: {self.recorded[uid]} and {recorded}")

    def _take_pod(self, event: WatchEvent) -> None:
        pod = parse_pod(event.object)
        if is_forged(event.object):
            self.forged.add(pod.uid)
            return
        self.ledger.note_pod(pod)
        self.rosters.note_pod(pod)
        self.epochs.note_pod(pod)
        self.trainings.note_pod(pod)
        if event.type == "DELETED":
            self.pods.pop(pod.uid, None)
            self.ledger.left.add(pod.uid)
            return
        is_new = pod.uid not in self.pods
        self.pods[pod.uid] = pod
        if pod.owner is None or pod.owner.kind != "ConfigMap":
            return
        self.owned.add(pod.uid)
        if is_new:
            self._check_new_pod(pod)

    def _check_new_pod(self, pod: PodView) -> None:
        identity = f"{pod.task_uid}/{pod.task_attempt_id}"
        if pod.owner is not None and pod.owner.uid not in self.configmaps:
            # Its create was in flight when its ConfigMap was removed; the collector deletes it.
            self.late.add(identity)
        self.created[identity] = self.created.get(identity, 0) + 1
        mine = pod.annotations.get(constants.FRAMEWORK_UID)
        attempt = int(pod.annotations[constants.FRAMEWORK_ATTEMPT_ID])
        for other in self.pods.values():
            if other.uid == pod.uid or other.annotations.get(constants.FRAMEWORK_UID) != mine:
                continue
            if find_task_names(other) == find_task_names(pod):
                self.fail(f"I1: Pods {other.uid} and {pod.uid} of one Task at once")
            past = int(other.annotations[constants.FRAMEWORK_ATTEMPT_ID])
            if past < attempt and not self._may_outlive(other) and identity not in self.late:
                self.fail(f"I7: Pod {pod.name} of attempt {attempt} beside one of attempt {past}")

    def _take_configmap(self, event: WatchEvent) -> None:
        configmap = parse_configmap(event.object)
        if is_forged(event.object):
            self.forged.add(configmap.uid)
            return
        if event.type == "DELETED":
            self.configmaps.pop(configmap.uid, None)
            self.ledger.left.add(configmap.uid)
            return
        if configmap.is_terminating:
            self.ledger.left.add(configmap.uid)
        self.configmaps[configmap.uid] = configmap
        self.rosters.take_configmap(configmap)
        if configmap.owner is not None and configmap.owner.kind == constants.FRAMEWORK_KIND:
            self.owned.add(configmap.uid)

    # --- at the end

    def walk_owned_pods(self) -> Iterator[PodView]:
        """Walk the existing Pods of the controller."""
        for pod in self.pods.values():
            if pod.owner is not None and pod.owner.kind == constants.CONFIGMAP_KIND:
                yield pod

    def _find_framework(self, annotations: Any) -> Framework | None:
        return self.last.get(annotations.get(constants.FRAMEWORK_UID))

"""Worlds for the core: Snapshots and Drafts for decisions, and a World that executes decisions.

The World obeys the laws on which the core relies: a decision is persisted before its execution,
every answer is seen, and an object is removed only after it was seen terminating. The simulator has
the faults.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from controller.core.actions import (
    Action,
    ActionKey,
    CreateConfigMap,
    CreateGangKey,
    CreatePod,
    DeleteObject,
    GetObject,
    ObjectKind,
    Verb,
)
from controller.core.decide import decide
from controller.core.decision import Decision, Publication
from controller.core.draft import Draft
from controller.core.objects.object_templates import build_configmap, build_pod
from controller.core.settings import Settings
from controller.core.snapshot import Failure, PublishedRoster, Snapshot
from controller.core.waits import Wait
from framework.api.nodes import NodeNotices
from framework.api.pods import (
    ConfigMapView,
    ContainerView,
    PodPhase,
    PodView,
    Terminated,
    parse_configmap,
    parse_pod,
)
from framework.api.roster import Roster
from framework.api.types import FrameworkSpec, FrameworkStatus, TaskStatus
from tests.support.builders import (
    at,
    build_framework,
    build_role_roster,
    build_roster,
    build_status,
)
from tests.support.builders import build_configmap as build_configmap_view

SETTINGS = Settings()
CREATOR_KEY = "the key of the world's controller"
# The time of a Snapshot, unless a test sets another one: 100 s after all events.
NOW = at(100)


def build_snapshot(
    spec: FrameworkSpec | None = None,
    status: FrameworkStatus | None = None,
    *,
    pods: Iterable[PodView] = (),
    metadata: Mapping[str, Any] | None = None,
    **fields: Any,
) -> Snapshot:
    """A Snapshot; its ConfigMap is the recorded one unless ``configmap`` is given."""
    framework = build_framework(spec, status, **(metadata or {}))
    recorded = status.attempt_status.configmap_uid if status else None
    defaults = {
        "now": NOW,
        "configmap": build_configmap_view() if recorded else None,
        "pods": {pod.name: pod for pod in pods},
    }
    return Snapshot(framework, **(defaults | fields))


def build_draft(
    spec: FrameworkSpec | None = None,
    status: FrameworkStatus | None = None,
    *,
    settings: Settings = SETTINGS,
    **fields: Any,
) -> Draft:
    """A Draft of such a Snapshot; by default with a status of one running Task."""
    status = status or build_status()
    return Draft(build_snapshot(spec, status, **fields), settings, status)


def build_published(roster: Roster | None = None, seconds: float = 50) -> PublishedRoster:
    """A roster that was published ``seconds`` after AT; by default, of two running Tasks."""
    roster = roster or build_roster(build_role_roster(number=2, running=True))
    return PublishedRoster(roster=roster, has_version_annotation=True, published_at=at(seconds))


def build_failure(code: int = 500, message: str = "no", seconds: float = 0, **kw: Any) -> Failure:
    """A failed action that may be tried again ``seconds`` after NOW."""
    defaults: dict[str, Any] = {"body": "", "count": 1}
    return Failure(code, message, not_before=NOW + timedelta(seconds=seconds), **(defaults | kw))


def get_status(decision: Decision) -> FrameworkStatus:
    """The status that a decision writes; fail if it writes none."""
    assert decision.status is not None, "nothing is written"
    return decision.status


def get_task(status: FrameworkStatus, index: int = 0, role: str = "worker") -> TaskStatus:
    found = status.attempt_status.find_role(role)
    assert found is not None, f"no role {role}"
    return found.tasks[index]


def answer_conditions(snapshot: Snapshot) -> Snapshot:
    """The Snapshot with the conditions, counts and generation that a decision adds to it."""
    status, decided = snapshot.framework.status, decide(snapshot, SETTINGS).status
    if status is None or decided is None:
        return snapshot
    status = replace(
        status,
        conditions=decided.conditions,
        ready_tasks=decided.ready_tasks,
        observed_generation=decided.observed_generation,
    )
    return replace(snapshot, framework=replace(snapshot.framework, status=status))


def step(snapshot: Snapshot, settings: Settings = SETTINGS) -> Decision:
    """Decide with informative fields already written, so that only state machines cause a write."""
    return decide(answer_conditions(snapshot), settings)


def get_code(status: FrameworkStatus | TaskStatus) -> int | None:
    completion = status.attempt_status.completion_status
    return None if completion is None else completion.code


def list_keys(actions: Iterable[Action]) -> list[tuple[str, str]]:
    """The actions as (verb, name)."""
    return [(action.key.verb.value, action.key.name) for action in actions]


class World:
    """One Framework, its objects and their server, in virtual time."""

    def __init__(self, spec: FrameworkSpec, settings: Settings = SETTINGS) -> None:
        self.settings = replace(settings, creator_key=CREATOR_KEY)
        self.now: datetime = at(0)
        self.jumped = timedelta()
        self.waits: dict[Wait, datetime] = {}
        self.framework = build_framework(spec)
        self.configmap: ConfigMapView | None = None
        self.pods: dict[str, PodView] = {}
        self.live: dict[tuple[ObjectKind, str], str] = {}
        self.unconfirmed: dict[tuple[ObjectKind, str], datetime] = {}
        self.failures: dict[ActionKey, Failure] = {}
        self.published = PublishedRoster()
        self.gang_key_owner = ""
        self.is_gone = False
        self.proven: set[str] = set()
        self.made: list[tuple[str, str]] = []
        self.nodes: dict[str, NodeNotices] = {}
        self.knows_nodes = True
        self.disruptions: dict[str, str] = {}
        self._version = 1
        self._uids = 0

    @property
    def status(self) -> FrameworkStatus:
        status = self.framework.status
        assert status is not None
        return status

    def observe(self) -> Snapshot:
        return Snapshot(
            framework=self.framework,
            now=self.now,
            configmap=self.configmap,
            pods=dict(self.pods),
            failures=dict(self.failures),
            live=dict(self.live),
            unconfirmed=dict(self.unconfirmed),
            published=self.published,
            gang_key_owner=self.gang_key_owner,
            proven=frozenset(self.proven),
            nodes=dict(self.nodes),
            disruptions=dict(self.disruptions),
            knows_nodes=self.knows_nodes,
            waited={
                wait: (self.now - self.jumped - begin).total_seconds()
                for wait, begin in self.waits.items()
            },
        )

    def jump(self, seconds: float) -> None:
        """Set the wall clock; the monotonic clock goes on."""
        self.now += timedelta(seconds=seconds)
        self.jumped += timedelta(seconds=seconds)

    def decide(self) -> Decision:
        decision = decide(self.observe(), self.settings)
        now = self.now - self.jumped
        self.waits = {wait: self.waits.get(wait, now) for wait in decision.waits}
        return decision

    def carry_out(self, decision: Decision) -> None:
        """Persist, publish and execute the decision."""
        if decision.status is not None:
            self.framework = replace(
                self.framework,
                metadata=replace(self.framework.metadata, resource_version=self._next_version()),
                status=decision.status,
            )
        if decision.readiness_checked_at is not None:
            self.published = replace(
                self.published, readiness_checked_at=decision.readiness_checked_at
            )
        if decision.publication is not None:
            self._publish(decision.publication)
        for action in decision.actions:
            self._do(action)

    def settle(self, rounds: int = 40) -> int:
        """Decide and execute until nothing is due; return the number of rounds."""
        decision = Decision()
        for count in range(rounds):
            decision = self.decide()
            if self.is_gone or not (decision.status or decision.actions or decision.publication):
                return count
            self.carry_out(decision)
        raise AssertionError(f"not quiet after {rounds} rounds: {decision}")

    # --- other clients --------------------------------------------------------------------------

    def edit(self, spec: FrameworkSpec) -> None:
        meta = self.framework.metadata
        meta = replace(meta, generation=meta.generation + 1, resource_version=self._next_version())
        self.framework = replace(self.framework, metadata=meta, spec=spec)

    def delete_framework(self) -> None:
        meta = replace(self.framework.metadata, deletion_time=self.now)
        self.framework = replace(self.framework, metadata=meta)

    def run_pod(self, name: str, number: int = 1, node: str = "node") -> None:
        self._change(name, phase=PodPhase.RUNNING, node_name=node, pod_ip=f"10.0.0.{number}")

    def end_pod(self, name: str, code: int = 0) -> None:
        ended = ContainerView("main", Terminated(code, finished_at=self.now))
        phase = PodPhase.SUCCEEDED if code == 0 else PodPhase.FAILED
        self._change(name, phase=phase, containers=(ended,))

    def terminate_pod(self, name: str, grace_seconds: int = 30) -> None:
        if self.pods[name].is_terminating:
            return
        ends_at = self.now + timedelta(seconds=grace_seconds)
        self._change(name, deletion_time=ends_at, deletion_grace_seconds=grace_seconds)

    def bind_pod(self, name: str, node: str) -> None:
        self._change(name, node_name=node)

    def disrupt_pod(self, name: str, reason: str = "EvictionByEvictionAPI") -> None:
        self.disruptions[self.pods[name].uid] = reason
        self._change(name, disruption=reason)

    def annotate_pod(self, name: str, key: str, value: str) -> None:
        self._change(name, annotations={**self.pods[name].annotations, key: value})

    def remove_pod(self, name: str) -> None:
        """The kubelet deletes a terminating Pod, or another client deletes it by force."""
        self.terminate_pod(name, 0)
        del self.pods[name]
        self.live[ObjectKind.POD, name] = ""

    def terminate_configmap(self) -> None:
        if self.configmap is not None and not self.configmap.is_terminating:
            self.configmap = replace(self.configmap, deletion_time=self.now)

    def collect_garbage(self) -> None:
        """Foreground deletion: first the Pods, then the ConfigMap."""
        configmap = self.configmap
        if configmap is None or not configmap.is_terminating:
            return
        owned = [p for p in self.pods.values() if p.owner and p.owner.uid == configmap.uid]
        for pod in owned:
            self.terminate_pod(pod.name)
        if not owned:
            self.configmap = None
            self.live[ObjectKind.CONFIGMAP, configmap.name] = ""

    def refuse(self, action: Action, code: int, message: str = "no") -> None:
        """Let an action fail instead of its execution."""
        self.failures[action.key] = Failure(code, message, "", 1, self.now)

    # --- the server -----------------------------------------------------------------------------

    def _publish(self, publication: Publication) -> None:
        assert self.configmap is not None
        assert publication.configmap_uid == self.configmap.uid
        self.configmap = replace(self.configmap, resource_version=self._next_version())
        known = self.published
        is_new = publication.roster is not None
        self.published = PublishedRoster(
            roster=publication.roster or known.roster,
            readiness=publication.readiness,
            has_version_annotation=True,
            published_at=self.now if is_new else known.published_at,
            readiness_checked_at=None if is_new else known.readiness_checked_at,
        )

    def _do(self, action: Action) -> None:
        self.made.append((action.key.verb.value, action.key.name))
        match action:
            case CreateConfigMap():
                if self.configmap is None:
                    self.configmap = parse_configmap(self._store(build_configmap(action.framework)))
                    self.published = PublishedRoster(has_version_annotation=True)
                    self._note(action.key, self.configmap.uid)
            case CreateGangKey():
                self.gang_key_owner = action.identity
            case CreatePod():
                if action.name not in self.pods:
                    pod = parse_pod(self._store(build_pod(action.framework, action.task)))
                    self.pods[action.name] = pod
                    self._note(action.key, pod.uid)
            case DeleteObject():
                self._delete(action)
            case GetObject():
                uid = self._find_uid(action.kind, action.name)
                self.live[action.kind, action.name] = uid

    def _delete(self, action: DeleteObject) -> None:
        if action.kind is ObjectKind.FRAMEWORK:
            self.is_gone = True
        elif self._find_uid(action.kind, action.name) != action.uid:
            return
        elif action.kind is ObjectKind.CONFIGMAP:
            self.terminate_configmap()
        elif action.grace_seconds == 0 or not self.pods[action.name].node_name:
            self.remove_pod(action.name)
        else:
            self.terminate_pod(action.name)

    def _find_uid(self, kind: ObjectKind, name: str) -> str:
        found = self.configmap if kind is ObjectKind.CONFIGMAP else self.pods.get(name)
        return found.uid if found else ""

    def _note(self, key: ActionKey, uid: str) -> None:
        assert key.verb is Verb.CREATE
        self.live[key.kind, key.name] = uid
        self.proven.add(uid)

    def _store(self, wire: dict[str, Any]) -> dict[str, Any]:
        self._uids += 1
        wire["metadata"] |= {
            "uid": f"uid-{self._uids}",
            "resourceVersion": self._next_version(),
            "creationTimestamp": self.now.strftime("%Y-%m-%dT%H:%M:%SZ"),
        }
        return wire

    def _change(self, name: str, **changes: Any) -> None:
        changes["resource_version"] = self._next_version()
        self.pods[name] = replace(self.pods[name], **changes)

    def _next_version(self) -> str:
        self._version += 1
        return str(self._version)

"""What `framework why` reads: facts of an API server, and messages in them."""

import json
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from cli.why.answers import build_structure, render_text
from cli.why.commands import Commands
from cli.why.kubeletmessages import (
    classify_image_fault,
    find_missing_object,
    find_volume,
    shorten_mount,
)
from cli.why.observation import Observation, build_tasks, parse_events, read_status
from cli.why.ranking import find_causes
from cli.why.refusals import parse_refusal
from cli.why.requests import plan_requests
from cli.why.shortages import parse_shortages
from localcluster.apiserver.bodies.wire import DecodeError, Decoder
from tests.fuzz.budget import Budget, SkipInputError, Target
from tests.fuzz.forms import read_object, to_bytes, to_text
from tests.fuzz.targets_controller import CONFIGMAP, FRAMEWORK, STATUS
from tests.support.builders import build_pod_wire

_TIME = "2026-01-01T00:00:00Z"
_NOW = datetime(2026, 1, 1, 1, tzinfo=UTC)
_KINDS = {"pods": "Pod", "events": "Event", "nodes": "Node"}
_TAINT = {"key": "gpu", "value": "a100", "effect": "NoSchedule"}
_NODE = {
    "metadata": {"name": "node"},
    "spec": {"taints": [_TAINT], "unschedulable": True},
    "status": {"conditions": [{"type": "Ready", "status": "False"}], "allocatable": {"cpu": "4"}},
}
_SHORTAGE = "0/3 nodes are available: 1 node(s) were unschedulable, 2 Insufficient nvidia.com/gpu."
_WAITING = {"reason": "ImagePullBackOff", "message": 'Back-off pulling image "r/x:1"'}
_RESTARTED = {
    "name": "main",
    "restartCount": 3,
    "state": {"waiting": {"reason": "CrashLoopBackOff"}},
    "lastState": {"terminated": {"exitCode": 1, "finishedAt": _TIME, "reason": "Error"}},
}
_BLOCKED = {
    "type": "Blocked",
    "status": "True",
    "reason": "CreationRefused",
    "message": 'Pod gang-worker-1 cannot be created: pods "gang-worker-1" is forbidden: exceeded '
    "quota: team, requested: pods=1, used: pods=4, limited: pods=4",
    "lastTransitionTime": _TIME,
}
_EVENT = {
    "type": "Warning",
    "reason": "Failed",
    "message": 'Failed to pull image "r/x:1": rpc error: code = NotFound desc = r/x:1: not found',
    "lastTimestamp": _TIME,
}


def _build_facts(pod: Mapping[str, Any], **others: Any) -> bytes:
    facts = {
        "status": STATUS,
        "pods": [pod],
        "events": [_EVENT],
        "log": ["barrier: 1/2 ready after 40 s; waiting for worker/1 (x)"],
        **others,
    }
    return to_bytes(facts)


def _condition(kind: str, message: str) -> dict[str, Any]:
    return {"type": kind, "status": "False", "message": message, "lastTransitionTime": _TIME}


_FACTS = (
    _build_facts(
        build_pod_wire(
            phase="Pending",
            spec={"nodeName": "", "schedulingGates": [{"name": "example.com/gate"}]},
            conditions=[_condition("PodScheduled", _SHORTAGE)],
        ),
        status={**STATUS, "conditions": [_BLOCKED]},
        configmap=CONFIGMAP,
    ),
    _build_facts(
        build_pod_wire(
            phase="Pending", containers=[{"name": "main", "state": {"waiting": _WAITING}}]
        ),
        nodes=[_NODE],
        lease={"spec": {"renewTime": _TIME, "leaseDurationSeconds": 15}},
    ),
    _build_facts(
        build_pod_wire(
            phase="Running",
            metadata={"deletionTimestamp": _TIME, "finalizers": ["example.com/hold"]},
            containers=[_RESTARTED],
        ),
        spec={**FRAMEWORK["spec"], "suspend": True, "executionType": "Create"},
        claims={"data": None},
        metadata={"deletionTimestamp": _TIME, "finalizers": ["example.com/hold"]},
    ),
)
_MESSAGES = (
    _BLOCKED["message"].partition("created: ")[2],
    'Pod "g-w-0" is invalid: spec.containers[0].image: Required value',
    (
        'pods "g-w-0" is forbidden: error looking up service account team/a: serviceaccount "a" '
        "not found"
    ),
    (
        'pods "g-w-0" is forbidden: violates PodSecurity "restricted:latest": runAsNonRoot != true '
        '(pod or container "main" must set securityContext.runAsNonRoot=true)'
    ),
    f"{_SHORTAGE} preemption: 0/3 nodes are available: 3 No preemption victims found.",
    '0/2 nodes are available: persistentvolumeclaim "data" not found. preemption: x.',
    _EVENT["message"],
    'MountVolume.SetUp failed for volume "data" : secret "x" not found',
    "couldn't find key lr in ConfigMap team/settings",
)


def _read_facts(data: bytes) -> dict[str, Any]:
    """Return facts whose Pods, Events and nodes are as an API server stores them."""
    facts = read_object(data)
    try:
        for key, kind in _KINDS.items():
            found = facts.get(key) or []
            facts[key] = [Decoder().decode(kind, body) for body in found]
    except (DecodeError, RecursionError, TypeError) as e:
        raise SkipInputError from e
    return facts


def _explain(facts: dict[str, Any]) -> object:
    metadata = {**_read_map(facts, "metadata"), "name": "gang"}
    spec = facts.get("spec", FRAMEWORK["spec"])
    framework = {"metadata": metadata, "spec": spec, "status": facts.get("status")}
    status, fault = read_status(framework)
    pods = {str(_read_map(pod, "metadata").get("name")): pod for pod in facts["pods"]}
    pods = {name: {**pod, "metadata": _read_map(pod, "metadata")} for name, pod in pods.items()}
    observation = Observation(
        name="gang",
        namespace="default",
        now=_NOW,
        framework=framework,
        commands=Commands("gang"),
        status=status,
        fault=fault,
        tasks=build_tasks(framework, status, pods) if status is not None else (),
        events=parse_events(facts["events"]),
        configmap=_read_map(facts, "configmap"),
        lease=_read_map(facts, "lease"),
        holder=_read_map(facts, "holder"),
        claims=_read_map(facts, "claims"),
        nodes={str(_read_map(node, "metadata").get("name")): node for node in facts["nodes"]},
    )
    requests = plan_requests(observation)
    asked = {task.key for task in requests.pods}
    log = facts.get("log")
    lines = tuple(str(line) for line in (log if isinstance(log, list) else [])[:15])
    observation = replace(
        observation,
        tasks=tuple(
            replace(task, events=observation.events if task.key in asked else ())
            for task in observation.tasks
        ),
        logs={(request.pod, request.container): lines for request in requests.logs},
    )
    causes = find_causes(observation)
    text = list(render_text(observation, causes, shows_all=True))
    return text, json.dumps(build_structure(observation, causes))


def _read_map(value: Mapping[str, Any], key: str) -> dict[str, Any]:
    found = value.get(key)
    return found if isinstance(found, dict) else {}


def _parse_message(text: str) -> object:
    return (
        parse_refusal(text),
        parse_shortages(text),
        classify_image_fault("ErrImagePull", text),
        find_missing_object(text),
        find_volume(text),
        shorten_mount(text),
    )


WHY_TARGETS = (
    Target("why", _explain, _FACTS, _read_facts, budget=Budget(base_mib=4.0), fixed_inputs=4000),
    Target(
        "why-message",
        _parse_message,
        tuple(message.encode() for message in _MESSAGES),
        to_text,
        max_bytes=65536,
    ),
)

"""What the controller decodes: Frameworks, Pods, ConfigMaps, watch events, its config, its log."""

import gzip
import logging
from typing import Any

from controller.config.config_file import load_config
from controller.core.actions import ObjectKind
from controller.core.snapshot import PublishedRoster
from controller.store.object_identity import owner_key
from controller.store.published import read_published
from framework.api.codec import decode_framework, decode_status
from framework.api.fielderrors import FieldErrors
from framework.api.gangreadiness import decode_readiness
from framework.api.pods import explain_waiting, extract_completion, parse_configmap, parse_pod
from framework.api.roster import decode_roster, encode_roster
from framework.api.rostervalues import RosterError
from framework.api.validation import validate_framework
from framework.kube.config import load_kube_config
from framework.kube.errors import build_api_error
from framework.kube.kubeconfig import ConfigError
from framework.kube.stream import BrokenStreamError, LineSplitter, decode_event
from framework.logs import JsonFormatter, TextFormatter
from tests.fuzz.budget import YAML_BUDGET, Target
from tests.fuzz.forms import (
    compress,
    compress_text,
    read_configmap,
    read_object,
    read_pod,
    to_bytes,
    to_text,
    write_file,
)
from tests.support.builders import (
    build_configmap_wire,
    build_framework_wire,
    build_pod_wire,
    build_role_roster,
    build_role_status,
    build_role_wire,
    build_roster,
    build_status_wire,
)

STATUS = build_status_wire(build_role_status("worker", 2))
FRAMEWORK = build_framework_wire(build_role_wire("ps", 1), build_role_wire("worker", 2))
ROSTER = encode_roster(build_roster(build_role_roster("worker", 3)))
PLAIN_ROSTER = gzip.decompress(ROSTER)
PODS = (build_pod_wire(), build_pod_wire(phase="Pending"), build_pod_wire(phase="Failed"))
CONFIGMAP = build_configmap_wire()
READINESS = {"ready": 1, "total": 3, "missing": [{"role": "ps", "index": 0, "reason": "Pending"}]}
KUBECONFIG = {
    "apiVersion": "v1",
    "clusters": [{"name": "c", "cluster": {"server": "https://127.0.0.1:6443"}}],
    "users": [{"name": "u", "user": {"token": "t"}}],
    "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
    "current-context": "x",
}
CONFIG = b"""
workerNumber: 10
podFailureSpec:
- code: 1
  phrase: Killed
  type: {attributes: [Transient]}
  podPatterns:
  - reasonRegex: '(?msi)^evicted$'
    containers: [{codeRange: {min: 1, max: 2}, messageRegex: 'out of .* memory'}]
"""


def _decode_compressed(blob: str) -> object:
    return decode_status({**STATUS, "attemptStatus": _pack(blob)})


def _pack(blob: str) -> dict[str, Any]:
    attempt = dict(STATUS["attemptStatus"])
    return {**attempt, "taskRoleStatuses": None, "taskRoleStatusesCompressed": blob}


def _decode_framework(wire: dict[str, Any]) -> object:
    return validate_framework(decode_framework(wire))


def _view_pod(wire: dict[str, Any]) -> object:
    pod = parse_pod(wire)
    return owner_key(ObjectKind.POD, wire), extract_completion(pod), explain_waiting(pod)


def _view_configmap(wire: dict[str, Any]) -> object:
    view = parse_configmap(wire)
    return owner_key(ObjectKind.CONFIGMAP, wire), read_published(PublishedRoster(), None, view)


def _split_stream(data: bytes) -> object:
    splitter = LineSplitter()
    return [
        decode_event(line)
        for start in range(0, len(data), 4096)
        for line in splitter.feed(data[start : start + 4096])
    ]


def _load_config(path: str) -> object:
    return load_config(path, {}, strict=False)


def _load_kubeconfig(path: str) -> object:
    return load_kube_config(kubeconfig_path=path, address=None, env={})


def _read_error(body: bytes) -> object:
    return build_api_error(409, body, method="PUT", path="/x")


def _format(text: str) -> object:
    record = logging.LogRecord("n", logging.INFO, "", 0, text, (), None)
    record.__dict__.update({"pod": {"spec": [text]}, "error": text, text[:40] or "k": text})
    return TextFormatter().format(record), JsonFormatter().format(record)


CONTROLLER_TARGETS = (
    Target("status", decode_status, (to_bytes(STATUS),), read_object, (FieldErrors,)),
    Target(
        "status-compressed",
        _decode_compressed,
        (to_bytes(STATUS["attemptStatus"]["taskRoleStatuses"]),),
        compress_text,
        (FieldErrors,),
    ),
    Target(
        "framework",
        _decode_framework,
        (to_bytes(FRAMEWORK), to_bytes({**FRAMEWORK, "status": STATUS})),
        read_object,
        (FieldErrors,),
    ),
    Target("roster", decode_roster, (PLAIN_ROSTER,), compress, (RosterError,)),
    Target("roster-bytes", decode_roster, (ROSTER,), expected=(RosterError,)),
    Target("readiness", decode_readiness, (to_bytes(READINESS),), to_text, (RosterError,)),
    Target("pod", _view_pod, tuple(to_bytes(pod) for pod in PODS), read_pod),
    Target("configmap", _view_configmap, (to_bytes(CONFIGMAP),), read_configmap),
    Target(
        "watch-stream",
        _split_stream,
        (to_bytes({"type": "ADDED", "object": CONFIGMAP}) + b"\n{}\n",),
        expected=(BrokenStreamError,),
    ),
    Target(
        "api-error",
        _read_error,
        (to_bytes({"kind": "Status", "reason": "Conflict", "message": "m", "details": {}}),),
    ),
    Target(
        "config",
        _load_config,
        (CONFIG,),
        write_file,
        (FieldErrors,),
        max_bytes=65536,
        budget=YAML_BUDGET,
        fixed_inputs=400,
    ),
    Target(
        "kubeconfig",
        _load_kubeconfig,
        (to_bytes(KUBECONFIG),),
        write_file,
        (ConfigError,),
        max_bytes=65536,
        budget=YAML_BUDGET,
        fixed_inputs=1000,
    ),
    Target(
        "log-formatter",
        _format,
        (b"bearer abcdefgh eyJhbGciOiJSUzI1NiJ9.eyJpc3MiOiJr.c2ln token=x", b"plain text"),
        to_text,
        fixed_inputs=2000,
    ),
)

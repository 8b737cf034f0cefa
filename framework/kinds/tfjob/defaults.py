"""Sets the defaults of a TfJob and finds its faults. Pure.

The defaults are those of the original, except the image of default parameter servers and of
TensorBoard: it is that of the MASTER, so that all have the same version of TensorFlow. The original
used tensorflow/tensorflow:1.3.0.
"""

import hashlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from framework.api.constants import MAX_TASKS
from framework.api.fielderrors import FieldError
from framework.api.text import cut_text
from framework.kinds.agents import RESERVED
from framework.kinds.decoding import check_range
from framework.kinds.templates import check_template
from framework.kinds.tfjob.types import (
    ANNOTATION_VALUES,
    CONTAINER,
    MASTER,
    PS,
    REPLICA_TYPES,
    TensorBoardSpec,
    TfJob,
    TfReplicaSpec,
)

DEFAULT_PORT = 2222
_MAX_PORT = 65535
_RUNTIME_ID = re.compile(r"[a-z0-9]([-a-z0-9]{0,38}[a-z0-9])?\Z")
_RUNTIME_ID_LENGTH = 5
_ALPHABET = "abcdefghijklmnopqrstuvwxyz234567"
# Of a list with more entries than types, so many are checked in detail.
_MAX_CHECKED = len(REPLICA_TYPES) + 1
_CLUSTER_IP = "ClusterIP"
_SERVICE_TYPES = (_CLUSTER_IP, "NodePort", "LoadBalancer")
_SHOWN_BYTES = 100


def set_defaults(job: TfJob) -> TfJob:
    """Set the fields that the user left out."""
    spec = job.spec
    replicas = tuple(_set_replica_defaults(replica) for replica in spec.replica_specs)
    spec = replace(
        spec,
        replica_specs=replicas,
        runtime_id=spec.runtime_id or build_runtime_id(job.meta.namespace, job.meta.name),
        tf_image=spec.tf_image or _find_master_image(replicas),
    )
    return replace(job, spec=spec)


def build_runtime_id(namespace: str, name: str) -> str:
    """Build the part of object names that the original draws at random, from the job's name."""
    digest = hashlib.sha256(f"{namespace}/{name}".encode()).digest()
    return "".join(_ALPHABET[byte % len(_ALPHABET)] for byte in digest[:_RUNTIME_ID_LENGTH])


def _set_replica_defaults(replica: TfReplicaSpec) -> TfReplicaSpec:
    kind = replica.replica_type or MASTER
    # A stored object has the template that the original wrote, with its ConfigMap.
    is_default_ps = kind == PS and (replica.template is None or replica.is_default_ps)
    return replace(
        replica,
        replica_type=kind,
        replicas=1 if replica.replicas is None else replica.replicas,
        port=DEFAULT_PORT if replica.port is None else replica.port,
        is_default_ps=is_default_ps,
        template=None if is_default_ps else replica.template,
    )


def _find_master_image(replicas: tuple[TfReplicaSpec, ...]) -> str:
    for replica in replicas:
        if replica.replica_type == MASTER and replica.template is not None:
            container = find_tensorflow(replica.template)
            return str((container or {}).get("image") or "")
    return ""


def find_tensorflow(template: Mapping[str, Any]) -> dict[str, Any] | None:
    """Find the container that runs TensorFlow."""
    spec = template.get("spec")
    containers = spec.get("containers") if isinstance(spec, Mapping) else None
    for container in containers if isinstance(containers, list) else ():
        if isinstance(container, dict) and container.get("name") == CONTAINER:
            return container
    return None


def find_faults(job: TfJob) -> Iterator[FieldError]:
    """Find all faults of a TfJob with its defaults."""
    spec = job.spec
    yield from _check_annotations(job)
    if not _RUNTIME_ID.match(spec.runtime_id):
        yield FieldError(
            "spec.runtimeId",
            f"{spec.runtime_id!r} cannot be part of the name of a Service: use 1 to 40 characters "
            "of a-z, 0-9 and '-', or leave it out",
        )
    yield from _check_types(spec.replica_specs)
    for index, replica in enumerate(spec.replica_specs[:_MAX_CHECKED]):
        yield from _check_replica(replica, f"spec.replicaSpecs[{index}]")
    yield from _check_image(job)
    if spec.tensorboard is not None:
        yield from _check_tensorboard(spec.tensorboard, "spec.tensorboard")


def find_refused_fields(job: TfJob) -> Iterator[FieldError]:
    """Find what the controller does not create, because the TfJob's creator may not have the right.

    Without the controller, ``framework run`` and ``convert`` create it with the rights of the user.
    """
    board = job.spec.tensorboard
    if board is None:
        return
    if board.service_type not in {"", _CLUSTER_IP}:
        # A Service of another type opens ports of the nodes, or an address outside of the cluster.
        yield FieldError(
            "spec.tensorboard.serviceType",
            f"{board.service_type}: the controller creates Services of type {_CLUSTER_IP} only; "
            "leave it out, and create a Service of this type yourself",
        )
    for index, volume in enumerate(board.volumes):
        if volume.get("hostPath") is not None:
            # The policies of tenants look at Frameworks, not at the Deployment of TensorBoard.
            yield FieldError(
                f"spec.tensorboard.volumes[{index}].hostPath",
                "the controller creates no TensorBoard with a directory of a node: use a "
                "PersistentVolumeClaim, or create the Deployment yourself",
            )


def _check_annotations(job: TfJob) -> Iterator[FieldError]:
    for name, values in ANNOTATION_VALUES.items():
        value = job.meta.annotations.get(name)
        if value and value not in values:
            yield FieldError(
                f"metadata.annotations[{name}]",
                f"is {cut_text(value, _SHOWN_BYTES)!r}; write {' or '.join(values)}, or leave it "
                "out",
            )


def _check_types(replicas: tuple[TfReplicaSpec, ...]) -> Iterator[FieldError]:
    first: dict[str, int] = {}
    for index, replica in enumerate(replicas[:_MAX_CHECKED]):
        kind = replica.replica_type
        if kind in first:
            yield FieldError(
                f"spec.replicaSpecs[{index}].tfReplicaType",
                f"{kind} is also the type of entry {first[kind]}: merge the two; without a type, "
                f"an entry is {MASTER}",
            )
        first.setdefault(kind, index)
    if len(replicas) > len(REPLICA_TYPES):
        yield FieldError(
            "spec.replicaSpecs",
            f"has {len(replicas)} entries: write at most one for each of {_list_types()}",
        )
    total = sum(max(0, replica.replicas or 0) for replica in replicas[:_MAX_CHECKED])
    if total > MAX_TASKS:
        yield FieldError(
            "spec.replicaSpecs", f"asks for {total} Pods: lower replicas to at most {MAX_TASKS}"
        )
    if MASTER not in first:
        yield FieldError(
            "spec.replicaSpecs",
            f"has no {MASTER}, with which the job ends: add an entry with tfReplicaType {MASTER}",
        )


def _check_image(job: TfJob) -> Iterator[FieldError]:
    spec = job.spec
    needs_image = spec.tensorboard is not None or any(r.is_default_ps for r in spec.replica_specs)
    if needs_image and not spec.tf_image:
        yield FieldError(
            "spec.tfImage",
            f"is required for TensorBoard and for a {PS} without a template, because the {MASTER} "
            "has no image: write an image with TensorFlow",
        )


def _check_replica(replica: TfReplicaSpec, path: str) -> Iterator[FieldError]:
    kind, replicas, port = replica.replica_type, replica.replicas, replica.port
    if kind not in REPLICA_TYPES:
        yield FieldError(
            f"{path}.tfReplicaType",
            f"is {kind!r}: write one of {_list_types()}, in capital letters",
        )
    if kind == MASTER and replicas != 1:
        yield FieldError(f"{path}.replicas", f"is {replicas}, and a job has one {MASTER}: write 1")
    elif replicas is not None:
        yield from check_range(f"{path}.replicas", replicas, 0, "the number of Pods")
    if port is not None and not 1 <= port <= _MAX_PORT:
        yield FieldError(f"{path}.tfPort", f"{port} is not a port: use 1 to {_MAX_PORT}")
    if replica.template is not None:
        yield from _check_replica_template(replica.template, f"{path}.template")
    elif kind != PS:
        yield FieldError(
            f"{path}.template", f"is required for {kind}: write a Pod template; only {PS} has one"
        )


def _check_replica_template(template: Mapping[str, Any], path: str) -> Iterator[FieldError]:
    faults = list(check_template(template, path, RESERVED))
    yield from faults
    if not faults and find_tensorflow(template) is None:
        yield FieldError(
            f"{path}.spec.containers",
            f"none has the name {CONTAINER}: give this name to the container that runs TensorFlow",
        )


def _check_tensorboard(tensorboard: TensorBoardSpec, path: str) -> Iterator[FieldError]:
    if not tensorboard.log_dir:
        yield FieldError(
            f"{path}.logDir", "is required: write the directory or URL of the event files"
        )
    if tensorboard.service_type not in ("", *_SERVICE_TYPES):
        yield FieldError(
            f"{path}.serviceType",
            f"is {tensorboard.service_type!r}: write one of {', '.join(_SERVICE_TYPES)}",
        )


def _list_types() -> str:
    return ", ".join(REPLICA_TYPES)

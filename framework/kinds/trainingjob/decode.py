"""Decodes a TrainingJob. Pure."""

from collections.abc import Mapping
from typing import Any

from framework.api.fielderrors import FieldErrors
from framework.api.wire import INT, TEMPLATE, Errors, Field, Struct, enum_kind
from framework.kinds.decoding import decode_body, decode_meta
from framework.kinds.trainingjob.types import (
    AttachMode,
    CleanPodPolicy,
    JobRestartPolicy,
    ReplicaRestartPolicy,
    ReplicaSpec,
    ReplicaSpecs,
    TrainingJob,
    TrainingJobSpec,
)

_LONGEST_SUFFIX = "-worker-9999"

_REPLICA = Struct(
    ReplicaSpec,
    Field("replicas", "replicas", INT),
    Field("minReplicas", "min_replicas", INT),
    Field("maxReplicas", "max_replicas", INT),
    Field("template", "template", TEMPLATE),
    Field("restartPolicy", "restart_policy", enum_kind(ReplicaRestartPolicy)),
)
_REPLICAS = Struct(
    ReplicaSpecs,
    Field("launcher", "launcher", _REPLICA.kind()),
    Field("worker", "worker", _REPLICA.kind()),
)
_SPEC = Struct(
    TrainingJobSpec,
    Field("cleanPodPolicy", "clean_pod_policy", enum_kind(CleanPodPolicy)),
    Field("etReplicaSpecs", "replica_specs", _REPLICAS.kind()),
    Field("launcherAttachMode", "attach_mode", enum_kind(AttachMode)),
    Field("slotsPerWorker", "slots_per_worker", INT),
    Field("restartPolicy", "restart_policy", enum_kind(JobRestartPolicy)),
    Field("backoffLimit", "backoff_limit", INT),
)


def decode_trainingjob(body: Mapping[str, Any]) -> TrainingJob:
    """Decode a TrainingJob; ``status`` is not read.

    Raises:
        FieldErrors: with all errors of the types.
    """
    errors: Errors = []
    meta = decode_meta(body, _LONGEST_SUFFIX, errors)
    spec = _SPEC.decode(decode_body(body, errors), "spec", errors)
    if errors or spec is None:
        raise FieldErrors(errors)
    return TrainingJob(meta, spec)

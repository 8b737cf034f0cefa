"""Decodes a TfJob of both dialects: snake_case (June 2017) and camelCase (August 2017). Pure.

A field may be in either spelling, because the examples of the original mix them. Fields of the
original that only its operator wrote (``IsDefaultPS``, ``RuntimeId``) are read, so that a stored
object can be converted, too.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from framework.api.wire import BOOL, INT, STR, TEMPLATE, Errors, Field, Struct, list_kind
from framework.kinds.decoding import decode_body, decode_meta
from framework.kinds.spelling import Spelling
from framework.kinds.tfjob.types import TensorBoardSpec, TfJob, TfJobSpec, TfReplicaSpec

# Other spelling -> spelling. Go reads `RuntimeId` in any case, because it has no name in JSON.
_SPEC_NAMES = {
    "replica_specs": "replicaSpecs",
    "RuntimeId": "runtimeId",
    "runtimeid": "runtimeId",
    "runtime_id": "runtimeId",
    "tf_image": "tfImage",
}
_REPLICA_NAMES = {"tf_port": "tfPort", "tf_replica_type": "tfReplicaType"}
# The longest name of an object: that of a Pod of role `worker`.
_LONGEST_SUFFIX = "-worker-9999"

_REPLICA = Struct(
    TfReplicaSpec,
    Field("tfReplicaType", "replica_type", STR),
    Field("replicas", "replicas", INT),
    Field("template", "template", TEMPLATE),
    Field("tfPort", "port", INT),
    Field("IsDefaultPS", "is_default_ps", BOOL),
)
_TENSORBOARD = Struct(
    TensorBoardSpec,
    Field("logDir", "log_dir", STR),
    Field("volumes", "volumes", list_kind(TEMPLATE)),
    Field("volumeMounts", "volume_mounts", list_kind(TEMPLATE)),
    Field("serviceType", "service_type", STR),
)
_SPEC = Struct(
    TfJobSpec,
    Field("runtimeId", "runtime_id", STR),
    Field("replicaSpecs", "replica_specs", list_kind(_REPLICA.kind())),
    Field("tensorboard", "tensorboard", _TENSORBOARD.kind()),
    Field("tfImage", "tf_image", STR),
)


def decode_tfjob(body: Mapping[str, Any]) -> TfJob:
    """Decode a TfJob; ``status`` is not read.

    Raises:
        FieldErrors: with all errors of the types; paths are as the user wrote them.
    """
    errors: Errors = []
    meta = decode_meta(body, _LONGEST_SUFFIX, errors)
    spelling = Spelling()
    spec = _SPEC.decode(_rename(decode_body(body, errors), spelling), "spec", errors)
    errors += spelling.errors
    if errors or spec is None:
        raise spelling.show_errors(errors)
    return TfJob(meta, spec, spelling)


def _rename(spec: Mapping[str, Any], spelling: Spelling) -> Mapping[str, Any]:
    renamed = spelling.rename(spec, "spec", _SPEC_NAMES)
    replicas = renamed.get("replicaSpecs")
    if isinstance(replicas, Sequence) and not isinstance(replicas, str):
        renamed["replicaSpecs"] = [
            spelling.rename(item, f"spec.replicaSpecs[{index}]", _REPLICA_NAMES)
            if isinstance(item, Mapping)
            else item
            for index, item in enumerate(replicas)
        ]
    return renamed

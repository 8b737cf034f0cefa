"""The fields of a TfJob that are fixed once its Framework exists: all that are compiled. Pure.

The status of the TfJob keeps a hash of each field. Defaults are set before, so that another
spelling of a field, or a default that is written out, is no change.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from framework.kinds.compiled import Object
from framework.kinds.tfjob.decode import decode_tfjob
from framework.kinds.tfjob.defaults import set_defaults
from framework.kinds.tfjob.types import JSON_LOGS_ANNOTATION, TF_CONFIG_ANNOTATION

STATUS_FIELD = "specHashes"
"""Field of the status with the hashes."""
_HASH_BYTES = 8


def hash_fields(body: Mapping[str, Any]) -> dict[str, str]:
    """Compute the hashes of the fields.

    Raises:
        FieldErrors: the TfJob cannot be decoded.
    """
    job = set_defaults(decode_tfjob(body))
    spec = job.spec
    board = None if spec.tensorboard is None else asdict(spec.tensorboard)
    values: Object = {
        "spec.runtimeId": spec.runtime_id,
        "spec.tfImage": spec.tf_image,
        "spec.tensorboard": board,
    }
    for name in (JSON_LOGS_ANNOTATION, TF_CONFIG_ANNOTATION):
        values[f"metadata.annotations[{name}]"] = job.meta.annotations.get(name)
    for replica in spec.replica_specs:
        path = f"spec.replicaSpecs[{replica.replica_type}]"
        values[f"{path}.replicas"] = replica.replicas
        values[f"{path}.tfPort"] = replica.port
        values[f"{path}.template"] = replica.template
    return {path: _hash(value) for path, value in sorted(values.items())}


def find_changed(stored: Mapping[str, Any], current: Mapping[str, str]) -> str:
    """Find the first field whose hash differs; "" if none does."""
    paths = sorted({*stored, *current})
    return next((path for path in paths if stored.get(path) != current.get(path)), "")


def read_hashes(status: Mapping[str, Any]) -> Mapping[str, Any]:
    """Read the hashes from a status; empty if it has none."""
    hashes = status.get(STATUS_FIELD)
    return hashes if isinstance(hashes, Mapping) else {}


def _hash(value: object) -> str:
    text = json.dumps(value, sort_keys=True, separators=(",", ":"))
    return hashlib.blake2b(text.encode(), digest_size=_HASH_BYTES).hexdigest()

"""The owner and the labels of the objects of a job. Pure.

Each object has an owner reference to the job (controller, blockOwnerDeletion), so that a deletion
of the job deletes it, and a deletion in the foreground waits for the Framework. The labels are for
the watches. Other clients can write both: except for the Framework, whose spec is compared, an
object counts as the job's only if a controller has created it (``creators``).
"""

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from framework.api import constants
from framework.kinds.compiled import Object

KIND_LABEL = constants.ANNOTATION_PREFIX + "job-kind"
"""Kind of the job for which an object was created; a label of the Framework and its Services."""
JOB_LABEL = constants.ANNOTATION_PREFIX + "job"
"""Name of the job."""
HASH_ANNOTATION = constants.ANNOTATION_PREFIX + "compiled-hash"
"""On a Framework: the hash of the spec that was compiled from its job."""
_HASH_LENGTH = 32


def get_metadata(body: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the metadata; empty if there is none."""
    metadata = body.get("metadata")
    return metadata if isinstance(metadata, Mapping) else {}


def is_owned(body: Mapping[str, Any], job: Mapping[str, Any]) -> bool:
    """Return whether the job is the controller among the owners of an object."""
    uid = get_metadata(job).get("uid")
    return bool(uid) and find_owner_uid(body) == uid


def find_owner_uid(body: Mapping[str, Any]) -> str:
    """Find the UID of the controller among the owners of an object; "" if it has none."""
    owners = get_metadata(body).get("ownerReferences")
    for owner in owners if isinstance(owners, list) else ():
        # The API server refuses an object with two of them.
        if isinstance(owner, Mapping) and owner.get("controller") is True:
            return str(owner.get("uid"))
    return ""


def is_marked(body: Mapping[str, Any], job: Mapping[str, Any]) -> bool:
    """Return whether an object has the labels of those that are created for the job."""
    labels = get_metadata(body).get("labels")
    return isinstance(labels, Mapping) and build_labels(job).items() <= labels.items()


def binds_same_role(stored: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    """Return whether two RoleBindings bind the same Role, which cannot be changed."""
    return all(stored["roleRef"].get(key) == wanted["roleRef"][key] for key in ("kind", "name"))


def is_bound_otherwise(stored: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    """Return whether a RoleBinding binds other accounts than wanted."""
    return _list_subjects(stored) != _list_subjects(wanted)


def _list_subjects(binding: Mapping[str, Any]) -> list[tuple[str, str]]:
    # The API server adds the namespace of the binding's own accounts only on request.
    return sorted((str(s.get("kind")), str(s.get("name"))) for s in binding.get("subjects") or ())


def build_labels(job: Mapping[str, Any]) -> dict[str, str]:
    """Build the labels of objects of a job."""
    return {KIND_LABEL: str(job["kind"]), JOB_LABEL: str(get_metadata(job)["name"])}


def mark(body: Object, job: Mapping[str, Any]) -> Object:
    """Return an object with the marks of those of the job."""
    metadata, owner = body["metadata"], get_metadata(job)
    reference = {
        "apiVersion": job["apiVersion"],
        "kind": job["kind"],
        "name": owner["name"],
        "uid": owner["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }
    labels = {**(metadata.get("labels") or {}), **build_labels(job)}
    return {**body, "metadata": {**metadata, "labels": labels, "ownerReferences": [reference]}}


def hash_spec(spec: object) -> str:
    """Compute the hash of a compiled spec."""
    text = json.dumps(spec, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:_HASH_LENGTH]


def find_difference(stored: Any, wanted: Any, path: str) -> str:
    """Find the field in which two values differ first; "" if they are equal."""
    if stored == wanted:
        return ""
    if isinstance(stored, Mapping) and isinstance(wanted, Mapping):
        for key in sorted({*stored, *wanted}):
            if stored.get(key) != wanted.get(key) or (key in stored) != (key in wanted):
                return find_difference(stored.get(key), wanted.get(key), f"{path}.{key}") or path
    if isinstance(stored, list) and isinstance(wanted, list) and len(stored) == len(wanted):
        for index, (left, right) in enumerate(zip(stored, wanted, strict=True)):
            if left != right:
                return find_difference(left, right, f"{path}[{index}]")
    return path

"""Decides which objects of a job count as created by a controller. Pure.

Any client with the right to create objects in the namespace can give them the owner and the labels
of a job's objects. So such an object counts as the job's only if a controller process has signed it
(``controller.kinds.proofs``), and the status of the job has the key of this process:

1. The public key of a process is in the status (``creatorKeys``) before its first create for the
   job: the write of the status is a stage before the creates.
2. A controller that takes over keeps the keys. A create whose answer was lost is recognized by
   the key of the process that sent it.
3. The first status of a job has ``creatorKeys``, if only an empty list. A status without it was
   written by an older version, which signed nothing. The next status gets ``unsignedUntil``:
   objects that the API server created until then need no signature. No client can choose the
   creation time of an object.

Example: a tenant creates the Secret elastic-ssh with the job's UID as its owner, before the
controller does. It has no signature by a key of the status: the job is Blocked, and the Secret
stays as it is.
"""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from controller.kinds.decide.decision import Snapshot
from framework.api.durations import parse_time
from framework.api.wire import format_time
from framework.kinds.compiled import Object

KEYS_FIELD = "creatorKeys"
"""Field of the status of a job with the public keys, the newest last."""
UNSIGNED_FIELD = "unsignedUntil"
"""Field of the status of a job that began under an older version."""
# Covers the difference between the clocks of controller and API server, and late creates.
_MARGIN = timedelta(seconds=60)
# A key is added when a controller process first creates something for the job.
_MAX_KEYS = 128


def is_from_older_version(job: Mapping[str, Any]) -> bool:
    """Return whether objects of the job may have no signature."""
    status = _read_status(job)
    return UNSIGNED_FIELD in status or (bool(status) and KEYS_FIELD not in status)


def is_by_controller(creator: str, created_at: object, job: Mapping[str, Any]) -> bool:
    """Return whether an object with the owner and the labels of a job was created by a controller.

    Args:
        creator: the key that has signed the object; "" if none.
        created_at: its ``creationTimestamp``.
        job: the job.
    """
    status = _read_status(job)
    if creator and creator in read_keys(status):
        return True
    if not is_from_older_version(job):
        return False
    if UNSIGNED_FIELD not in status:
        return True
    created, limit = parse_time(created_at), parse_time(status[UNSIGNED_FIELD])
    return created is not None and limit is not None and created <= limit


def update_creators(snapshot: Snapshot, *, is_creating: bool) -> Object:
    """Compute the fields of the status about creators.

    Args:
        snapshot: the job and its objects; its ``creator_key`` is that of this process.
        is_creating: whether the decision creates objects.
    """
    old = _read_status(snapshot.job)
    keys, key = read_keys(old), snapshot.creator_key
    if is_creating and key and key not in keys:
        keys = [*_drop_unused(keys, snapshot), key]
    fields: Object = {KEYS_FIELD: keys}
    if UNSIGNED_FIELD in old:
        fields[UNSIGNED_FIELD] = old[UNSIGNED_FIELD]
    elif is_from_older_version(snapshot.job):
        fields[UNSIGNED_FIELD] = format_time(snapshot.now + _MARGIN)
    return fields


def read_keys(status: Mapping[str, Any]) -> list[str]:
    """Read the keys of a status; empty if it has none."""
    keys = status.get(KEYS_FIELD)
    return [key for key in keys if isinstance(key, str)] if isinstance(keys, list) else []


def _drop_unused(keys: list[str], snapshot: Snapshot) -> list[str]:
    """Make room for a key: drop the oldest ones that have signed no Service that exists.

    The first one stays: it has signed the Secret and the Role of the job, which no watch shows.
    """
    surplus = len(keys) + 1 - _MAX_KEYS
    if surplus <= 0:
        return keys
    used = {keys[0], *(view.creator for view in snapshot.services.values())}
    unused = [key for key in keys if key not in used][:surplus]
    return [key for key in keys if key not in unused]


def _read_status(job: Mapping[str, Any]) -> Mapping[str, Any]:
    status = job.get("status")
    return status if isinstance(status, Mapping) else {}

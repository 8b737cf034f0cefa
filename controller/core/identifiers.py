"""Instance UIDs of roles and Tasks: derived, so that equal input gives an equal decision.

Rules: docs/design/state-machines.md, "Objects of an attempt". The
resourceVersion is the one that the status write names as its precondition: an id is unique, and new
when the base has changed.
"""

import uuid

from framework.api.types import Framework

_NAMESPACE = uuid.UUID("6f0a1d9e-3c58-5a0f-9d53-6b7f2f6b8f11")


def derive_instance_uid(framework: Framework, attempt_id: int, *path: str | int) -> str:
    """Derive the UID of a role (``path`` = role) or a Task (``path`` = role, index)."""
    meta = framework.metadata
    parts = (meta.uid, meta.resource_version, attempt_id, *path)
    return str(uuid.uuid5(_NAMESPACE, "/".join(str(part) for part in parts)))

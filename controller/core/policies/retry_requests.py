"""Requests of users to retry Tasks: which attempts the annotation of the Framework names.

The annotation ``frameworkbarrier.io/retry`` lists UIDs of Pods.

1. The attempt of a Task whose Pod is listed ends with -260, and its Pod is deleted.
2. The retry of an attempt whose Pod is listed is due at once, without its pause.

A UID names one Pod of one attempt for ever. So a request takes effect at most once, in every order
of crashes and repeated decisions, and may stay in the annotation: the next attempt has another Pod.
A UID of no current attempt has no effect.

Example: worker/2 hangs in attempt 0. A user lists its Pod. The decision ends the attempt with -260;
when that is stored, the Pod is deleted, and attempt 1 begins with a new Pod, which is not listed.

Rules: docs/design/failure-handling.md, "Requested retries".
"""

from collections.abc import Mapping

from controller.core.draft import Draft
from framework.api.constants import RETRY_ANNOTATION
from framework.api.types import TaskStatus

DIAGNOSTICS = "User has requested to retry the Task"


def is_retry_requested(draft: Draft, task: TaskStatus) -> bool:
    """Return whether a user asked for the end of the current attempt of a Task."""
    return task.attempt_status.pod_uid in draft.compute_once(_read_requests)


def _read_requests(draft: Draft) -> frozenset[str]:
    annotations = draft.snapshot.framework.metadata.extra.get("annotations")
    value = annotations.get(RETRY_ANNOTATION) if isinstance(annotations, Mapping) else None
    if not isinstance(value, str):
        return frozenset()
    return frozenset(uid for part in value.split(",") if (uid := part.strip()))

"""The size of diagnostics: the texts of all Tasks together must fit into one stored object.

A completion status never changes once it is stored, so its texts are cut when it is first set.
Each Task has an equal share of 512 Ki characters, at least 96 and at most 64 Ki. Half of the share
is for the diagnostics, and half for the texts of the Pod.

Example: with 1,000 Tasks the share is 524 characters, so 262 characters of diagnostics stay.

Rules: docs/design/failure-handling.md, "Diagnostics".
"""

from dataclasses import replace

from framework.api.types import (
    ContainerCompletionStatus,
    PodCompletionStatus,
    TaskAttemptCompletionStatus,
)

# Of all Tasks together. Diagnostics compress badly, and an object has at most 1.5 MiB.
_TOTAL_CHARACTERS = 512 * 1024
_MIN_CHARACTERS = 96
# More than a kubelet reports of a Pod, so the texts of a small gang are never cut.
_MAX_CHARACTERS = 64 * 1024
_CUT = "...(cut)"


def cut_completion(
    completion: TaskAttemptCompletionStatus,
    task_count: int,
) -> TaskAttemptCompletionStatus:
    """Cut the texts of a completion to the share of its Task."""
    share = max(_MIN_CHARACTERS, min(_MAX_CHARACTERS, _TOTAL_CHARACTERS // max(1, task_count)))
    pod = completion.pod
    if pod is not None:
        pod = _cut_pod(pod, share // 2)
    diagnostics = _cut(completion.diagnostics, share // 2)
    if diagnostics is completion.diagnostics and pod is completion.pod:
        return completion
    return replace(completion, diagnostics=diagnostics, pod=pod)


def _cut_pod(pod: PodCompletionStatus, budget: int) -> PodCompletionStatus:
    texts = [pod.reason, pod.message, *(c.message + c.reason for c in pod.containers)]
    if sum(len(text) for text in texts) <= budget:
        return pod
    share = budget // (1 + len(pod.containers))
    return replace(
        pod,
        reason=_cut(pod.reason, 64),
        message=_cut(pod.message, share),
        containers=tuple(_cut_container(c, share) for c in pod.containers),
    )


def _cut_container(container: ContainerCompletionStatus, share: int) -> ContainerCompletionStatus:
    reason, message = _cut(container.reason, 64), _cut(container.message, share)
    return replace(container, reason=reason, message=message)


def _cut(text: str, limit: int) -> str:
    if len(text) <= limit:
        return text
    return text[: max(0, limit - len(_CUT))] + _CUT

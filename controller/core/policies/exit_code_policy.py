"""The exit code policy: whether the exit code of one container makes a failure permanent.

A Pod template may say which exit codes of a container are retried
(``framework.api.retryable_codes``). ``complete_failed`` applies the first rule that matches:

1. Without that annotation, or if the container has not ended or has ended with 0: the completion
   is that of the predefined codes and of podFailureSpec.
2. The container ran out of memory (OOMKilled): permanent.
3. Kubernetes ended the Pod (it has a reason), the container runtime gives another reason than the
   end of the program, or an agent of ours ended by its own decision: the completion of rule 1, if
   it is transient or permanent.
4. An exit code in the range is transient, any other is permanent, whatever podFailureSpec says.

A completion that agrees with the rule stays as it is, with its code and phrase.

Example: tensorflow=128-255. The container ends with 139, which the default config calls permanent:
transient. It ends with 1, and a sidecar with 137: permanent.

Rules: docs/design/failure-handling.md, "Retryable exit codes".
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from framework.api import constants
from framework.api.completion import (
    PERMANENT,
    TRANSIENT,
    CompletionCodeRule,
    complete_failed_pod,
)
from framework.api.pods import PodView, Terminated
from framework.api.retryable_codes import RetryableCodes, find_retryable_codes
from framework.api.types import CompletionType, TaskAttemptCompletionStatus

OOM_KILLED = "OOMKilled"
# Reasons of the kubelet for a program that ended by itself or by a signal.
_PROGRAM_ENDED = frozenset({"", "Error", "Completed"})
_PHRASES = {TRANSIENT: "ContainerExitCodeRetryable", PERMANENT: "ContainerExitCodePermanent"}


def complete_failed(
    template: Mapping[str, Any] | None, pod: PodView, rules: Sequence[CompletionCodeRule]
) -> TaskAttemptCompletionStatus:
    """Build the completion of a Task whose Pod failed.

    Args:
        template: the Pod template in the spec; None if its role left the spec.
        pod: the Pod that failed.
        rules: podFailureSpec.
    """
    completion = complete_failed_pod(pod, rules)
    codes = find_retryable_codes(template)
    ended = None if codes is None else _find_end(pod, codes.container)
    if codes is None or ended is None or ended.code == 0:
        return completion
    attribute = _judge(codes, pod, ended, completion.type)
    if completion.type.has_attribute(attribute):
        return completion
    return replace(
        completion,
        code=ended.code,
        phrase=_PHRASES[attribute],
        type=CompletionType("Failed", (attribute,)),
        diagnostics=f"{_explain(codes, ended, attribute)}: {completion.diagnostics}",
    )


def _find_end(pod: PodView, name: str) -> Terminated | None:
    return next((each.terminated for each in pod.containers if each.name == name), None)


def _judge(codes: RetryableCodes, pod: PodView, ended: Terminated, kind: CompletionType) -> str:
    """Find the attribute that the completion must have."""
    if ended.reason == OOM_KILLED:
        return PERMANENT
    if pod.reason or ended.reason not in _PROGRAM_ENDED or _is_agent_end(ended):
        # As the retry policy: Transient is checked first.
        for attribute in (TRANSIENT, PERMANENT):
            if kind.has_attribute(attribute):
                return attribute
    return TRANSIENT if codes.contains(ended.code) else PERMANENT


def _is_agent_end(ended: Terminated) -> bool:
    """Return whether an agent wrote the message, whose exit code the program did not choose."""
    try:
        message = json.loads(ended.message)
    except (ValueError, RecursionError):
        return False
    return isinstance(message, dict) and message.get("exitCode") == ended.code


def _explain(codes: RetryableCodes, ended: Terminated, attribute: str) -> str:
    said = f"Container {codes.container} ended with exit code {ended.code}"
    if ended.reason == OOM_KILLED:
        return f"{said}, {OOM_KILLED}, which is not retried"
    verb = "is" if attribute == TRANSIENT else "is not"
    return f"{said}, which {verb} retried by {constants.RETRYABLE_CODES_ANNOTATION}={codes}"

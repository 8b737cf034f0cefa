"""The exit code policy: whether the exit code of one container makes a failure permanent.

A Pod template may say which exit codes of a container are retried
(``framework.api.retryable_codes``). This annotation decides only if the program of this container
chose the exit code. In all other cases the cause of the end decides, and the annotation never makes
the failure permanent. ``complete_failed`` applies the first rule that matches:

1. Without that annotation, or if the container has not ended or has ended with 0: the completion
   is that of the predefined codes and of podFailureSpec.
2. The container ran out of memory (OOMKilled): permanent.
3. The program did not choose the code. The predefined codes and podFailureSpec are applied to the
   Pod without its containers if Kubernetes ended the Pod (it has a reason), and to this container
   alone if the container runtime or an agent of this project ended it. If they say neither
   transient nor permanent, a code in the range is transient, and any other an unknown failure.
4. An exit code in the range is transient, any other is permanent, even if podFailureSpec says
   otherwise.

In 2 and 4, a completion that agrees with the rule stays as it is, with its code and phrase.

Example: tensorflow=128-255. The container ends with 139, which the default config calls permanent:
transient. It ends with 1, and a sidecar with 137: permanent. Its agent ends with 210: permanent.

Rules: docs/design/failure-handling.md, "Retryable exit codes".
"""

import json
from collections.abc import Sequence
from dataclasses import replace

from framework.api import constants
from framework.api.completion import (
    CONTAINER_PERMANENT_FAILED,
    CONTAINER_TRANSIENT_CONFLICT_FAILED,
    CONTAINER_TRANSIENT_FAILED,
    PERMANENT,
    TRANSIENT,
    CompletionCodeRule,
    complete_failed_pod,
)
from framework.api.constants import HUNG_EXIT_CODE
from framework.api.pods import PodView, Terminated, extract_completion
from framework.api.retryable_codes import RetryableCodes
from framework.api.types import CompletionType, TaskAttemptCompletionStatus

OOM_KILLED = "OOMKilled"
_AGENT_FAULT = 1
# Reasons of the kubelet for a program that ended by itself or by a signal.
_PROGRAM_ENDED = frozenset({"", "Error", "Completed"})
# Those of framework/agent/exitcodes.py without 0.
AGENT_CODES = frozenset(
    {
        _AGENT_FAULT,
        CONTAINER_TRANSIENT_FAILED,
        CONTAINER_TRANSIENT_CONFLICT_FAILED,
        HUNG_EXIT_CODE,
        CONTAINER_PERMANENT_FAILED,
    }
)
_PHRASES = {TRANSIENT: "ContainerExitCodeRetryable", PERMANENT: "ContainerExitCodePermanent"}


def complete_failed(
    codes: RetryableCodes | None, pod: PodView, rules: Sequence[CompletionCodeRule]
) -> TaskAttemptCompletionStatus:
    """Build the completion of a Task whose Pod failed.

    Args:
        codes: those of the Pod template; None if it has none, or its role left the spec.
        pod: the Pod that failed.
        rules: podFailureSpec.
    """
    ended = None if codes is None else _find_end(pod, codes.container)
    if codes is None or ended is None or ended.code == 0:
        return complete_failed_pod(pod, rules)
    if ended.reason == OOM_KILLED:
        return _set_attribute(complete_failed_pod(pod, rules), codes, ended, PERMANENT)
    is_retried = codes.contains(ended.code)
    if _is_chosen(pod, ended):
        attribute = TRANSIENT if is_retried else PERMANENT
        return _set_attribute(complete_failed_pod(pod, rules), codes, ended, attribute)
    completion = _complete_other_end(pod, codes.container, rules)
    if _is_decided(completion) or not is_retried:
        return completion
    return _set_attribute(completion, codes, ended, TRANSIENT)


def _set_attribute(
    completion: TaskAttemptCompletionStatus,
    codes: RetryableCodes,
    ended: Terminated,
    attribute: str,
) -> TaskAttemptCompletionStatus:
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


def _is_chosen(pod: PodView, ended: Terminated) -> bool:
    """Return whether the program of the container chose its exit code."""
    return not pod.reason and ended.reason in _PROGRAM_ENDED and not _is_agent_end(ended)


def _complete_other_end(
    pod: PodView, container: str, rules: Sequence[CompletionCodeRule]
) -> TaskAttemptCompletionStatus:
    """Build the completion of an end that the program did not choose, by its cause."""
    alone = replace(pod, containers=tuple(c for c in pod.containers if c.name == container))
    if pod.reason:
        completion = complete_failed_pod(replace(pod, containers=()), rules)
        if not _is_decided(completion):
            completion = complete_failed_pod(alone, ())
    else:
        completion = complete_failed_pod(alone, rules)
    return replace(completion, pod=extract_completion(pod))


def _is_decided(completion: TaskAttemptCompletionStatus) -> bool:
    return any(completion.type.has_attribute(each) for each in (TRANSIENT, PERMANENT))


def _is_agent_end(ended: Terminated) -> bool:
    """Return whether an agent of this project ended by its own decision.

    Most codes count only with the message of an agent. The code of a hang counts without it,
    because the report of a process that restarts in place has no message.
    """
    if ended.code not in AGENT_CODES:
        return False
    return ended.code == HUNG_EXIT_CODE or _is_agent_message(ended)


def _is_agent_message(ended: Terminated) -> bool:
    try:
        message = json.loads(ended.message)
    except (ValueError, RecursionError):
        return False
    if not isinstance(message, dict) or not isinstance(message.get("reason"), str):
        return False
    code = message.get("exitCode")
    return type(code) is int and code == ended.code


def _explain(codes: RetryableCodes, ended: Terminated, attribute: str) -> str:
    end = f"Container {codes.container} ended with exit code {ended.code}"
    if ended.reason == OOM_KILLED:
        return f"{end}, {OOM_KILLED}, which is not retried"
    verb = "is" if attribute == TRANSIENT else "is not"
    return f"{end}, which {verb} retried by {constants.RETRYABLE_CODES_ANNOTATION}={codes}"

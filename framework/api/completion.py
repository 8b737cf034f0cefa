"""Completion codes, and the choice of the code for a failed Pod or a refused Pod creation. Pure.

Regular expressions are passed as Matchers, because RE2 needs a library. Rules:
docs/design/failure-handling.md, "Completion codes".
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from framework.api import codec, constants, gojson
from framework.api.pods import ContainerView, PodView, Terminated, extract_completion
from framework.api.types import (
    CompletionType,
    FrameworkAttemptCompletionStatus,
    PodCompletionStatus,
    TaskAttemptCompletionStatus,
)

SUCCEEDED = 0
CONFIGMAP_EXTERNAL_DELETED = -100
POD_EXTERNAL_DELETED = -101
CONFIGMAP_LOCAL_CACHE_CREATION_TIMEOUT = -110
POD_LOCAL_CACHE_CREATION_TIMEOUT = -111
POD_CREATION_TRANSIENT_ERROR = -120
POD_CREATION_PERMANENT_ERROR = -200
STOP_FRAMEWORK_REQUESTED = -210
FRAMEWORK_ATTEMPT_COMPLETION = -220
POD_LEFT_RUNNING = constants.POD_LEFT_RUNNING_CODE
DELETE_TASK_REQUESTED = -230
FRAMEWORK_DEADLINE_EXCEEDED = -240
SUSPEND_FRAMEWORK_REQUESTED = -250
RETRY_TASK_REQUESTED = -260
EPOCH_START_TIMEOUT = -270
TASK_LEFT_NODE = -280
POD_FAILED_WITHOUT_FAILED_CONTAINER = -300
POD_CREATION_UNKNOWN_ERROR = -310
CONTAINER_TRANSIENT_FAILED = 200
CONTAINER_TRANSIENT_CONFLICT_FAILED = 201
CONTAINER_PERMANENT_FAILED = 210

# Codes that a config may not define: codes of the controller, and those of containers.
RESERVED_RANGES = ((-999, 0), (200, 219))

TRANSIENT = "Transient"
PERMANENT = "Permanent"
CONFLICT = "Conflict"

# Texts of a 403 that is temporary.
QUOTA_WORDS = "exceeded quota"

_UNRECOGNIZED_PHRASE = "ContainerUnrecognizedFailed"


class Matcher(Protocol):
    """A compiled regular expression."""

    def find(self, text: str) -> str | None:
        """Return the first match in ``text``, None if there is none."""
        ...


@dataclass(frozen=True, slots=True)
class IntRange:
    """An inclusive range; None is unbounded. If both are None, there is no range."""

    low: int | None = None
    high: int | None = None

    @property
    def is_absent(self) -> bool:
        """Return whether there is no range."""
        return self.low is None and self.high is None

    def contains(self, value: int) -> bool:
        """Return whether ``value`` is in the range."""
        return (self.low is None or self.low <= value) and (self.high is None or value <= self.high)


@dataclass(frozen=True, slots=True)
class ContainerPattern:
    """Patterns that must all match the same container; None matches every value."""

    name: Matcher | None = None
    reason: Matcher | None = None
    message: Matcher | None = None
    signal: IntRange = IntRange()
    code: IntRange = IntRange()


@dataclass(frozen=True, slots=True)
class PodPattern:
    """Patterns that must all match a Pod; each container pattern must match a container."""

    name: Matcher | None = None
    reason: Matcher | None = None
    message: Matcher | None = None
    containers: tuple[ContainerPattern, ...] = ()


@dataclass(frozen=True, slots=True)
class CompletionCodeRule:
    """A code with its meaning, and the Pod patterns; one match gives the code."""

    code: int
    phrase: str
    type: CompletionType
    patterns: tuple[PodPattern, ...] = ()


def _failed(*attributes: str) -> CompletionType:
    return CompletionType("Failed", attributes)


# code -> (phrase, type) of the predefined codes.
PREDEFINED: dict[int, tuple[str, CompletionType]] = {
    CONTAINER_TRANSIENT_FAILED: ("ContainerTransientFailed", _failed(TRANSIENT)),
    CONTAINER_TRANSIENT_CONFLICT_FAILED: (
        "ContainerTransientConflictFailed",
        _failed(TRANSIENT, CONFLICT),
    ),
    CONTAINER_PERMANENT_FAILED: ("ContainerPermanentFailed", _failed(PERMANENT)),
    SUCCEEDED: ("Succeeded", CompletionType("Succeeded", ())),
    CONFIGMAP_EXTERNAL_DELETED: ("ConfigMapExternalDeleted", _failed(TRANSIENT)),
    POD_EXTERNAL_DELETED: ("PodExternalDeleted", _failed(TRANSIENT)),
    CONFIGMAP_LOCAL_CACHE_CREATION_TIMEOUT: (
        "ConfigMapLocalCacheCreationTimeout",
        _failed(TRANSIENT),
    ),
    POD_LOCAL_CACHE_CREATION_TIMEOUT: ("PodLocalCacheCreationTimeout", _failed(TRANSIENT)),
    POD_CREATION_TRANSIENT_ERROR: ("PodCreationTransientError", _failed(TRANSIENT)),
    POD_CREATION_PERMANENT_ERROR: ("PodCreationPermanentError", _failed(PERMANENT)),
    STOP_FRAMEWORK_REQUESTED: ("StopFrameworkRequested", _failed(PERMANENT)),
    FRAMEWORK_ATTEMPT_COMPLETION: ("FrameworkAttemptCompletion", _failed(PERMANENT)),
    POD_LEFT_RUNNING: ("PodLeftRunning", _failed(PERMANENT)),
    DELETE_TASK_REQUESTED: ("DeleteTaskRequested", _failed(PERMANENT)),
    FRAMEWORK_DEADLINE_EXCEEDED: ("FrameworkDeadlineExceeded", _failed(PERMANENT)),
    SUSPEND_FRAMEWORK_REQUESTED: ("SuspendFrameworkRequested", _failed(TRANSIENT)),
    RETRY_TASK_REQUESTED: ("RetryTaskRequested", _failed(TRANSIENT)),
    EPOCH_START_TIMEOUT: ("EpochStartTimeout", _failed(TRANSIENT)),
    TASK_LEFT_NODE: ("TaskLeftNode", _failed(TRANSIENT)),
    POD_FAILED_WITHOUT_FAILED_CONTAINER: ("PodFailedWithoutFailedContainer", _failed()),
    POD_CREATION_UNKNOWN_ERROR: ("PodCreationUnknownError", _failed()),
}

# Matched before the configured rules, in this order.
_CONTAINER_CODES = (
    CONTAINER_TRANSIENT_FAILED,
    CONTAINER_TRANSIENT_CONFLICT_FAILED,
    CONTAINER_PERMANENT_FAILED,
)


@dataclass(frozen=True, slots=True)
class CreationError:
    """A refused or failed Pod creation. ``code`` is the HTTP status, 0 without an answer."""

    code: int
    message: str
    body: str = ""


def is_left_running(completion: TaskAttemptCompletionStatus | None) -> bool:
    """Return whether a Task has ended with its Framework, which has left its Pod running."""
    return completion is not None and completion.code == POD_LEFT_RUNNING


def complete_task(
    code: int,
    diagnostics: str,
    pod: PodCompletionStatus | None = None,
) -> TaskAttemptCompletionStatus:
    """Build a Task attempt's completion with a predefined code."""
    phrase, kind = PREDEFINED[code]
    return TaskAttemptCompletionStatus(code, phrase, kind, diagnostics, pod)


def complete_framework(code: int, diagnostics: str) -> FrameworkAttemptCompletionStatus:
    """Build a Framework attempt's completion with a predefined code, without a trigger."""
    phrase, kind = PREDEFINED[code]
    return FrameworkAttemptCompletionStatus(code, phrase, kind, diagnostics)


def complete_succeeded_pod(pod: PodView) -> TaskAttemptCompletionStatus:
    """Build the completion of a Task whose Pod succeeded."""
    return complete_task(SUCCEEDED, "Pod succeeded", extract_completion(pod))


def complete_failed_pod(
    pod: PodView,
    rules: Sequence[CompletionCodeRule],
) -> TaskAttemptCompletionStatus:
    """Build the completion of a Task whose Pod failed.

    The first match gives the code: the three container codes, then ``rules`` in order. Without a
    match, the code is that of the failed container that finished last.
    """
    matched = _match_container_codes(pod) or _match_rules(pod, rules) or _unmatched(pod)
    code, phrase, kind, diagnostics = matched
    return TaskAttemptCompletionStatus(
        code,
        phrase,
        kind,
        f"Pod failed: {diagnostics}",
        extract_completion(pod),
    )


def classify_creation_error(error: CreationError) -> TaskAttemptCompletionStatus:
    """Classify an error of a Pod creation; -120 never completes an attempt.

    Source: ``ClassifyPodCreationError`` of the Go original.
    """
    if QUOTA_WORDS in error.message or "object provided is unrecognized" in error.message:
        code = POD_CREATION_TRANSIENT_ERROR
    elif error.code in (400, 403):
        code = POD_CREATION_UNKNOWN_ERROR
    elif error.code in (413, 422):
        code = POD_CREATION_PERMANENT_ERROR
    else:
        code = POD_CREATION_TRANSIENT_ERROR
    return complete_task(code, f"Failed to create Pod: {error.body or error.message}")


_Matched = tuple[int, str, CompletionType, str]


def _match_container_codes(pod: PodView) -> _Matched | None:
    for code in _CONTAINER_CODES:
        for container in pod.containers:
            ended = container.terminated
            if ended is not None and ended.code == code:
                # The predefined patterns have no reason.
                message = {"message": ended.message} if ended.message else {}
                matched = {"name": container.name, **message, "code": code}
                phrase, kind = PREDEFINED[code]
                return code, phrase, kind, _matched_text({"containers": [matched]})
    return None


def _match_rules(pod: PodView, rules: Iterable[CompletionCodeRule]) -> _Matched | None:
    for rule in rules:
        for pattern in rule.patterns:
            matched = _match_pod(pod, pattern)
            if matched is not None:
                return rule.code, rule.phrase, rule.type, _matched_text(matched)
    return None


def _matched_text(matched: dict[str, Any]) -> str:
    return f"PodPattern matched: {gojson.dumps(matched)}"


def _match_pod(pod: PodView, pattern: PodPattern) -> dict[str, Any] | None:
    matched: dict[str, Any] = {}
    for key, matcher, text in (
        ("name", pattern.name, pod.name),
        ("reason", pattern.reason, pod.reason),
        ("message", pattern.message, pod.message),
    ):
        if matcher is not None and not _match_text(matched, key, matcher, text):
            return None
    containers = []
    for container_pattern in pattern.containers:
        found = _match_any_container(pod.containers, container_pattern)
        if found is None:
            return None
        if found:
            containers.append(found)
    if containers:
        matched["containers"] = containers
    return matched


def _match_text(matched: dict[str, Any], key: str, matcher: Matcher, text: str) -> bool:
    found = matcher.find(text)
    # Like omitempty of Go: an empty match is not written, except a name, which is a pointer.
    if found or (found is not None and key == "name"):
        matched[key] = found
    return found is not None


def _match_any_container(
    containers: Iterable[ContainerView],
    pattern: ContainerPattern,
) -> dict[str, Any] | None:
    for container in containers:
        matched = _match_container(container, pattern)
        if matched is not None:
            return matched
    return None


def _match_container(
    container: ContainerView,
    pattern: ContainerPattern,
) -> dict[str, Any] | None:
    matched: dict[str, Any] = {}
    if pattern.name is not None and not _match_text(matched, "name", pattern.name, container.name):
        return None
    ended = container.terminated
    if ended is None:
        return matched if _asks_only_name(pattern) else None
    for key, matcher, text in (
        ("reason", pattern.reason, ended.reason),
        ("message", pattern.message, ended.message),
    ):
        if matcher is not None and not _match_text(matched, key, matcher, text):
            return None
    return matched if _match_numbers(matched, ended, pattern) else None


def _match_numbers(matched: dict[str, Any], ended: Terminated, pattern: ContainerPattern) -> bool:
    if not pattern.signal.contains(ended.signal) or not pattern.code.contains(ended.code):
        return False
    if not pattern.signal.is_absent and ended.signal:
        matched["signal"] = ended.signal
    if not pattern.code.is_absent:
        matched["code"] = ended.code
    return True


def _asks_only_name(pattern: ContainerPattern) -> bool:
    return (
        pattern.reason is None
        and pattern.message is None
        and pattern.signal.is_absent
        and pattern.code.is_absent
    )


def _unmatched(pod: PodView) -> _Matched:
    last: Terminated | None = None
    for container in pod.containers:
        ended = container.terminated
        if ended is None or ended.code == 0:
            continue
        if last is None or ended.finished_at > last.finished_at:
            last = ended
    text = gojson.dumps(codec.POD_COMPLETION.encode(extract_completion(pod)))
    diagnostics = f"PodPattern unmatched: {text}"
    if last is None:
        phrase, kind = PREDEFINED[POD_FAILED_WITHOUT_FAILED_CONTAINER]
        return POD_FAILED_WITHOUT_FAILED_CONTAINER, phrase, kind, diagnostics
    return last.code, _UNRECOGNIZED_PHRASE, _failed(), diagnostics

import json
import re
from dataclasses import dataclass
from typing import Any

import pytest

from framework.api.completion import (
    CONFIGMAP_EXTERNAL_DELETED,
    DELETE_TASK_REQUESTED,
    POD_CREATION_PERMANENT_ERROR,
    POD_CREATION_TRANSIENT_ERROR,
    POD_CREATION_UNKNOWN_ERROR,
    PREDEFINED,
    RESERVED_RANGES,
    SUCCEEDED,
    CompletionCodeRule,
    ContainerPattern,
    CreationError,
    IntRange,
    PodPattern,
    classify_creation_error,
    complete_failed_pod,
    complete_framework,
    complete_succeeded_pod,
    complete_task,
)
from framework.api.pods import PodView
from framework.api.types import CompletionType
from tests.support.builders import Wire, build_ended, build_pod, build_waiting
from tests.support.builders.cases import cases


@dataclass(frozen=True)
class Regex:
    """A Matcher on the standard library."""

    pattern: str

    def find(self, text: str) -> str | None:
        match = re.search(self.pattern, text)
        return None if match is None else match.group()


CUSTOM = CompletionType("Failed", ("Transient",))


def rule(*patterns: PodPattern, code: int = -1000) -> CompletionCodeRule:
    return CompletionCodeRule(code, f"Phrase{-code}", CUSTOM, patterns)


def failed(*containers: Wire, **fields: Any) -> PodView:
    return build_pod(phase="Failed", containers=containers, **fields)


def test_succeeded_pod_is_code_0_with_all_containers() -> None:
    status = complete_succeeded_pod(build_pod(phase="Succeeded", containers=[build_ended()]))
    assert (status.code, status.phrase, status.diagnostics) == (0, "Succeeded", "Pod succeeded")
    assert status.type == CompletionType("Succeeded", ())
    assert status.pod is not None
    assert [c.name for c in status.pod.containers] == ["main"]


UNRECOGNIZED = "ContainerUnrecognizedFailed"


@cases(
    "containers code phrase",
    {
        "one": ([("a", 1, 0)], 1, UNRECOGNIZED),
        "last": ([("a", 1, 5), ("b", 2, 9)], 2, UNRECOGNIZED),
        "last first": ([("a", 1, 9), ("b", 2, 5)], 1, UNRECOGNIZED),
        "tie": ([("a", 1, 5), ("b", 2, 5)], 1, UNRECOGNIZED),
        "not 0": ([("a", 0, 9), ("b", 2, 5)], 2, UNRECOGNIZED),
        "205 is ordinary": ([("a", 205, 0)], 205, UNRECOGNIZED),
        "200": ([("a", 1, 0), ("b", 200, 0)], 200, "ContainerTransientFailed"),
        "201": ([("a", 201, 0)], 201, "ContainerTransientConflictFailed"),
        "210": ([("a", 210, 9), ("b", 1, 99)], 210, "ContainerPermanentFailed"),
        "201 first": ([("a", 210, 0), ("b", 201, 0)], 201, "ContainerTransientConflictFailed"),
        "none failed": ([("a", 0, 0)], -300, "PodFailedWithoutFailedContainer"),
        "no container": ([], -300, "PodFailedWithoutFailedContainer"),
    },
)
def test_failed_pod_table(containers: list[tuple[str, int, int]], code: int, phrase: str) -> None:
    pod = failed(*(build_ended(*container) for container in containers))
    status = complete_failed_pod(pod, ())
    assert (status.code, status.phrase) == (code, phrase)
    assert status.type == PREDEFINED.get(code, ("", CompletionType("Failed", ())))[1]


def test_failed_pod_tie_of_init_and_app_container_takes_init() -> None:
    pod = failed(build_ended("main", 3, 5), init_containers=[build_ended("init", 4, 5)])
    assert complete_failed_pod(pod, ()).code == 4


def test_failed_pod_without_finish_times_takes_the_first() -> None:
    ended = [build_ended(name, code, finishedAt=None) for name, code in (("a", 3), ("b", 4))]
    assert complete_failed_pod(failed(*ended), ()).code == 3


def test_failed_pod_ignores_a_container_that_still_waits() -> None:
    pod = failed(build_waiting("side", "CrashLoopBackOff"), build_ended("main", 7))
    assert complete_failed_pod(pod, ()).code == 7


@cases(
    "pod text",
    {
        "matched, without the reason, which no pattern reads": (
            failed(build_ended("main", 210, reason="Error", message="<no> & never\n")),
            (
                r'matched: {"containers":'
                r'[{"name":"main","message":"\u003cno\u003e \u0026 never\n","code":210}]}'
            ),
        ),
        "an empty name stays": (
            failed(build_ended("", 200)),
            'matched: {"containers":[{"name":"","code":200}]}',
        ),
        "unmatched": (
            failed(
                build_ended("main", 137, reason="OOMKilled", signal=9, message='"x"'),
                build_waiting("side"),
                reason="Evicted",
                message="low\u2028memory",
            ),
            (
                r'unmatched: {"reason":"Evicted","message":"low\u2028memory","containers":['
                r'{"name":"main","reason":"OOMKilled","message":"\"x\"","signal":9,"code":137},'
                r'{"name":"side","code":0}]}'
            ),
        ),
        "nothing known": (failed(), "unmatched: {}"),
    },
)
def test_diagnostics_are_the_bytes_of_the_original(pod: PodView, text: str) -> None:
    assert complete_failed_pod(pod, ()).diagnostics == f"Pod failed: PodPattern {text}"


POD = failed(
    build_ended("main", 137, 9, reason="OOMKilled", message="out of memory", signal=9),
    build_waiting("side"),
    reason="Evicted",
    message="node is low on memory",
)
ANY_CODE = IntRange(low=0)


def container(**fields: Regex | IntRange) -> ContainerPattern:
    return ContainerPattern(**fields)  # type: ignore[arg-type]  # each test names fitting fields


def containers(*patterns: ContainerPattern) -> PodPattern:
    return PodPattern(containers=patterns)


@cases(
    "pattern matched",
    {
        "empty pattern matches all": (PodPattern(), {}),
        "unanchored": (PodPattern(name=Regex("worker-.")), {"name": "worker-0"}),
        "name differs": (PodPattern(name=Regex("^worker")), None),
        "fields are AND": (
            PodPattern(reason=Regex("^Evicted$"), message=Regex("low on \\w+")),
            {"reason": "Evicted", "message": "low on memory"},
        ),
        "one differs": (PodPattern(reason=Regex("Evicted"), message=Regex("disk")), None),
        "an empty name stays": (PodPattern(name=Regex("x*")), {"name": ""}),
        "an empty match is left out": (PodPattern(message=Regex("x*")), {}),
        "code": (containers(container(code=IntRange(137, 137))), {"containers": [{"code": 137}]}),
        "below": (containers(container(code=IntRange(high=136))), None),
        "open ranges": (
            containers(container(signal=IntRange(1), code=ANY_CODE)),
            {"containers": [{"signal": 9, "code": 137}]},
        ),
        "signal differs": (containers(container(signal=IntRange(10, 12))), None),
        "only the matched part": (
            containers(container(name=Regex("m..n"), reason=Regex("OOM"), message=Regex("memory"))),
            {"containers": [{"name": "main", "reason": "OOM", "message": "memory"}]},
        ),
        "reason": (containers(container(reason=Regex("Error"))), None),
        "message": (containers(container(message=Regex("disk"))), None),
        "a name needs no end": (
            containers(container(name=Regex("side"))),
            {"containers": [{"name": "side"}]},
        ),
        "a reason needs an end": (
            containers(container(name=Regex("side"), reason=Regex(".*"))),
            None,
        ),
        "a range needs an end": (containers(container(name=Regex("side"), code=ANY_CODE)), None),
        "each pattern finds some container": (
            containers(container(name=Regex("side")), container(code=IntRange(1))),
            {"containers": [{"name": "side"}, {"code": 137}]},
        ),
        "one pattern finds none": (
            containers(container(code=IntRange(1)), container(name=Regex("x"))),
            None,
        ),
        "empty container pattern": (containers(container()), {}),
    },
)
def test_rule_pattern_table(pattern: PodPattern, matched: Wire | None) -> None:
    status = complete_failed_pod(POD, [rule(pattern)])
    if matched is None:
        assert status.code == 137
        return
    assert (status.code, status.phrase, status.type) == (-1000, "Phrase1000", CUSTOM)
    text = json.dumps(matched, separators=(",", ":"))
    assert status.diagnostics == f"Pod failed: PodPattern matched: {text}"


def test_rules_first_hit_of_any_pattern_decides() -> None:
    never = PodPattern(name=Regex("never"))
    later = [rule(never, PodPattern(), code=-1002), rule(PodPattern(), code=-1003)]
    assert complete_failed_pod(POD, [rule(never, code=-1001), *later]).code == -1002


def test_rules_come_after_the_container_codes() -> None:
    assert complete_failed_pod(failed(build_ended(code=201)), [rule(PodPattern())]).code == 201


def test_rule_pattern_of_signal_0_leaves_it_out() -> None:
    pattern = containers(container(signal=IntRange(0, 0)))
    status = complete_failed_pod(failed(build_ended(code=1)), [rule(pattern)])
    assert status.diagnostics == "Pod failed: PodPattern matched: {}"


@pytest.mark.parametrize(
    ("http_code", "message", "code"),
    [
        (403, "pods is forbidden: exceeded quota: q", POD_CREATION_TRANSIENT_ERROR),
        (400, "the object provided is unrecognized", POD_CREATION_TRANSIENT_ERROR),
        (422, "exceeded quota", POD_CREATION_TRANSIENT_ERROR),
        (400, "bad", POD_CREATION_UNKNOWN_ERROR),
        (403, "violates PodSecurity", POD_CREATION_UNKNOWN_ERROR),
        (422, "invalid", POD_CREATION_PERMANENT_ERROR),
        (413, "too large", POD_CREATION_PERMANENT_ERROR),
        (401, "unauthorized", POD_CREATION_TRANSIENT_ERROR),
        (404, "namespace not found", POD_CREATION_TRANSIENT_ERROR),
        (409, "conflict", POD_CREATION_TRANSIENT_ERROR),
        (429, "too many requests", POD_CREATION_TRANSIENT_ERROR),
        (500, "internal", POD_CREATION_TRANSIENT_ERROR),
        (0, "connection refused", POD_CREATION_TRANSIENT_ERROR),
    ],
)
def test_creation_error_table(http_code: int, message: str, code: int) -> None:
    status = classify_creation_error(CreationError(http_code, message))
    assert status.code == code
    assert (status.phrase, status.type) == PREDEFINED[code]
    assert status.diagnostics == f"Failed to create Pod: {message}"
    assert status.pod is None


def test_creation_error_with_a_body_shows_the_body() -> None:
    error = CreationError(422, "invalid", '{"code":422}')
    assert classify_creation_error(error).diagnostics == 'Failed to create Pod: {"code":422}'


def test_predefined_codes_are_those_of_the_contract() -> None:
    transient, permanent, unknown = ("Transient",), ("Permanent",), ()
    assert {code: (phrase, kind.attributes) for code, (phrase, kind) in PREDEFINED.items()} == {
        0: ("Succeeded", unknown),
        -100: ("ConfigMapExternalDeleted", transient),
        -101: ("PodExternalDeleted", transient),
        -110: ("ConfigMapLocalCacheCreationTimeout", transient),
        -111: ("PodLocalCacheCreationTimeout", transient),
        -120: ("PodCreationTransientError", transient),
        -200: ("PodCreationPermanentError", permanent),
        -210: ("StopFrameworkRequested", permanent),
        -220: ("FrameworkAttemptCompletion", permanent),
        -221: ("PodLeftRunning", permanent),
        -230: ("DeleteTaskRequested", permanent),
        -240: ("FrameworkDeadlineExceeded", permanent),
        -250: ("SuspendFrameworkRequested", transient),
        -260: ("RetryTaskRequested", transient),
        -270: ("EpochStartTimeout", transient),
        -280: ("TaskLeftNode", transient),
        -300: ("PodFailedWithoutFailedContainer", unknown),
        -310: ("PodCreationUnknownError", unknown),
        200: ("ContainerTransientFailed", transient),
        201: ("ContainerTransientConflictFailed", ("Transient", "Conflict")),
        210: ("ContainerPermanentFailed", permanent),
    }
    assert [code for code, (_, kind) in PREDEFINED.items() if kind.is_succeeded] == [SUCCEEDED]
    for code in PREDEFINED:
        assert any(low <= code <= high for low, high in RESERVED_RANGES)


def test_complete_builds_without_pod_and_trigger() -> None:
    task = complete_task(DELETE_TASK_REQUESTED, "why")
    assert (task.code, task.phrase, task.diagnostics) == (-230, "DeleteTaskRequested", "why")
    framework = complete_framework(CONFIGMAP_EXTERNAL_DELETED, "gone")
    assert (framework.code, framework.phrase) == (-100, "ConfigMapExternalDeleted")
    assert framework.trigger is None

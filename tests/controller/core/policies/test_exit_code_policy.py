"""Retryable exit codes: docs/design/failure-handling.md, "Retryable exit codes"."""

import json
from collections.abc import Sequence
from typing import Any

import pytest

from controller.config.config_file import load_config
from controller.config.pod_failure import Regex
from controller.core.policies import exit_code_policy
from controller.core.policies.exit_code_policy import AGENT_CODES
from controller.core.policies.retry_policy import decide_retry
from framework.agent.exitcodes import ExitCode
from framework.agent.termination import render_termination_message
from framework.api import constants
from framework.api.completion import (
    PERMANENT,
    TRANSIENT,
    CompletionCodeRule,
    ContainerPattern,
    IntRange,
    PodPattern,
    complete_failed_pod,
)
from framework.api.pods import PodView
from framework.api.templatefacts import find_facts
from framework.api.types import (
    CompletionType,
    RetryPolicySpec,
    RetryPolicyStatus,
    TaskAttemptCompletionStatus,
)
from tests.support.builders import Wire, build_ended, build_pod, build_waiting
from tests.support.builders.cases import cases

DEFAULT = load_config(None, {}, strict=True).config.pod_failure_rules
NAME = "tensorflow"
TEMPLATE = {"metadata": {"annotations": {constants.RETRYABLE_CODES_ANNOTATION: f"{NAME}=128-255"}}}
CODES = range(1, 256)
RULES = pytest.mark.parametrize("rules", [DEFAULT, ()], ids=["default config", "no rules"])


def complete_failed(
    template: Any, pod: PodView, rules: Sequence[CompletionCodeRule]
) -> TaskAttemptCompletionStatus:
    codes = find_facts(template).retryable_codes
    return exit_code_policy.complete_failed(codes, pod, rules)


def annotate(text: str) -> Wire:
    """Build a Pod template with retryable exit codes."""
    return {"metadata": {"annotations": {constants.RETRYABLE_CODES_ANNOTATION: text}}}


def build_failed(*containers: Wire, **fields: Any) -> PodView:
    return build_pod(phase="Failed", containers=containers, **fields)


def is_retried(completion: TaskAttemptCompletionStatus) -> bool:
    """Return whether a Task of a TfJob is retried."""
    policy, status = (
        RetryPolicySpec(fancy_retry_policy=True, max_retry_count=0),
        RetryPolicyStatus(),
    )
    return decide_retry(policy, status, completion.code, completion.type).should_retry


def list_retried(rules: Any, **terminated: Any) -> list[int]:
    """List the exit codes of 1 to 255 that are retried."""
    pods = {code: build_failed(build_ended(NAME, code, **terminated)) for code in CODES}
    return [code for code in CODES if is_retried(complete_failed(TEMPLATE, pods[code], rules))]


@RULES
@pytest.mark.parametrize("reason", ["Error", "Completed", None])
def test_codes_from_128_are_retried_and_others_are_permanent(rules: Any, reason: str) -> None:
    assert list_retried(rules, reason=reason) == list(range(128, 256))


@RULES
def test_message_of_the_program_changes_nothing(rules: Any) -> None:
    for message in ("no such file", "[]", "{", "[" * 4000, '{"exitCode": "210"}', "9" * 4096):
        assert list_retried(rules, reason="Error", message=message) == list(range(128, 256))


@RULES
def test_lack_of_memory_is_permanent_with_every_code(rules: Any) -> None:
    assert list_retried(rules, reason="OOMKilled") == []


@pytest.mark.parametrize("code", CODES)
def test_completion_says_what_is_done(code: int) -> None:
    pod = build_failed(build_ended(NAME, code, reason="Error"))
    plain, completion = complete_failed_pod(pod, DEFAULT), complete_failed(TEMPLATE, pod, DEFAULT)
    wanted, other = (TRANSIENT, PERMANENT) if code >= 128 else (PERMANENT, TRANSIENT)
    assert completion.type.has_attribute(wanted)
    assert not completion.type.has_attribute(other)
    assert completion.code == code
    assert completion.pod == plain.pod
    if plain.type.has_attribute(wanted):
        assert completion == plain
    else:
        verb = "is" if wanted == TRANSIENT else "is not"
        assert completion.diagnostics == (
            f"Container tensorflow ended with exit code {code}, which {verb} retried by "
            f"frameworkbarrier.io/retryable-exit-codes=tensorflow=128-255: {plain.diagnostics}"
        )
        assert completion.phrase == (
            "ContainerExitCodeRetryable" if code >= 128 else "ContainerExitCodePermanent"
        )


def test_lack_of_memory_without_a_rule_is_named() -> None:
    pod = build_failed(build_ended(NAME, 137, reason="OOMKilled"))
    completion = complete_failed(TEMPLATE, pod, ())
    assert (completion.code, completion.phrase) == (137, "ContainerExitCodePermanent")
    assert completion.diagnostics.startswith(
        "Container tensorflow ended with exit code 137, OOMKilled, which is not retried: "
    )
    assert complete_failed(TEMPLATE, pod, DEFAULT).phrase == "ContainerDockerOOMKilled"


@cases(
    "reason code is_retried_",
    evicted=("Evicted", 1, True),
    evicted_with_an_unknown_code=("Evicted", 250, True),
    node_lost=("NodeLost", 1, True),
    preempted=("Preempting", 1, True),
    node_shut_down=("Terminated", 1, True),
    deadline=("DeadlineExceeded", 137, False),
    reason_without_a_rule=("SomethingNew", 137, True),
    reason_without_a_rule_and_a_permanent_code=("SomethingNew", 1, False),
)
def test_end_by_kubernetes_is_decided_by_the_rules(
    reason: str, code: int, *, is_retried_: bool
) -> None:
    pod = build_failed(build_ended(NAME, code, reason="Error"), reason=reason)
    assert is_retried(complete_failed(TEMPLATE, pod, DEFAULT)) is is_retried_


def test_evicted_pod_that_ran_out_of_memory_is_permanent() -> None:
    pod = build_failed(build_ended(NAME, 137, reason="OOMKilled"), reason="Evicted")
    assert not is_retried(complete_failed(TEMPLATE, pod, DEFAULT))


@cases(
    "code reason message is_retried_",
    command_not_found=(128, "StartError", "exec: no such file or directory", False),
    command_not_allowed=(128, "StartError", "permission denied", False),
    start_error_of_another_kind=(128, "StartError", "no memory", True),
    docker_without_command=(127, "ContainerCannotRun", "not found", False),
    runtime_restarted=(137, "ContainerStatusUnknown", "", True),
    runtime_restarted_with_another_code=(255, "Unknown", "", True),
)
def test_container_that_did_not_end_by_itself_is_decided_by_the_rules(
    code: int, reason: str, message: str, *, is_retried_: bool
) -> None:
    pod = build_failed(build_ended(NAME, code, reason=reason, message=message))
    assert is_retried(complete_failed(TEMPLATE, pod, DEFAULT)) is is_retried_


@cases(
    "code is_retried_",
    permanent=(ExitCode.PERMANENT, False),
    transient=(ExitCode.TRANSIENT, True),
    conflict=(ExitCode.TRANSIENT_CONFLICT, True),
    hung=(ExitCode.HUNG, True),
)
def test_code_of_an_agent_keeps_its_meaning(code: ExitCode, *, is_retried_: bool) -> None:
    fields = {"exitCode": code.value, "reason": "BadSettings", "message": "FB_PORTS: ..."}
    message = render_termination_message(fields).decode()
    pod = build_failed(build_ended(NAME, code.value, reason="Error", message=message))
    assert is_retried(complete_failed(TEMPLATE, pod, DEFAULT)) is is_retried_


@cases(
    "code attribute",
    hung_outside_the_range=(ExitCode.HUNG, None),
    fault_outside_the_range=(ExitCode.UNKNOWN, None),
    transient_outside_the_range=(ExitCode.TRANSIENT, TRANSIENT),
    permanent_inside_the_range=(ExitCode.PERMANENT, PERMANENT),
)
@pytest.mark.parametrize("text", [f"{NAME}=130-143", f"{NAME}=205-220"])
def test_end_of_an_agent_is_never_made_permanent_by_the_range(
    text: str, code: ExitCode, attribute: str | None
) -> None:
    fields = {"exitCode": code.value, "reason": "Any", "message": "x"}
    message = render_termination_message(fields).decode()
    pod = build_failed(build_ended(NAME, code.value, reason="Error", message=message))
    completion = complete_failed(annotate(text), pod, DEFAULT)
    assert completion.type.attributes == (() if attribute is None else (attribute,))
    assert completion.code == code.value


@pytest.mark.parametrize("message", ["", "no JSON"])
def test_hang_is_no_code_of_the_program_without_a_message_of_the_agent(message: str) -> None:
    pod = build_failed(build_ended(NAME, ExitCode.HUNG.value, reason="Error", message=message))
    completion = complete_failed(annotate(f"{NAME}=130-143"), pod, DEFAULT)
    assert completion.type.attributes == ()
    assert completion == complete_failed_pod(pod, DEFAULT)


@cases(
    "code message",
    another_code_than_those_of_agents=(139, '{"exitCode":139,"reason":"x"}'),
    number_of_another_type=(210, '{"exitCode":210.0,"reason":"x"}'),
    no_reason=(210, '{"exitCode":210}'),
    reason_of_another_type=(210, '{"exitCode":210,"reason":1}'),
)
def test_message_of_a_program_that_looks_like_one_of_an_agent_changes_nothing(
    code: int, message: str
) -> None:
    pod = build_failed(build_ended(NAME, code, reason="Error", message=message))
    assert is_retried(complete_failed(TEMPLATE, pod, DEFAULT))


def test_message_of_a_program_with_true_as_its_code_changes_nothing() -> None:
    pod = build_failed(build_ended(NAME, 1, message='{"exitCode":true,"reason":"x"}'))
    assert complete_failed(TEMPLATE, pod, DEFAULT).phrase == "ContainerExitCodePermanent"


@pytest.mark.parametrize("code", [1, 131, 132, 134, 135, 136, 139, 141, 210])
@cases(
    "reason phrase",
    node_shut_down=("Terminated", "PodNodeShutdown"),
    evicted=("Evicted", "PodEvicted"),
)
def test_rule_of_the_code_does_not_judge_the_end_of_a_pod(
    reason: str, phrase: str, code: int
) -> None:
    pod = build_failed(build_ended(NAME, code, reason="Error"), reason=reason)
    completion = complete_failed(TEMPLATE, pod, DEFAULT)
    assert (completion.phrase, completion.type.attributes) == (phrase, (TRANSIENT,))
    assert completion.pod == complete_failed_pod(pod, DEFAULT).pod


@cases(
    "pod",
    pod_reason_without_a_rule=build_failed(build_ended(NAME, 139), reason="SomeNewReason"),
    sidecar_of_a_lost_container=build_failed(
        build_ended(NAME, 137, reason="ContainerStatusUnknown"), build_ended("side", 210)
    ),
    sidecar_of_an_agent_that_may_try_again=build_failed(
        build_ended(NAME, 202, reason="Error"), build_ended("side", 210)
    ),
    sidecar_of_a_pod_that_was_shut_down=build_failed(
        build_ended(NAME, 1, reason="Error"), build_ended("side", 210), reason="Terminated"
    ),
)
def test_other_containers_and_codes_do_not_judge_an_end_that_the_program_did_not_choose(
    pod: PodView,
) -> None:
    assert is_retried(complete_failed(TEMPLATE, pod, DEFAULT))


def test_codes_of_agents_are_known() -> None:
    assert {code.value for code in ExitCode if code} == AGENT_CODES


def test_deadline_is_permanent_whatever_a_sidecar_says() -> None:
    ended = (build_ended(NAME, 137, reason="Error"), build_ended("side", 200))
    pod = build_failed(*ended, reason="DeadlineExceeded")
    assert not is_retried(complete_failed(TEMPLATE, pod, DEFAULT))


def test_message_of_an_agent_about_another_code_is_not_of_this_end() -> None:
    message = json.dumps({"exitCode": 201, "reason": "Timeout"})
    pod = build_failed(build_ended(NAME, 210, reason="Error", message=message))
    assert is_retried(complete_failed(TEMPLATE, pod, DEFAULT))


@cases(
    "containers is_retried_",
    sidecar_first=([build_ended("side", 1, 0), build_ended(NAME, 210, 9)], True),
    sidecar_last=([build_ended(NAME, 210, 0), build_ended("side", 1, 9)], True),
    permanent_with_a_transient_sidecar=(
        [build_ended("side", 137, 0), build_ended(NAME, 1, 9)],
        False,
    ),
    sidecar_without_memory=(
        [build_ended("side", 137, reason="OOMKilled"), build_ended(NAME, 210)],
        True,
    ),
)
def test_other_containers_do_not_count(containers: list[Wire], *, is_retried_: bool) -> None:
    assert is_retried(complete_failed(TEMPLATE, build_failed(*containers), DEFAULT)) is is_retried_


@cases(
    "pod",
    it_succeeded=build_failed(build_ended(NAME, 0), build_ended("side", 210)),
    it_has_not_started=build_failed(
        build_waiting(NAME, "PodInitializing"), init_containers=[build_ended("init", 210)]
    ),
    it_is_not_there=build_failed(build_ended("side", 210)),
    no_container=build_failed(reason="Evicted"),
)
def test_pod_without_an_end_of_the_container_is_decided_by_the_rules(pod: PodView) -> None:
    assert complete_failed(TEMPLATE, pod, DEFAULT) == complete_failed_pod(pod, DEFAULT)


@pytest.mark.parametrize("template", [None, {}, {"metadata": {"annotations": {"a": "b"}}}])
@pytest.mark.parametrize("code", CODES)
def test_pod_without_the_annotation_is_decided_by_the_rules(template: Any, code: int) -> None:
    pod = build_failed(build_ended(NAME, code, reason="Error"))
    assert complete_failed(template, pod, DEFAULT) == complete_failed_pod(pod, DEFAULT)


@cases(
    "code attribute",
    transient_rule_of_a_permanent_code=(1, TRANSIENT),
    permanent_rule_of_a_transient_code=(210, PERMANENT),
)
def test_rule_of_a_config_about_the_program_does_not_count(code: int, attribute: str) -> None:
    pattern = PodPattern(containers=(ContainerPattern(message=Regex("CUDA"), code=IntRange(1)),))
    kind = CompletionType("Failed", (attribute,))
    rules = [CompletionCodeRule(-2000, "OurRule", kind, (pattern,))]
    pod = build_failed(build_ended(NAME, code, reason="Error", message="CUDA error"))
    assert is_retried(complete_failed(TEMPLATE, pod, rules)) is (code >= 128)


def test_codes_are_those_of_the_annotation() -> None:
    template = {"metadata": {"annotations": {constants.RETRYABLE_CODES_ANNOTATION: "a=3-5"}}}
    retried = [
        code
        for code in CODES
        if is_retried(complete_failed(template, build_failed(build_ended("a", code)), DEFAULT))
    ]
    assert retried == [3, 4, 5]

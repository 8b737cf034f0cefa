"""Texts of a completion are cut to their Task's share when it is first set."""

from controller.core.status.diagnostics import cut_completion
from framework.api.types import (
    ContainerCompletionStatus,
    PodCompletionStatus,
    TaskAttemptCompletionStatus,
)


def completion(diagnostics: str, *messages: str) -> TaskAttemptCompletionStatus:
    containers = tuple(
        ContainerCompletionStatus(f"c{i}", "r" * 100, message) for i, message in enumerate(messages)
    )
    pod = PodCompletionStatus("r" * 100, "m" * 100, containers) if messages else None
    return TaskAttemptCompletionStatus(1, diagnostics=diagnostics, pod=pod)


def measure(cut: TaskAttemptCompletionStatus) -> int:
    assert cut.pod is not None
    texts = [cut.diagnostics, cut.pod.reason, cut.pod.message]
    texts += [c.reason + c.message for c in cut.pod.containers]
    return sum(len(text) for text in texts)


def test_short_texts_are_left_alone() -> None:
    short = completion("why", "message")
    assert cut_completion(short, 1) is short
    assert cut_completion(completion("why"), 10_000) == completion("why")


def test_nothing_a_kubelet_reports_is_cut_in_a_small_gang() -> None:
    # At most 12 kB of messages a Pod, of which each character may be six in the diagnostics.
    messages = ["\x01" * 4096] * 3
    whole = completion("Pod failed: " + "\\u0001" * 5_000, *messages)
    assert cut_completion(whole, 8) == whole


def test_long_diagnostics_are_cut_and_say_so() -> None:
    cut = cut_completion(completion("x" * 100_000), 64)
    assert len(cut.diagnostics) == 4096
    assert cut.diagnostics.endswith("...(cut)")


def test_texts_of_the_pod_are_cut_but_what_counts_is_kept() -> None:
    cut = cut_completion(completion("why", "x" * 100_000, "y" * 100_000), 64)
    assert measure(cut) < 5000
    assert cut.pod is not None
    assert [(c.name, c.code) for c in cut.pod.containers] == [("c0", 0), ("c1", 0)]
    assert cut.diagnostics == "why"


def test_share_shrinks_with_the_gang_down_to_a_minimum() -> None:
    def length(task_count: int) -> int:
        return len(cut_completion(completion("x" * 100_000), task_count).diagnostics)

    assert length(0) == length(1) == length(8) == 32768
    assert length(1000) == 262
    assert length(10_000) == length(5_500) == 48

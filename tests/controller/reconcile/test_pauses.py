"""The pauses between decisions, and before status writes and retries."""

from dataclasses import replace

import pytest

from controller.core.actions import Urgency
from controller.reconcile import pauses
from controller.store.entry import Entry
from controller.store.outcomes import Refusal
from tests.support.builders import build_framework

NOW = 1000.0


def build_entry() -> Entry:
    entry = Entry("default", "gang")
    show(entry, generation=1)
    return entry


def show(entry: Entry, generation: int) -> None:
    """Put a Framework of this generation into an entry."""
    framework = build_framework()
    metadata = replace(framework.metadata, uid="uid", resource_version="7", generation=generation)
    entry.observed.framework = replace(framework, metadata=metadata)


@pytest.mark.parametrize(
    ("spent", "write_seconds", "pause"),
    [(0.002, 0.04, 0.01), (0.02, 0.04, 0.08), (0.001, 9.0, 0.1), (0.001, 0.0, -NOW)],
    ids=["slow-writes", "slow-decision", "bounded", "too-short"],
)
def test_pause_after_a_decision_follows_its_cost_and_that_of_a_write(
    spent: float, write_seconds: float, pause: float
) -> None:
    entry = build_entry()
    pauses.pause_after_decision(entry, spent, write_seconds, NOW)
    assert pauses.find_pause(entry, NOW) == pytest.approx(pause)


def test_shorter_pause_does_not_shorten_a_longer_one() -> None:
    entry = build_entry()
    pauses.pause_after_decode(entry, 0.1, NOW)
    pauses.pause_after_decision(entry, 0.002, 0.0, NOW)
    assert pauses.find_pause(entry, NOW) == pytest.approx(0.4)


def test_pause_after_a_refused_status_grows_and_ends_with_a_change_of_the_spec() -> None:
    entry = build_entry()
    entry.outcomes.refusal = Refusal("uid", 1, "too large")
    waits = []
    for _ in range(8):
        pauses.pause_after_refusal(entry, NOW)
        waits.append(pauses.find_pause(entry, NOW))
    assert waits == [1, 2, 4, 8, 16, 32, 60, 60]
    show(entry, generation=2)
    assert pauses.find_pause(entry, NOW) == 0


def test_stored_status_ends_the_pause_after_refused_ones() -> None:
    entry = build_entry()
    pauses.pause_after_refusal(entry, NOW)
    pauses.end_refusal(entry)
    assert pauses.find_pause(entry, NOW) <= 0


@pytest.mark.parametrize(
    ("urgency", "decision_seconds", "wait"),
    [(Urgency.SOON, 0.0, 0.1), (Urgency.LATER, 0.0, 0.25), (Urgency.LATER, 0.2, 1.0)],
    ids=["soon", "later", "costly-decision"],
)
def test_change_that_only_informs_waits_for_later_changes(
    urgency: Urgency, decision_seconds: float, wait: float
) -> None:
    entry = build_entry()
    entry.pacing.changed_at, entry.pacing.decision_seconds = NOW, decision_seconds
    assert pauses.find_coalescing_seconds(entry, urgency, NOW) == pytest.approx(wait)
    assert pauses.find_coalescing_seconds(entry, urgency, NOW + wait + 0.01) < 0


def test_retries_wait_longer_each_time() -> None:
    entry = build_entry()
    waits = [pauses.next_retry_seconds(entry) for _ in range(8)]
    assert waits == pytest.approx([0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 10])

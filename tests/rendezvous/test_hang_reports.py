"""Reports and answers of agents as lines: their length, and what is none."""

import json

from hypothesis import given
from hypothesis import strategies as st

from rendezvous.core.hangs.reports import (
    MAX_NAMED,
    MAX_PROCESSES,
    AgentReport,
    Answer,
    ProcessReport,
    decode_answer,
    decode_report,
    encode_answer,
    encode_report,
)
from rendezvous.site.peers.barriers.protocol import MAX_LINE_BYTES
from tests.rendezvous.watchedgangs import Gang


def test_lines_of_the_largest_gang_fit() -> None:
    gang = Gang(count=1000)
    gang.step()
    gang.changed = [gang.now - 60.0] * 1000
    gang.let_pass(2.0)
    verdicts = gang.let_pass(12.0)
    assert verdicts[0].behind_count == 1000
    assert len(verdicts[0].behind) == MAX_NAMED
    longest = "r" * 63
    names = (f"{longest}/9999 rank 99999",) * MAX_NAMED
    named = verdicts[0]._replace(
        behind=names, waiting=names, acting=((longest, 9999, "f" * 16),) * MAX_NAMED
    )
    assert len(json.dumps(encode_answer(Answer(1, named)))) < MAX_LINE_BYTES - 500
    process = ProcessReport(
        10**6, 10**9, 10**9, 10**6, 10**6, stack="f" * 32, busy_seconds=10**4 + 0.123456
    )
    report = AgentReport((10**6, 10**6), 10**6, (process,) * 32)
    assert len(encode_report(report)["processes"]) == MAX_PROCESSES
    assert len(json.dumps(encode_report(report))) < MAX_LINE_BYTES - 400
    garbage = report._replace(processes=(process._replace(step=2**62 - 1, total=2**62 - 1),) * 32)
    assert len(json.dumps(encode_report(garbage))) < MAX_LINE_BYTES - 400


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=8) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=12,
)


@given(JSON, JSON, JSON)
def test_anything_else_is_refused(run: object, answered: object, processes: object) -> None:
    for decode, wire in (
        (decode_report, {"run": run, "answered": answered, "processes": processes}),
        (decode_answer, {"ask": answered, "verdict": processes}),
    ):
        try:
            decoded = decode(wire)
        except (ValueError, TypeError, KeyError):
            continue
        assert isinstance(decoded, (AgentReport, Answer))

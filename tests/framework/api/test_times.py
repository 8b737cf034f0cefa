"""Times of the wire: what is read, what is refused, and the form in which they are written."""

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given

from framework.api import codec
from framework.api.wire import format_time, parse_time
from tests.framework.api.test_codec import faults
from tests.support.builders import AT, build_status_wire, strategies


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("2026-01-01T00:00:00Z", AT),
        ("2026-01-01T01:30:00+01:30", AT),
        ("2025-12-31T19:00:00-05:00", AT),
        ("2026-01-01T00:00:00.999999Z", AT),
        ("2026-01-01T00:00:00.123456789Z", AT),
        ("0001-01-01T00:00:00Z", datetime(1, 1, 1, tzinfo=UTC)),
        ("9999-12-31T23:59:59Z", datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)),
    ],
)
def test_parse_time_table(text: str, moment: datetime) -> None:
    assert parse_time(text) == moment
    assert parse_time(text).tzinfo is UTC


@pytest.mark.parametrize(
    "text",
    [
        "",
        "now",
        "2026-01-01",
        "2026-01-01T00:00:00",
        "2026-13-01T00:00:00Z",
        "2026-01-01T25:00:00Z",
        "9999-12-31T23:59:59-01:00",
        "0001-01-01T00:00:00+01:00",
        "10000-01-01T00:00:00Z",
        "2026-01-01T00:00:00\ud800",
    ],
)
def test_time_that_is_none_is_a_fault(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        parse_time(text)
    wire = build_status_wire() | {"startTime": text}
    assert list(faults(codec.decode_status, wire)) == ["status.startTime"]


def test_time_of_another_type_is_a_fault() -> None:
    wire = build_status_wire() | {"startTime": 5}
    message = "must be an RFC 3339 time, not number 5"
    assert faults(codec.decode_status, wire) == {"status.startTime": message}


@given(strategies.times)
def test_time_formatted_and_parsed_is_the_same(moment: datetime) -> None:
    assert parse_time(format_time(moment)) == moment


def test_format_time_is_utc_with_four_digits_of_year() -> None:
    assert format_time(datetime(1, 2, 3, tzinfo=UTC)) == "0001-02-03T00:00:00Z"
    east = timezone(timedelta(hours=2))
    assert format_time(datetime(2026, 1, 1, 2, tzinfo=east)) == "2026-01-01T00:00:00Z"

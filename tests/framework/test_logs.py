"""framework.logs: one line per record, extra keys rendered, no secret written."""

import io
import json
import logging

import pytest

from framework.logs import REDACTED, LogFormat, configure_logging

logger = logging.getLogger("framework.test")


def write(log_format: str, message: str, extra: dict[str, object], **kwargs: bool) -> str:
    stream = io.StringIO()
    configure_logging(log_format, "info", stream)
    logger.info(message, extra=extra, **kwargs)
    return stream.getvalue()


def test_text_line_with_extra_has_them_as_key_value() -> None:
    line = write("text", "decided", {"framework": "ns/gang", "reason": "two words", "count": 3})
    assert line.endswith(
        'INFO    framework.test: decided framework=ns/gang reason="two words" count=3\n'
    )
    assert line[10] == "T"
    assert line[23] == "Z"


@pytest.mark.parametrize(
    ("value", "rendered"),
    [("", 'key=""'), ("a=b", 'key="a=b"'), ("a\nb", 'key="a\\nb"'), (None, "key=None")],
)
def test_text_value_that_could_be_misread_is_quoted(value: object, rendered: str) -> None:
    assert write("text", "m", {"key": value}).rstrip("\n").endswith(rendered)


def test_text_message_with_line_ends_stays_one_line() -> None:
    assert write("text", "first\nsecond\r", {}).count("\n") == 1


def test_text_structured_value_is_left_to_json() -> None:
    assert "snapshot" not in write("text", "m", {"snapshot": {"a": 1}})
    assert json.loads(write("json", "m", {"snapshot": {"a": 1}}))["snapshot"] == {"a": 1}


def test_json_line_has_fixed_and_extra_members() -> None:
    entry = json.loads(write("json", "decided", {"attempt": 2, "at": object}))
    assert entry["message"] == "decided"
    assert entry["level"] == "INFO"
    assert entry["logger"] == "framework.test"
    assert entry["attempt"] == 2
    assert "class" in entry["at"]


@pytest.mark.parametrize("log_format", list(LogFormat))
def test_secret_by_key_or_form_is_redacted(log_format: LogFormat) -> None:
    secret = "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJ4In0.c2lnbmF0dXJl"
    line = write(
        log_format,
        f"sent Authorization: Bearer {secret}",
        {
            "api_token": "s3cret-value",
            "url": f"https://h/?x={secret}",
            "env": {"PASSWORD": "hunter2"},
        },
    )
    assert REDACTED in line
    for leaked in (secret, "s3cret-value", "hunter2"):
        assert leaked not in line


@pytest.mark.parametrize("log_format", list(LogFormat))
def test_exception_is_written_with_its_traceback(log_format: LogFormat) -> None:
    stream = io.StringIO()
    configure_logging(log_format, "INFO", stream)
    try:
        raise KeyError("lost")
    except KeyError:
        logger.exception("failed")
    assert "KeyError: 'lost'" in stream.getvalue()
    assert "Traceback" in stream.getvalue()


def test_level_below_the_least_is_not_written() -> None:
    stream = io.StringIO()
    configure_logging("text", "warning", stream)
    logger.info("quiet")
    logger.warning("loud")
    assert stream.getvalue().count("\n") == 1


def test_second_call_replaces_the_first() -> None:
    first, second = io.StringIO(), io.StringIO()
    configure_logging("text", "INFO", first)
    configure_logging("text", "INFO", second)
    logger.info("once")
    assert first.getvalue() == ""
    assert second.getvalue().count("\n") == 1


@pytest.mark.parametrize(("log_format", "level"), [("xml", "INFO"), ("text", "LOUD")])
def test_unknown_format_or_level_is_refused(log_format: str, level: str) -> None:
    with pytest.raises(ValueError, match=r"xml|LOUD"):
        configure_logging(log_format, level)

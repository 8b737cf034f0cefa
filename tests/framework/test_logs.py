import io
import json
import logging

import pytest

from framework.api.text import is_printable
from framework.logs import (
    MESSAGE_LIMIT_BYTES,
    REDACTED,
    TRACE_LIMIT_BYTES,
    VALUE_LIMIT_BYTES,
    LogFormat,
    configure_logging,
)
from tests.support.measuring.cost import assert_costs_at_most

logger = logging.getLogger("framework.test")


HOSTILE = "\x1b]52;c;aGk=\x07\x9b31m\u202e\u200b\ud800\u2028\r\n\x00\x7f"
FORMATS = pytest.mark.parametrize("log_format", list(LogFormat))


def write(log_format: str, message: str, extra: dict[str, object] | None = None) -> str:
    stream = io.StringIO()
    configure_logging(log_format, "info", stream)
    logger.info(message, extra=extra)
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


@FORMATS
@pytest.mark.parametrize(
    "text",
    [
        "Authorization: Bearer s3cretvalue",
        "authorization: basic s3cretvalue",
        "eyJhbGciOiJSUzI1NiJ9.eyJs3cretvalue.s3cretvalue",
        "eyJhbGciOiJs3cretvalue",
        "https://user:s3cretvalue@host:443/x",
        "http://127.0.0.1:1/token/s3cretvalue/api/v1",
    ],
)
def test_secret_by_key_or_form_is_redacted(log_format: LogFormat, text: str) -> None:
    line = write(log_format, f"sent {text} twice", {"value": text, "deep": [{"a": text}]})
    assert "s3cretvalue" not in line
    assert REDACTED in line
    assert "twice" in line
    keyed = write(log_format, "m", {"api_token": "s3cret", "env": {"PASSWORD": "hunter2"}})
    assert "s3cret" not in keyed
    assert "hunter2" not in keyed


@FORMATS
def test_exception_is_written_with_its_traceback_printable_and_bounded(
    log_format: LogFormat,
) -> None:
    stream = io.StringIO()
    configure_logging(log_format, "INFO", stream)
    for error in KeyError("lost"), ValueError(HOSTILE + "a" * 10**6 + "the end"):
        try:
            raise error
        except (KeyError, ValueError):
            logger.exception("failed")
    text = stream.getvalue()
    assert "KeyError: 'lost'" in text
    assert "Traceback" in text
    assert is_printable(text.replace("\n", ""))
    assert len(text) < TRACE_LIMIT_BYTES + 2000
    assert "the end" in text


def test_second_call_replaces_stream_and_level_of_the_first() -> None:
    first, second = io.StringIO(), io.StringIO()
    configure_logging("text", "INFO", first)
    configure_logging("text", "warning", second)
    logger.info("quiet")
    logger.warning("loud")
    assert first.getvalue() == ""
    assert second.getvalue().count("\n") == 1


@pytest.mark.parametrize(("log_format", "level"), [("xml", "INFO"), ("text", "LOUD")])
def test_unknown_format_or_level_is_refused(log_format: str, level: str) -> None:
    with pytest.raises(ValueError, match=r"xml|LOUD"):
        configure_logging(log_format, level)


@FORMATS
def test_hostile_text_is_one_printable_line(log_format: LogFormat) -> None:
    line = write(log_format, HOSTILE, {"value": HOSTILE, HOSTILE: "x", "list": [{HOSTILE: 1}]})
    assert line.endswith("\n")
    assert is_printable(line[:-1])
    line.encode()


@FORMATS
def test_large_message_and_value_are_cut_with_a_mark(log_format: LogFormat) -> None:
    line = write(log_format, "m" * 10**6, {"value": "v" * 10**6})
    assert len(line) < MESSAGE_LIMIT_BYTES + VALUE_LIMIT_BYTES + 1000
    assert line.count("...(cut, 1000000 characters)") == 2


def test_large_structure_is_bounded() -> None:
    line = write(LogFormat.JSON, "m", {"value": [{"a": ["b"] * 100}] * 10_000, "after": "x"})
    assert len(line) < 10**6
    assert json.loads(line)["after"] == "x"


@FORMATS
@pytest.mark.parametrize(
    "unit", ["eyJ", "eyJaaaaaaaaaaa", "eyJaaaaaaaaa.", "bearer ", "://", "://a:b", "/token/", '"\\']
)
def test_cost_of_a_line_does_not_grow_with_the_text(log_format: LogFormat, unit: str) -> None:
    """A Pod with a 200 kB argument of ``eyJ`` once held the controller for 100 s."""

    text = unit * (4_000_000 // len(unit))
    assert_costs_at_most(2.0, lambda: write(log_format, text, {"value": text}))


def test_line_that_cannot_be_rendered_is_replaced_without_its_arguments(
    capsys: pytest.CaptureFixture[str],
) -> None:
    class Broken:
        def __str__(self) -> str:
            raise RuntimeError("s3cret")

    line = write(LogFormat.TEXT, "m", {"value": Broken(), "other": "s3cret"})
    assert line == "a line of the log is lost: framework.test: RuntimeError\n"
    assert "s3cret" not in capsys.readouterr().err

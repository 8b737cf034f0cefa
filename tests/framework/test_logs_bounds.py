"""framework.logs: bounded, printable lines, whatever goes into them."""

import io
import json
import logging

import pytest

from framework.api.text import is_printable
from framework.logs import (
    MESSAGE_LIMIT_BYTES,
    TRACE_LIMIT_BYTES,
    VALUE_LIMIT_BYTES,
    LogFormat,
    configure_logging,
)
from tests.support.measuring.cost import assert_costs_at_most

logger = logging.getLogger("framework.test")
HOSTILE = "\x1b]52;c;aGk=\x07\x9b31m\u202e\u200b\ud800\u2028\r\n\x00\x7f"


def write(log_format: LogFormat, message: str, extra: dict[str, object] | None = None) -> str:
    stream = io.StringIO()
    configure_logging(log_format, "info", stream)
    logger.info(message, extra=extra)
    return stream.getvalue()


@pytest.mark.parametrize("log_format", list(LogFormat))
def test_hostile_text_is_one_printable_line(log_format: LogFormat) -> None:
    line = write(log_format, HOSTILE, {"value": HOSTILE, HOSTILE: "x", "list": [{HOSTILE: 1}]})
    assert line.endswith("\n")
    assert is_printable(line[:-1])
    line.encode()


@pytest.mark.parametrize("log_format", list(LogFormat))
def test_hostile_exception_is_printable(log_format: LogFormat) -> None:
    stream = io.StringIO()
    configure_logging(log_format, "INFO", stream)
    try:
        raise ValueError(HOSTILE + "a" * 10**6 + "the end")
    except ValueError:
        logger.exception("failed")
    text = stream.getvalue()
    assert is_printable(text.replace("\n", ""))
    assert len(text) < TRACE_LIMIT_BYTES + 1000
    assert "the end" in text


@pytest.mark.parametrize("log_format", list(LogFormat))
def test_large_message_and_value_are_cut_with_a_mark(log_format: LogFormat) -> None:
    line = write(log_format, "m" * 10**6, {"value": "v" * 10**6})
    assert len(line) < MESSAGE_LIMIT_BYTES + VALUE_LIMIT_BYTES + 1000
    assert line.count("...(cut, 1000000 characters)") == 2


def test_large_structure_is_bounded() -> None:
    line = write(LogFormat.JSON, "m", {"value": [{"a": ["b"] * 100}] * 10_000, "after": "x"})
    assert len(line) < 10**6
    assert json.loads(line)["after"] == "x"


@pytest.mark.parametrize("log_format", list(LogFormat))
@pytest.mark.parametrize(
    "unit", ["eyJ", "eyJaaaaaaaaaaa", "eyJaaaaaaaaa.", "bearer ", "://", "://a:b", "/token/", '"\\']
)
def test_cost_of_a_line_does_not_grow_with_the_text(log_format: LogFormat, unit: str) -> None:
    """A Pod with a 200 kB argument of ``eyJ`` once held the controller for 100 s."""

    text = unit * (4_000_000 // len(unit))
    assert_costs_at_most(2.0, lambda: write(log_format, text, {"value": text}))


@pytest.mark.parametrize("log_format", list(LogFormat))
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
def test_secret_by_form_is_redacted(log_format: LogFormat, text: str) -> None:
    line = write(log_format, f"sent {text} twice", {"value": text, "deep": [{"a": text}]})
    assert "s3cretvalue" not in line
    assert "twice" in line


def test_line_that_cannot_be_rendered_is_lost_without_its_arguments(
    capsys: pytest.CaptureFixture[str],
) -> None:
    class Broken:
        def __str__(self) -> str:
            raise RuntimeError("s3cret")

    line = write(LogFormat.TEXT, "m", {"value": Broken(), "other": "s3cret"})
    assert line == "a line of the log is lost: framework.test: RuntimeError\n"
    assert "s3cret" not in capsys.readouterr().err

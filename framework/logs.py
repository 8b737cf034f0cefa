"""Sets up the logging of a program, once, at its start.

Other modules call ``logging.getLogger(__name__)`` and log a constant message with ``extra={...}``.
This module renders the extra keys: as ``key=value`` in text, as members of the object in JSON.

Values are untrusted. Each text is cut, values that look like secrets by key or form are replaced,
and the rest is escaped. So time and length of a line are bounded. docs/operations.md has the
limits.
"""

import json
import logging
import re
import sys
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, TextIO

from framework.api.text import cut_text, is_printable, make_printable

REDACTED = "[redacted]"
MESSAGE_LIMIT_BYTES = 288 * 1024
"""More than an object snapshot (``controller.core.history``), which must stay complete JSON."""
VALUE_LIMIT_BYTES = 8 * 1024
"""Limit of each value, also inside of structured values."""
MEMBERS_LIMIT = 20_000
"""Limit of the values in all structured values of a record."""
TRACE_LIMIT_BYTES = 32 * 1024
_TRACE_HEAD_BYTES = 8 * 1024
_SECRET_KEY = re.compile(
    r"token|password|secret|authorization|credential|private_key", re.IGNORECASE
)
_KEY_LIMIT = 200
# Each pattern takes linear time: the text after its mark always matches, or fails within a few
# characters, and the scanned text contains no mark (tests/security/test_regular_expressions.py).
_SECRET_FORMS = (
    (re.compile(r"((?i:bearer |authorization: basic ))[A-Za-z0-9._~+/=-]{8,}"), rf"\1{REDACTED}"),
    # A JSON Web Token: its first part is an object in base64.
    (re.compile(r"eyJ[A-Za-z0-9_-]{8,}(?:\.[A-Za-z0-9_-]*){0,2}"), REDACTED),
    # The user and password of a URL.
    (re.compile(r"://[^\s/@]*@"), f"://{REDACTED}@"),
    # The token in the address of a local cluster.
    (re.compile(r"/token/[^\s/?#\"']+"), f"/token/{REDACTED}"),
)
# Every text that a pattern finds contains one of these marks.
_SECRET_MARKS = ("bearer ", "authorization: basic ", "eyj", "://", "/token/")
_STRUCTURED = (Mapping, list, tuple, set, frozenset)
_PLAIN_VALUE = re.compile(r"[^\s\"'=]+\Z")
# The attributes of every record; all other attributes are from ``extra``.
_RECORD_ATTRIBUTES = frozenset(
    {*logging.LogRecord("", 0, "", 0, "", (), None).__dict__, "message", "asctime", "taskName"}
)


class LogFormat(StrEnum):
    """The format of log lines."""

    TEXT = "text"
    """``TIME LEVEL LOGGER: MESSAGE key=value ...``."""
    JSON = "json"
    """A JSON object per line."""


def configure_logging(
    log_format: LogFormat | str = LogFormat.TEXT,
    level: str = "INFO",
    stream: TextIO | None = None,
) -> None:
    """Write all logs of this program to a stream; a second call replaces the first.

    Args:
        log_format: text or json.
        level: name of the lowest level that is written, in upper or lower case.
        stream: the stream; None for standard error.

    Raises:
        ValueError: the format or the level is unknown.
    """
    formatter = JsonFormatter() if LogFormat(log_format) is LogFormat.JSON else TextFormatter()
    handler = _Handler(sys.stderr if stream is None else stream)
    handler.setFormatter(formatter)
    root = logging.getLogger()
    root.setLevel(level.upper())
    root.handlers[:] = [handler]
    logging.captureWarnings(capture=True)
    # No log line per request: metrics count requests.
    logging.getLogger("aiohttp.access").setLevel(logging.WARNING)


class _Handler(logging.StreamHandler[TextIO]):
    """Reports a lost line without its arguments, which the report of Python would print."""

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 the name is Python's
        """Write the position of the log call and the error."""
        try:
            cause = type(sys.exc_info()[1]).__name__
            self.stream.write(f"a line of the log is lost: {record.name}: {cause}\n")
        except (OSError, ValueError):
            return


class TextFormatter(logging.Formatter):
    """Formats a record as one line of text; a traceback takes more lines."""

    def format(self, record: logging.LogRecord) -> str:
        """Render the record with its extra keys; structured values as JSON."""
        message = make_printable(_render_message(record))
        parts = [f"{_render_time(record)} {record.levelname:<7} {record.name}: {message}"]
        parts.extend(
            f"{make_printable(key[:_KEY_LIMIT])}={_render_value(_render_scalar(key, value))}"
            for key, value in _walk_extra(record)
            if not isinstance(value, _STRUCTURED)
        )
        line = " ".join(parts)
        trace = make_printable(_render_trace(self, record), keep="\n\t")
        return f"{line}\n{trace}" if trace else line


class JsonFormatter(logging.Formatter):
    """Formats a record as a JSON object, with values of any type."""

    def format(self, record: logging.LogRecord) -> str:
        """Render the record: fixed keys first, then the extra ones."""
        entry: dict[str, Any] = {
            "time": _render_time(record),
            "level": record.levelname,
            "logger": record.name,
            "message": _render_message(record),
        }
        entry.update({k: v for k, v in collect_extra(record).items() if k not in entry})
        trace = _render_trace(self, record)
        if trace:
            entry["exception"] = trace
        line = json.dumps(entry, ensure_ascii=False)
        return line if is_printable(line) else json.dumps(entry)


def collect_extra(record: logging.LogRecord) -> dict[str, Any]:
    """Collect the ``extra`` of a record in order, bounded, with secrets replaced."""
    budget = _Budget()
    return {key: budget.render(key, value) for key, value in _walk_extra(record)}


class _Budget:
    """Renders the values of a record up to a limit."""

    def __init__(self) -> None:
        self._members_left = MEMBERS_LIMIT

    def render(self, key: str, value: Any) -> Any:
        """Convert a value to JSON types; values beyond the limit are left out."""
        self._members_left -= 1
        if _is_secret(key):
            return REDACTED
        if isinstance(value, Mapping):
            members = self._take(value.items())
            return {_render_text(str(k)): self.render(str(k), v) for k, v in members}
        if isinstance(value, list | tuple | set | frozenset):
            return [self.render("", member) for member in self._take(value)]
        return _render_scalar(key, value)

    def _take(self, members: Any) -> Iterator[Any]:
        for member in members:
            if self._members_left <= 0:
                return
            yield member


def _walk_extra(record: logging.LogRecord) -> Iterator[tuple[str, Any]]:
    return (item for item in record.__dict__.items() if item[0] not in _RECORD_ATTRIBUTES)


def _is_secret(key: str) -> bool:
    return _SECRET_KEY.search(key[:_KEY_LIMIT]) is not None


def _render_scalar(key: str, value: Any) -> Any:
    """Convert a value without members; a type that JSON lacks becomes text."""
    if _is_secret(key):
        return REDACTED
    is_plain = value is None or isinstance(value, bool | int | float)
    return value if is_plain else _render_text(str(value))


def _render_text(text: str) -> str:
    return _redact(cut_text(text, VALUE_LIMIT_BYTES))


def _render_message(record: logging.LogRecord) -> str:
    return _redact(cut_text(record.getMessage(), MESSAGE_LIMIT_BYTES))


def _redact(text: str) -> str:
    lowered = text.lower()
    if not any(mark in lowered for mark in _SECRET_MARKS):
        return text
    for pattern, replacement in _SECRET_FORMS:
        text = pattern.sub(replacement, text)
    return text


def _render_time(record: logging.LogRecord) -> str:
    at = datetime.fromtimestamp(record.created, UTC)
    return at.strftime("%Y-%m-%dT%H:%M:%S.") + f"{at.microsecond // 1000:03d}Z"


def _render_value(value: Any) -> str:
    text = str(value)
    if _PLAIN_VALUE.match(text) and is_printable(text):
        return text
    return make_printable(json.dumps(text, ensure_ascii=False))


def _render_trace(formatter: logging.Formatter, record: logging.LogRecord) -> str:
    parts = []
    if record.exc_info:
        parts.append(formatter.formatException(record.exc_info))
    if record.stack_info:
        parts.append(formatter.formatStack(record.stack_info))
    return _redact(_cut_middle("\n".join(parts)))


def _cut_middle(trace: str) -> str:
    """Cut the middle of a traceback; its last line has the error."""
    if len(trace) * 4 <= TRACE_LIMIT_BYTES:
        return trace
    head = cut_text(trace, _TRACE_HEAD_BYTES)
    return f"{head}\n{trace[-(TRACE_LIMIT_BYTES - _TRACE_HEAD_BYTES) // 4 :]}"

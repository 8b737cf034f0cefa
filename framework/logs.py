"""Sets up logging, once, for every program.

Called by the programs' entry points. Everybody else only does ``logging.getLogger(__name__)`` and
logs a constant message with ``extra={...}``; this module renders the extra keys, as ``key=value``
in text and as members of the object in JSON. What looks like a secret by its key or its form is
never written.
"""

import json
import logging
import re
import sys
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, TextIO

REDACTED = "[redacted]"
_SECRET_KEY = re.compile(
    r"token|password|secret|authorization|credential|private_key", re.IGNORECASE
)
_SECRET_TEXT = re.compile(
    r"(?P<scheme>bearer |authorization: basic )[A-Za-z0-9._~+/=-]{8,}"
    r"|eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]*",
    re.IGNORECASE,
)
# One of them is in every text the pattern finds.
_SECRET_MARKS = ("bearer ", "authorization: basic ", "eyj")
_STRUCTURED = (Mapping, list, tuple, set, frozenset)
_PLAIN_VALUE = re.compile(r"[^\s\"'=]+\Z")
# What every record has; all other attributes came through ``extra``.
_RECORD_ATTRIBUTES = frozenset(
    {*logging.LogRecord("", 0, "", 0, "", (), None).__dict__, "message", "asctime", "taskName"}
)


class LogFormat(StrEnum):
    """How a line of the log is written."""

    TEXT = "text"
    """For people: ``TIME LEVEL LOGGER: MESSAGE key=value ...``."""
    JSON = "json"
    """For collectors: one object a line."""


def configure_logging(
    log_format: LogFormat | str = LogFormat.TEXT,
    level: str = "INFO",
    stream: TextIO | None = None,
) -> None:
    """Send all logs of this program to one stream; a second call replaces the first.

    Args:
        log_format: text or json.
        level: the least level that is written, by its name, in any case.
        stream: where to; standard error if None.

    Raises:
        ValueError: there is no such format or level.
    """
    formatter = JsonFormatter() if LogFormat(log_format) is LogFormat.JSON else TextFormatter()
    handler = logging.StreamHandler(sys.stderr if stream is None else stream)
    handler.setFormatter(formatter)
    root = logging.getLogger()
    root.setLevel(level.upper())
    root.handlers[:] = [handler]
    logging.captureWarnings(capture=True)
    # One line per request is for the server's own metrics, not for the log.
    logging.getLogger("aiohttp.access").setLevel(logging.WARNING)


class TextFormatter(logging.Formatter):
    """One line for people; only a traceback takes more."""

    def format(self, record: logging.LogRecord) -> str:
        """Render the record with its extra keys; structured values are left to JSON."""
        message = _escape_line_ends(_redact_text(record.getMessage()))
        parts = [f"{_render_time(record)} {record.levelname:<7} {record.name}: {message}"]
        parts.extend(
            f"{key}={_render_value(_redact(key, value))}"
            for key, value in _walk_extra(record)
            if not isinstance(value, _STRUCTURED)
        )
        line = " ".join(parts)
        trace = _render_trace(self, record)
        return f"{line}\n{trace}" if trace else line


class JsonFormatter(logging.Formatter):
    """One JSON object a line, whatever the values are."""

    def format(self, record: logging.LogRecord) -> str:
        """Render the record: fixed keys first, then the extra ones."""
        entry: dict[str, Any] = {
            "time": _render_time(record),
            "level": record.levelname,
            "logger": record.name,
            "message": _redact_text(record.getMessage()),
        }
        entry.update({k: v for k, v in collect_extra(record).items() if k not in entry})
        trace = _render_trace(self, record)
        if trace:
            entry["exception"] = trace
        return json.dumps(entry, ensure_ascii=False, default=str)


def collect_extra(record: logging.LogRecord) -> dict[str, Any]:
    """Collect what was given as ``extra``, secrets replaced, in the order it was given."""
    return {key: _redact(key, value) for key, value in _walk_extra(record)}


def _walk_extra(record: logging.LogRecord) -> Iterator[tuple[str, Any]]:
    return (item for item in record.__dict__.items() if item[0] not in _RECORD_ATTRIBUTES)


def _redact(key: str, value: Any) -> Any:
    if _SECRET_KEY.search(key):
        return REDACTED
    if isinstance(value, Mapping):
        return {name: _redact(str(name), member) for name, member in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_redact("", member) for member in value]
    return _redact_text(value) if isinstance(value, str) else value


def _redact_text(text: str) -> str:
    # A line may be a whole Pod, and the pattern is slow.
    lowered = text.lower()
    if not any(mark in lowered for mark in _SECRET_MARKS):
        return text
    return _SECRET_TEXT.sub(lambda found: (found["scheme"] or "") + REDACTED, text)


def _render_time(record: logging.LogRecord) -> str:
    at = datetime.fromtimestamp(record.created, UTC)
    return at.strftime("%Y-%m-%dT%H:%M:%S.") + f"{at.microsecond // 1000:03d}Z"


def _render_value(value: Any) -> str:
    text = str(value)
    return text if _PLAIN_VALUE.match(text) else json.dumps(text, ensure_ascii=False)


def _render_trace(formatter: logging.Formatter, record: logging.LogRecord) -> str:
    parts = []
    if record.exc_info:
        parts.append(formatter.formatException(record.exc_info))
    if record.stack_info:
        parts.append(formatter.formatStack(record.stack_info))
    return _redact_text("\n".join(parts))


def _escape_line_ends(text: str) -> str:
    return text.replace("\r", "\\r").replace("\n", "\\n")

"""Writes records of ``logging`` as JSON, one object in each line, with the tags of their Pod.

Only handlers that write to stdout or stderr are changed. All other output of a program stays as it
is: output of print(), tracebacks of uncaught exceptions, log files.

1. ``StreamHandler.emit`` is replaced, so it does not matter when the program configures logging, or
   how. Filters and levels of the program decide as before.
2. A record whose line would be longer than 4096 bytes becomes several lines with ``part`` and
   ``parts``. A pipe takes a write of this size at once, so that lines of several processes do not
   mix. Nothing is cut.
3. A record that cannot be rendered is written as without this module.

A formatter of the program's own class may hide secrets, so it renders the text of ``message``. A
plain ``logging.Formatter`` is not used: its parts are members of the object.
"""

import json
import logging
import os
import time
from typing import Any, Dict, Iterator, List, Tuple

MAX_LINE_BYTES = 4096
# A character takes at most 12 bytes: two escapes of 6. The other members take the rest.
_CHUNK_CHARACTERS = 128
_PLAIN_CHUNK_CHARACTERS = 1536
_MAX_LEVEL_CHARACTERS = 16
_MAX_LOGGER_CHARACTERS = 128
_MAX_TAG_CHARACTERS = 63
_CONSOLE = (1, 2)
# Variables of a Pod -> members of each line.
_TAGS = (
    ("FC_FRAMEWORK_NAME", "job"),
    ("FC_TASKROLE_NAME", "replicaType"),
    ("FC_TASK_INDEX", "index"),
    ("FC_TASK_ATTEMPT_ID", "attempt"),
    ("FC_FRAMEWORK_ATTEMPT_ID", "jobAttempt"),
)
_NUMBERS = ("index", "attempt", "jobAttempt")
# The attributes of every record; all others came through ``extra``.
_KNOWN = frozenset(logging.LogRecord("", 0, "", 0, "", (), None).__dict__) | {
    "message",
    "asctime",
    "taskName",
}
_emit_text = logging.StreamHandler.emit


def install() -> None:
    """Write all records that go to stdout or stderr as JSON; a second call changes nothing."""
    setattr(logging.StreamHandler, "emit", _emit)  # noqa: B010  # mypy refuses the assignment


def render_lines(handler: Any, record: logging.LogRecord) -> List[str]:
    """Render a record as lines of at most 4096 bytes, each with its line feed."""
    is_utf8 = "utf8" in str(getattr(handler.stream, "encoding", "")).lower().replace("-", "")
    entry = {**_render_head(record), **_read_tags()}
    texts = list(_walk_texts(handler, record))
    whole = {name: _decode(text) if name == "extra" else text for name, text in texts}
    line = _encode({**entry, **whole}, is_utf8)
    if len(line.encode("utf-8")) < MAX_LINE_BYTES:
        return [line + "\n"]
    parts = [(name, part) for name, text in texts for part in _split(text)]
    numbered = enumerate(parts, start=1)
    return [
        _encode({**entry, "part": number, "parts": len(parts), name: part}, is_utf8) + "\n"
        for number, (name, part) in numbered
    ]


def _emit(handler: Any, record: logging.LogRecord) -> None:
    lines = _try_render(handler, record) if _is_console(handler.stream) else []
    if not lines:
        _emit_text(handler, record)
        return
    try:
        for line in lines:
            handler.stream.write(line)
            handler.flush()
    except RecursionError:  # as in logging itself
        raise
    except Exception:  # noqa: BLE001  # as in logging itself
        handler.handleError(record)


def _try_render(handler: logging.Handler, record: logging.LogRecord) -> List[str]:
    try:
        return render_lines(handler, record)
    except Exception:  # noqa: BLE001  # a wrong argument of a log call: logging reports it
        return []


def _is_console(stream: Any) -> bool:
    try:
        return bool(stream.fileno() in _CONSOLE)
    except Exception:  # noqa: BLE001  # a stream of the program, which may have no fileno()
        return False


def _render_head(record: logging.LogRecord) -> Dict[str, Any]:
    at = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
    return {
        "time": "%s.%03dZ" % (at, record.msecs),  # noqa: UP031  # an integer of three digits
        "level": str(record.levelname)[:_MAX_LEVEL_CHARACTERS],
        "logger": str(record.name)[:_MAX_LOGGER_CHARACTERS],
    }


def _read_tags() -> Dict[str, Any]:
    tags: Dict[str, Any] = {}
    for variable, name in _TAGS:
        text = os.environ.get(variable, "")
        if text.isascii() and text.isprintable() and 0 < len(text) <= _MAX_TAG_CHARACTERS:
            tags[name] = int(text) if name in _NUMBERS and text.isdigit() else text
    if "replicaType" in tags:
        tags["replicaType"] = str(tags["replicaType"]).upper()
    return tags


def _walk_texts(handler: logging.Handler, record: logging.LogRecord) -> Iterator[Tuple[str, str]]:
    """Walk the members of any length; never empty."""
    formats = type(handler).format is not logging.Handler.format
    if formats or type(handler.formatter) not in (type(None), logging.Formatter):
        yield "message", handler.format(record)
        return
    yield "message", record.getMessage()
    formatter = logging.Formatter()
    if record.exc_info:
        yield "exception", formatter.formatException(record.exc_info)
    elif record.exc_text:
        yield "exception", record.exc_text
    if record.stack_info:
        yield "stack", formatter.formatStack(record.stack_info)
    extra = {key: value for key, value in record.__dict__.items() if key not in _KNOWN}
    if extra:
        # JSON has no NaN and no infinity: they become text.
        yield "extra", json.dumps(_decode(json.dumps(extra, default=str)))


def _decode(text: str) -> Any:
    return json.loads(text, parse_constant=str)


def _split(text: str) -> Iterator[str]:
    is_plain = text.isascii() and json.dumps(text) == '"' + text + '"'
    size = _PLAIN_CHUNK_CHARACTERS if is_plain else _CHUNK_CHARACTERS
    for start in range(0, max(len(text), 1), size):
        yield text[start : start + size]


def _encode(entry: Dict[str, Any], is_utf8: bool) -> str:  # noqa: FBT001  # by one caller
    line = json.dumps(entry, ensure_ascii=False)
    # Escapes for characters that a terminal interprets, and for halves of characters.
    return line if is_utf8 and line.isprintable() else json.dumps(entry)

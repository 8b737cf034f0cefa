r"""The frames that the client and the endpoint of a remote command send each other. Pure.

A frame is its kind (one byte), the length of its content (three bytes, the highest first) and its
content. In one connection, inside TLS:

1. The client sends REQUEST: a line of JSON that names the attempt and the Task it wants to reach,
   then the command as bytes.
2. The endpoint answers STARTED, or REFUSED with a text and closes.
3. The client sends INPUT, INPUT_END and SIGNAL (one byte: its number). The endpoint sends OUTPUT,
   ERRORS, and TAKEN (four bytes: how many bytes of INPUT the command has read).
4. The endpoint sends EXITED (one byte: the exit code) and closes.

Invariants: a frame of another kind or length is an error, and ends the connection; the client never
has more than ``WINDOW_BYTES`` of INPUT that are not TAKEN, so SIGNAL never waits for the command to
read its input; only EXITED reports the end of the command.

Example: ``echo hello`` is answered with STARTED, OUTPUT ``hello\n`` and EXITED 0.
"""

import enum
import json
from typing import Any, Dict, FrozenSet, Iterator, NamedTuple

HEADER_BYTES = 4
MAX_CONTENT_BYTES = 32 * 1024
# The kernel accepts no argument longer than 128 KiB, its final zero byte included.
MAX_COMMAND_BYTES = 128 * 1024 - 1
WINDOW_BYTES = 256 * 1024
_MAX_LINE_BYTES = 2048
_MAX_TEXT_LENGTH = 512
_MAX_INDEX = 1_000_000
_MAX_SIGNAL = 64
_VERSION = 1
_TAKEN_BYTES = 4


class Kind(enum.IntEnum):
    """The kind of a frame."""

    REQUEST = 1
    STARTED = 2
    REFUSED = 3
    INPUT = 4
    INPUT_END = 5
    SIGNAL = 6
    OUTPUT = 7
    ERRORS = 8
    TAKEN = 9
    EXITED = 10


FROM_CLIENT = frozenset({Kind.REQUEST, Kind.INPUT, Kind.INPUT_END, Kind.SIGNAL})
FROM_ENDPOINT = frozenset(
    {Kind.STARTED, Kind.REFUSED, Kind.OUTPUT, Kind.ERRORS, Kind.TAKEN, Kind.EXITED}
)
# Kind -> smallest and largest content.
_SIZES = {
    Kind.REQUEST: (1, _MAX_LINE_BYTES + MAX_COMMAND_BYTES),
    Kind.STARTED: (0, 0),
    Kind.REFUSED: (0, _MAX_LINE_BYTES),
    Kind.INPUT: (1, MAX_CONTENT_BYTES),
    Kind.INPUT_END: (0, 0),
    Kind.SIGNAL: (1, 1),
    Kind.OUTPUT: (1, MAX_CONTENT_BYTES),
    Kind.ERRORS: (1, MAX_CONTENT_BYTES),
    Kind.TAKEN: (_TAKEN_BYTES, _TAKEN_BYTES),
    Kind.EXITED: (1, 1),
}


class FrameError(ValueError):
    """The other end violates the protocol."""


class Frame(NamedTuple):
    """One frame."""

    kind: Kind
    content: bytes


class Request(NamedTuple):
    """The command of a client, and the Task that runs it."""

    attempt: str
    """The instance UID of the attempt."""
    role: str
    """The role of the Task."""
    index: int  # type: ignore[assignment]  # hides tuple.index, which is not used
    """The index of the Task."""
    command: bytes
    """The command line for a shell."""


class Decoder:
    """Takes received bytes, and returns the complete frames."""

    def __init__(self, kinds: FrozenSet[Kind]) -> None:
        """Accept frames of these kinds."""
        self._kinds = kinds
        self._received = bytearray()

    def feed(self, part: bytes) -> Iterator[Frame]:
        """Take received bytes.

        Raises:
            FrameError: The other end may not send a frame of this kind or length.
        """
        self._received += part
        start = 0
        try:
            while len(self._received) - start >= HEADER_BYTES:
                kind, length = self._read_header(start)
                end = start + HEADER_BYTES + length
                if len(self._received) < end:
                    return
                content = bytes(self._received[start + HEADER_BYTES : end])
                start = end
                yield Frame(kind, content)
        finally:
            del self._received[:start]

    def _read_header(self, start: int) -> "tuple[Kind, int]":
        number = self._received[start]
        length = int.from_bytes(self._received[start + 1 : start + HEADER_BYTES], "big")
        if number not in {int(kind) for kind in self._kinds}:
            raise FrameError(f"a frame of kind {number} is not expected here")
        kind = Kind(number)
        least, most = _SIZES[kind]
        if not least <= length <= most:
            raise FrameError(f"a frame {kind.name} has {length} bytes")
        return kind, length


def encode_frame(kind: Kind, content: bytes = b"") -> bytes:
    """Encode a frame."""
    return bytes((kind,)) + len(content).to_bytes(HEADER_BYTES - 1, "big") + content


def encode_stream(kind: Kind, content: bytes) -> bytes:
    """Encode bytes of a stream, in as many frames as they need."""
    starts = range(0, len(content), MAX_CONTENT_BYTES)
    return b"".join(encode_frame(kind, content[at : at + MAX_CONTENT_BYTES]) for at in starts)


def encode_refusal(text: str) -> bytes:
    """Encode the reason why a command is not started."""
    return encode_frame(Kind.REFUSED, text.encode("utf-8", "replace")[:_MAX_LINE_BYTES])


def encode_taken(count: int) -> bytes:
    """Encode how many bytes of input the command has read."""
    return encode_frame(Kind.TAKEN, count.to_bytes(_TAKEN_BYTES, "big"))


def check_length(command: bytes) -> None:
    """Check the length of a command.

    Raises:
        FrameError: It is too long.
    """
    if len(command) > MAX_COMMAND_BYTES:
        raise FrameError(f"the command has more than {MAX_COMMAND_BYTES} bytes")


def encode_request(request: Request) -> bytes:
    """Encode a request.

    Raises:
        FrameError: The command is too long.
    """
    check_length(request.command)
    wire = {
        "version": _VERSION,
        "attempt": request.attempt,
        "role": request.role,
        "index": request.index,
    }
    return encode_frame(Kind.REQUEST, json.dumps(wire).encode() + b"\n" + request.command)


def parse_request(content: bytes) -> Request:
    """Parse the content of a request.

    Raises:
        FrameError: It is not a request, or a request of another version.
    """
    line, found, command = content.partition(b"\n")
    if not found or len(line) > _MAX_LINE_BYTES:
        raise FrameError("a request starts with a line of JSON")
    try:
        wire = json.loads(line.decode())
    except (ValueError, RecursionError) as e:
        raise FrameError("the first line of a request is not JSON") from e
    if not isinstance(wire, dict) or wire.get("version") != _VERSION:
        raise FrameError("the request is of another version of the agent")
    if not command or b"\0" in command or len(command) > MAX_COMMAND_BYTES:
        raise FrameError("the command is empty, too long or contains a zero byte")
    attempt, role = _read_text(wire, "attempt"), _read_text(wire, "role")
    return Request(attempt, role, _read_index(wire), command)


def _read_text(wire: Dict[str, Any], name: str) -> str:
    text = wire.get(name)
    if not isinstance(text, str) or not 0 < len(text) <= _MAX_TEXT_LENGTH:
        raise FrameError(f"{name} of the request is not a text")
    return text


def _read_index(wire: Dict[str, Any]) -> int:
    index = wire.get("index")
    if not isinstance(index, int) or isinstance(index, bool) or not 0 <= index <= _MAX_INDEX:
        raise FrameError("index of the request is not a number")
    return index


def parse_signal(content: bytes) -> int:
    """Parse the content of a SIGNAL.

    Raises:
        FrameError: There is no such signal.
    """
    if not 0 < content[0] <= _MAX_SIGNAL:
        raise FrameError(f"there is no signal {content[0]}")
    return content[0]


def parse_taken(content: bytes) -> int:
    """Parse the content of a TAKEN."""
    return int.from_bytes(content, "big")

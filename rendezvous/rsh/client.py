"""``rsh HOST -- COMMAND``: the streams, signals and exit code of a command in another member.

``reaching`` starts the command. Then, in one loop:

1. Send the own input as INPUT, while less than ``WINDOW_BYTES`` of it are not TAKEN.
2. Write OUTPUT and ERRORS to the own streams. Receive nothing while a stream blocks.
3. Send signals as SIGNAL. After the second signal that ends a program, the client ends.
4. After EXITED, write all output and exit with its code. If the connection ends without EXITED,
   exit with 255 and a message.

If the client ends early, its connection ends, and so the endpoint ends the command.
"""

import contextlib
import os
import select
import signal
from typing import Dict, Optional

from framework.agent.report import LineReporter
from framework.agent.signals import ENDING_SIGNALS, SIGNAL_EXIT_BASE
from rendezvous.process.wakepipe import WakePipe
from rendezvous.rsh.channel import Channel, ChannelError
from rendezvous.rsh.frames import (
    MAX_CONTENT_BYTES,
    WINDOW_BYTES,
    Frame,
    FrameError,
    Kind,
    encode_frame,
    encode_stream,
    parse_taken,
)

FAULT_CODE = 255
"""The exit code of a client that does not know the code of the command, as for ssh."""
_STDIN, _STDOUT, _STDERR = 0, 1, 2
_FORWARDED = (*ENDING_SIGNALS, signal.SIGUSR1, signal.SIGUSR2)
_WRITE_BYTES = 4096  # a pipe that is ready takes this many bytes at once


class Client:
    """Forwards streams and signals until the command has ended."""

    def __init__(self, channel: Channel, host: str, reporter: LineReporter) -> None:
        """Take over a channel on which the command was started."""
        self._channel = channel
        self._host = host
        self._reporter = reporter
        self._wakeup = WakePipe()
        self._unwritten: Dict[int, bytearray] = {_STDOUT: bytearray(), _STDERR: bytearray()}
        self._not_taken = 0
        self._is_input_ended = False
        self._ended_by = 0
        self._code: Optional[int] = None
        self._fault = ""

    def run(self) -> int:
        """Run to the exit code."""
        self._wakeup.catch(_FORWARDED)
        while not self._is_over():
            self._turn()
        self._channel.close()
        if self._code is not None:
            return self._code
        self._reporter.say(f"rsh: {self._host}: {self._fault}", "error")
        return FAULT_CODE

    def _is_over(self) -> bool:
        if any(self._unwritten.values()):
            return False
        return self._code is not None or bool(self._fault)

    def _turn(self) -> None:
        ready = self._poll()
        if self._wakeup.fileno() in ready:
            self._forward_signals()
        for descriptor in self._unwritten:
            if descriptor in ready:
                self._write(descriptor)
        if self._code is not None or self._fault:
            return
        if _STDIN in ready:
            self._read_input()
        self._exchange()

    def _poll(self) -> Dict[int, int]:
        poller = select.poll()
        poller.register(self._wakeup, select.POLLIN)
        is_full = False
        for descriptor, waiting in self._unwritten.items():
            if waiting:
                poller.register(descriptor, select.POLLOUT)
                is_full = True
        if self._code is None and not self._fault:
            is_blocked = self._channel.backlog or self._not_taken + MAX_CONTENT_BYTES > WINDOW_BYTES
            if not self._is_input_ended and not is_blocked:
                poller.register(_STDIN, select.POLLIN)
            if not is_full:
                poller.register(self._channel, self._channel.events)
            elif self._channel.backlog:
                poller.register(self._channel, select.POLLOUT)
        has_more = self._channel.has_more and not is_full
        return dict(poller.poll(0 if has_more else None))

    def _forward_signals(self) -> None:
        for number in self._wakeup.read():
            if number in ENDING_SIGNALS and self._ended_by:
                self._end(SIGNAL_EXIT_BASE + number)
            elif number in _FORWARDED:
                self._ended_by = number if number in ENDING_SIGNALS else self._ended_by
                self._channel.send(encode_frame(Kind.SIGNAL, bytes((number,))))

    def _end(self, code: int) -> None:
        for waiting in self._unwritten.values():
            waiting.clear()
        self._code = code

    def _write(self, descriptor: int) -> None:
        waiting = self._unwritten[descriptor]
        try:
            del waiting[: os.write(descriptor, bytes(waiting[:_WRITE_BYTES]))]
        except BlockingIOError:
            return
        except OSError:
            # The reader of this stream has ended: end, as a local command does.
            self._end(SIGNAL_EXIT_BASE + signal.SIGPIPE)

    def _read_input(self) -> None:
        part = b""
        with contextlib.suppress(OSError):  # it may be closed
            part = os.read(_STDIN, MAX_CONTENT_BYTES)
        self._is_input_ended = not part
        self._not_taken += len(part)
        self._channel.send(
            encode_stream(Kind.INPUT, part) if part else encode_frame(Kind.INPUT_END)
        )

    def _exchange(self) -> None:
        """Send queued frames; receive if all earlier output is written."""
        try:
            self._channel.flush()
            if any(self._unwritten.values()):
                return
            for frame in self._channel.receive():
                self._take(frame)
            if self._channel.is_ended and self._code is None:
                self._fault = (
                    "the connection ended before the command did: the Pod or its agent has ended, "
                    "or the network has failed"
                )
        except (ChannelError, FrameError) as e:
            if self._code is None:
                self._fault = f"the connection failed before the command ended: {e}"

    def _take(self, frame: Frame) -> None:
        if self._code is not None:
            raise FrameError("nothing may follow the exit code")
        if frame.kind is Kind.OUTPUT:
            self._unwritten[_STDOUT] += frame.content
        elif frame.kind is Kind.ERRORS:
            self._unwritten[_STDERR] += frame.content
        elif frame.kind is Kind.TAKEN:
            self._not_taken -= parse_taken(frame.content)
        elif frame.kind is Kind.EXITED:
            self._code = frame.content[0]
        else:
            raise FrameError(f"{frame.kind.name} is not expected here")

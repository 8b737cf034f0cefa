"""One remote command, on the side of the endpoint. Runs in the thread of its connection.

1. Start the command in a shell, as the leader of a session and a process group of its own.
2. Forward: INPUT to its input, SIGNAL to its process group, its output as OUTPUT and ERRORS.
3. When it has ended, read its output to the end, but stop after ``DRAIN_SECONDS`` without output:
   background processes that it has left may keep the pipes open. Send EXITED.
4. If the connection ends before that, send SIGTERM to its process group, and SIGKILL after the
   grace period.

Invariants: output is read only while less than ``BACKLOG_BYTES`` are unsent, so a client that does
not read blocks the command and fills no memory; at most ``WINDOW_BYTES`` of input are held; if the
connection ends early, the process group is ended; the connection always ends with the command.
"""

import contextlib
import os
import pwd
import select
import signal
from typing import Dict, Mapping, Optional

from framework.agent.clock import AgentClock
from rendezvous.process.children import Children, Pipes, StartError
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
    encode_taken,
    parse_signal,
)

BACKLOG_BYTES = 256 * 1024
DRAIN_SECONDS = 1.0
_SHELL = "/bin/sh"
# How long a client may take to read the last output.
_FINISH_SECONDS = 600.0
_WRITE_BYTES = 4096  # a pipe that is ready takes this many bytes at once


class Session:
    """The command of a client."""

    def __init__(
        self, channel: Channel, children: Children, clock: AgentClock, grace_seconds: float
    ) -> None:
        """Prepare; ``run`` starts the command."""
        self._channel = channel
        self._children = children
        self._clock = clock
        self._grace_seconds = grace_seconds
        self._wakeup = WakePipe()
        self._pid = 0
        self._stdin = -1
        self._outputs: Dict[int, Kind] = {}
        self._input = bytearray()
        self._taken = 0
        self._is_input_ended = False
        self._is_client_gone = False
        self._code: Optional[int] = None
        self._kill_at: Optional[float] = None
        self._drain_until = 0.0

    def run(self, command: bytes, env: Mapping[str, str]) -> None:
        """Run a command until it or the connection ends."""
        self._channel.send(encode_frame(Kind.STARTED))
        try:
            self._start(command, env)
            while self._code is None or self._outputs:
                self._turn()
            self._report_end(self._code)
        finally:
            self._close()

    def kill(self) -> None:
        """Kill the command and its process group; another thread calls this."""
        if self._pid:
            self._children.kill_session(self._pid)

    def _start(self, command: bytes, env: Mapping[str, str]) -> None:
        argv = [_SHELL, "-c", os.fsdecode(command)]
        try:
            pipes = self._children.start_piped(argv, env, self._wakeup.wake)
        except StartError as e:
            self._channel.send(encode_stream(Kind.ERRORS, f"{e}\n".encode()))
            self._code = e.exit_code
            return
        self._take_pipes(pipes)

    def _take_pipes(self, pipes: Pipes) -> None:
        self._pid, self._stdin = pipes.pid, pipes.stdin
        self._outputs = {pipes.stdout: Kind.OUTPUT, pipes.stderr: Kind.ERRORS}
        for descriptor in (self._stdin, *self._outputs):
            os.set_blocking(descriptor, False)

    def _turn(self) -> None:
        ready = self._poll()
        if not self._is_client_gone:
            try:
                for frame in self._channel.receive():
                    self._take(frame)
                self._is_client_gone = self._channel.is_ended
            except (ChannelError, FrameError):
                self._is_client_gone = True
            if self._is_client_gone:
                self._end_command()
        if self._stdin in ready:
            self._feed()
        for descriptor in [each for each in self._outputs if each in ready]:
            self._read(descriptor)
        self._check_end()
        self._flush()

    def _poll(self) -> Dict[int, int]:
        """Wait until there is something to do."""
        poller = select.poll()
        poller.register(self._wakeup, select.POLLIN)
        if not self._is_client_gone:
            poller.register(self._channel, self._channel.events)
        if self._input and self._stdin >= 0:
            poller.register(self._stdin, select.POLLOUT)
        if self._channel.backlog < BACKLOG_BYTES:
            for descriptor in self._outputs:
                poller.register(descriptor, select.POLLIN)
        ready = dict(poller.poll(self._get_wait_milliseconds()))
        if self._wakeup.fileno() in ready:
            self._wakeup.read()
        return ready

    def _get_wait_milliseconds(self) -> Optional[float]:
        if self._channel.has_more and not self._is_client_gone:
            return 0
        if self._kill_at is not None:
            moment = self._kill_at
        elif self._code is not None and self._channel.backlog < BACKLOG_BYTES:
            moment = self._drain_until
        else:
            return None
        return max(0.0, moment - self._clock.monotonic()) * 1000

    def _take(self, frame: Frame) -> None:
        if frame.kind is Kind.SIGNAL:
            self._children.signal_group(self._pid, parse_signal(frame.content))
        elif frame.kind is Kind.INPUT_END:
            self._is_input_ended = True
            if not self._input:
                self._close_input()
        elif frame.kind is Kind.INPUT and not self._is_input_ended:
            if self._stdin >= 0:
                self._input += frame.content
            else:
                self._taken += len(frame.content)
            if len(self._input) + self._taken > WINDOW_BYTES:
                raise FrameError("more input than the window")
        else:
            raise FrameError(f"{frame.kind.name} is not expected here")

    def _feed(self) -> None:
        try:
            written = os.write(self._stdin, bytes(self._input[:_WRITE_BYTES]))
        except BlockingIOError:
            return
        except OSError:
            # The command reads no more. Discard its input, so that the client does not wait.
            self._taken += len(self._input)
            self._input.clear()
            self._close_input()
            return
        del self._input[:written]
        self._taken += written
        if self._is_input_ended and not self._input:
            self._close_input()

    def _close_input(self) -> None:
        if self._stdin >= 0:
            os.close(self._stdin)
            self._stdin = -1

    def _read(self, descriptor: int) -> None:
        try:
            part = os.read(descriptor, MAX_CONTENT_BYTES)
        except BlockingIOError:
            return
        except OSError:
            part = b""
        if not part:
            os.close(descriptor)
            del self._outputs[descriptor]
            return
        self._channel.send(encode_stream(self._outputs[descriptor], part))
        self._drain_until = self._clock.monotonic() + DRAIN_SECONDS

    def _check_end(self) -> None:
        now = self._clock.monotonic()
        if self._code is None:
            self._code = self._children.take_code(self._pid)
            self._drain_until = now + DRAIN_SECONDS
        if self._kill_at is not None and now >= self._kill_at:
            self._children.kill_session(self._pid)
            self._kill_at = None
        is_stuck = self._channel.backlog >= BACKLOG_BYTES
        if self._code is not None and (
            self._is_client_gone or (now >= self._drain_until and not is_stuck)
        ):
            self._close_outputs()

    def _end_command(self) -> None:
        """End the command, because its client is gone."""
        self._children.signal_group(self._pid, signal.SIGTERM)
        self._kill_at = self._clock.monotonic() + self._grace_seconds
        self._input.clear()
        self._close_input()
        self._close_outputs()

    def _close_outputs(self) -> None:
        for descriptor in self._outputs:
            os.close(descriptor)
        self._outputs.clear()

    def _flush(self) -> None:
        if self._is_client_gone:
            return
        if self._taken and self._channel.backlog < BACKLOG_BYTES:
            self._channel.send(encode_taken(self._taken))
            self._taken = 0
        try:
            self._channel.flush()
        except ChannelError:
            self._is_client_gone = True
            self._end_command()

    def _report_end(self, code: Optional[int]) -> None:
        """Send the exit code, and wait until all is sent."""
        if self._is_client_gone:
            # Kill the rest of its process group: its output has no reader.
            self._children.kill_session(self._pid)
            return
        self._channel.send(encode_frame(Kind.EXITED, bytes((code or 0,))))
        with contextlib.suppress(ChannelError):
            self._channel.finish(self._clock.monotonic() + _FINISH_SECONDS, self._clock)

    def _close(self) -> None:
        self._close_input()
        self._close_outputs()
        if self._pid and self._code is None:
            # After an error of the agent: no command may run without a connection.
            self._children.kill_session(self._pid)
        if self._code is not None:
            # If the command still runs, the thread that reaps it will write into this pipe.
            self._wakeup.close()


def build_login_env(env: Mapping[str, str]) -> Dict[str, str]:
    """Build the environment of remote commands: the container's, with the variables of a login."""
    try:
        user = pwd.getpwuid(os.getuid())
        name, home, shell = user.pw_name, user.pw_dir, user.pw_shell
    except KeyError:
        name, home, shell = str(os.getuid()), "/", _SHELL
    login = {"USER": name, "LOGNAME": name, "HOME": home, "SHELL": shell or _SHELL}
    return {**login, **{key: text for key, text in env.items() if text or key not in login}}

"""Runs a program in a container over a WebSocket, as ``kubectl exec`` does.

The messages are those of ``v5.channel.k8s.io``: the first byte is the channel. For local clusters
only: others have more kinds of credentials than this client supports.
"""

import asyncio
import contextlib
import json
import os
import shutil
import signal
import sys
import termios
import tty
from collections.abc import Iterator
from typing import Any, NamedTuple
from urllib.parse import urlencode

import aiohttp

from cli.exitcodes import CliError, ExitCode
from cli.start.pods import PodChoice
from cli.terminal import print_error
from framework.api.text import describe_server
from framework.kube.config import KubeConfig
from framework.kube.resources import PODS

_PROTOCOL = "v5.channel.k8s.io"
_STDIN, _STDOUT, _STDERR, _ERROR, _RESIZE, _CLOSE = 0, 1, 2, 3, 4, 255
_EXITED = "NonZeroExitCode"
_CHUNK_BYTES = 32 * 1024


class Command(NamedTuple):
    """A program, and the container in which it runs."""

    pod: PodChoice
    argv: tuple[str, ...]
    has_stdin: bool
    has_terminal: bool


async def run_remote(config: KubeConfig, command: Command) -> int:
    """Run a program and copy its streams; return its exit code.

    Raises:
        CliError: it cannot be started, or the connection breaks.
    """
    async with contextlib.AsyncExitStack() as stack:
        try:
            session = await stack.enter_async_context(aiohttp.ClientSession())
            socket = await stack.enter_async_context(
                session.ws_connect(
                    config.server + _build_path(command),
                    protocols=(_PROTOCOL,),
                    headers={"Authorization": f"Bearer {config.token}"},
                    max_msg_size=0,
                )
            )
        except (aiohttp.ClientError, OSError) as e:
            raise CliError(
                ExitCode.UNREACHABLE,
                f"the API server {describe_server(config.server)} does not run the command: "
                f"{_explain(e)}",
            ) from e
        if command.has_terminal:
            stack.enter_context(_raw_terminal())
            resizing = asyncio.create_task(_send_sizes(socket), name="exec resize")
            stack.callback(resizing.cancel)
        if command.has_stdin:
            sending = asyncio.create_task(_copy_input(socket), name="exec input")
            stack.callback(sending.cancel)
        return read_exit_code(await _copy_output(socket))


def _build_path(command: Command) -> str:
    namespace, pod, container = command.pod
    query = [("command", word) for word in command.argv]
    query += [("container", container), ("stdout", "true")]
    query += [("stdin", "true")] if command.has_stdin else []
    query += [("tty", "true")] if command.has_terminal else [("stderr", "true")]
    return f"{PODS.path(namespace, pod, 'exec')}?{urlencode(query)}"


def _explain(error: Exception) -> str:
    return error.message if isinstance(error, aiohttp.WSServerHandshakeError) else str(error)


async def _copy_output(socket: aiohttp.ClientWebSocketResponse) -> dict[str, Any] | None:
    """Copy the program's output until its end; return its final Status, or None."""
    status: dict[str, Any] | None = None
    outputs = {_STDOUT: sys.stdout.buffer, _STDERR: sys.stderr.buffer}
    async for message in socket:
        if message.type is not aiohttp.WSMsgType.BINARY or not message.data:
            continue
        channel, content = message.data[0], message.data[1:]
        if channel in outputs:
            outputs[channel].write(content)
            outputs[channel].flush()
        elif channel == _ERROR:
            status = json.loads(content)
    return status


def read_exit_code(status: dict[str, Any] | None) -> int:
    """Return the exit code of a program by its final Status; None: the connection broke.

    Raises:
        CliError: the program did not end, or did not start.
    """
    if status is None:
        raise CliError(
            ExitCode.UNREACHABLE,
            "the connection broke before the program ended; it may still run in the container",
        )
    if status.get("status") == "Success":
        return 0
    message = str(status.get("message") or "the server gives no reason")
    causes = (status.get("details") or {}).get("causes") or ()
    for cause in causes:
        if cause.get("reason") == "ExitCode":
            if status.get("reason") != _EXITED:
                # It did not start.
                print_error(f"error: {message}")
            return int(cause["message"])
    raise CliError(ExitCode.FAILED, message)


async def _send_sizes(socket: aiohttp.ClientWebSocketResponse) -> None:
    """Send the size of the terminal now and after each change."""
    resized = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGWINCH, resized.set)
    while True:
        columns, lines = shutil.get_terminal_size()
        size = json.dumps({"Width": columns, "Height": lines})
        await socket.send_bytes(bytes([_RESIZE]) + size.encode())
        await resized.wait()
        resized.clear()


async def _copy_input(socket: aiohttp.ClientWebSocketResponse) -> None:
    """Copy stdin until its end."""
    while True:
        await _wait_for_input()
        chunk = os.read(0, _CHUNK_BYTES)
        if not chunk:
            break
        await socket.send_bytes(bytes([_STDIN]) + chunk)
    await socket.send_bytes(bytes([_CLOSE, _STDIN]))


async def _wait_for_input() -> None:
    """Wait until a read does not block: a thread that blocks in a read could not be ended."""
    loop = asyncio.get_running_loop()
    ready: asyncio.Future[None] = loop.create_future()

    def notify() -> None:
        if not ready.done():
            ready.set_result(None)

    try:
        loop.add_reader(0, notify)
    except OSError:
        # A regular file, which epoll refuses, is always readable.
        return
    try:
        await ready
    finally:
        loop.remove_reader(0)


@contextlib.contextmanager
def _raw_terminal() -> Iterator[None]:
    """Pass each key on as it is typed: the terminal in the container handles them."""
    before = termios.tcgetattr(0)
    tty.setraw(0)
    try:
        yield
    finally:
        termios.tcsetattr(0, termios.TCSADRAIN, before)

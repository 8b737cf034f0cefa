"""A user's terminal: runs the lines that a story types, and keeps what they print."""

import asyncio
import os
import re
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from tests.support.servers.remedies import Shell
from tests.support.waiting import HANG_SECONDS

_SETTINGS = {
    # Standard output and standard error in the order in which the program writes them.
    "PYTHONUNBUFFERED": "1",
    "COLUMNS": "100",
    "NO_COLOR": "1",
    "LC_ALL": "C.UTF-8",
}
_SYSTEM_PATH = "/usr/local/bin:/usr/bin:/bin"
_COMPLETE = """\
source <(framework completion bash)
COMP_LINE=$1 COMP_POINT=${#1} _framework_completion framework
printf '%s\\n' "${COMPREPLY[@]}"
"""


class Running:
    """A program that runs in a terminal of its own."""

    def __init__(self, line: str, child: asyncio.subprocess.Process) -> None:
        self.line = line
        self.output = ""
        self.notes = ""
        """What its user does meanwhile, as the page shows it."""
        self._child = child
        self._changed = asyncio.Event()
        self._reader = asyncio.create_task(self._read(), name=f"read {line}")

    async def _read(self) -> None:
        assert self._child.stdout is not None
        while chunk := await self._child.stdout.read(65536):
            self.output += chunk.decode()
            self._changed.set()
        self._changed.set()

    async def see(self, *texts: str) -> str:
        """Wait until the program has printed a line with each text; return its output so far."""
        async with asyncio.timeout(HANG_SECONDS):
            while not all(re.search(text, self.output) for text in texts):
                assert not self._reader.done(), f"{self.line}: no {texts} in\n{self.output}"
                self._changed.clear()
                await self._changed.wait()
        return self.output

    def interrupt(self) -> None:
        """Press Ctrl-C."""
        os.killpg(self._child.pid, signal.SIGINT)
        self.notes = "^C\n"

    async def end(self) -> int:
        """Wait for the end; return the exit code."""
        try:
            async with asyncio.timeout(HANG_SECONDS):
                await self._reader
                return await self._child.wait()
        finally:
            if self._child.returncode is None:
                os.killpg(self._child.pid, signal.SIGKILL)
                await self._child.wait()


class Terminal:
    """Writes a page: text, and sessions with their output."""

    def __init__(self, shell: Shell, hide: Callable[[str], str]) -> None:
        """Begin an empty page; ``hide`` takes what is of this machine out of an output."""
        self.page: list[str] = []
        self._shell = shell
        path = os.pathsep.join([*shell.env["PATH"].split(os.pathsep)[:2], _SYSTEM_PATH])
        self._env = {**shell.env, **_SETTINGS, "HOME": str(shell.folder), "PATH": path}
        self._hide = hide

    def say(self, *paragraphs: str) -> None:
        """Write text."""
        self.page.extend(f"{paragraph}\n" for paragraph in paragraphs)

    def show(self, name: str, content: str) -> None:
        """Write a file into the folder, and show it."""
        (self._shell.folder / name).write_text(content, encoding="utf-8")
        self.page.append(f"```yaml\n{content}```\n")

    async def type(self, *lines: str, code: int = 0, progress: tuple[str, ...] = ()) -> str:
        """Type lines into one session, of which the last ends with ``code``; return the output.

        ``progress``: begins of the lines that are left out, those that the program prints only if
        the machine is slow.
        """
        session, output = "", ""
        for line in lines:
            running = await self._start(line)
            ended = await running.end()
            expected = code if line == lines[-1] else 0
            assert ended == expected, f"{line}: exit code {ended}\n{running.output}"
            if progress:
                kept = running.output.splitlines(keepends=True)
                running.output = "".join(text for text in kept if not text.startswith(progress))
            output = running.output
            session += self._render(running, ended)
        self._write(session)
        return output

    @asynccontextmanager
    async def open(self, line: str, progress: str = "") -> AsyncIterator[Running]:
        """Type a line whose program runs during the block, and ends with 0 after it.

        Args:
            line: what is typed.
            progress: begin of the lines that are left out, except for the last line of the output:
                those that the program prints only if the machine is slow.
        """
        running = await self._start(line)
        try:
            yield running
        except BaseException:
            running.interrupt()
            raise
        ended = await running.end()
        assert ended == 0, f"{line}: exit code {ended}\n{running.output}"
        *lines, last = running.output.splitlines(keepends=True)
        if progress:
            lines = [text for text in lines if not text.startswith(progress)]
        running.output = "".join([*lines, last])
        self._write(self._render(running, ended))

    async def complete(self, *lines: str) -> None:
        """Press Tab after each line, and write the candidates that bash offers."""
        session = ""
        for line in lines:
            words: list[str] = []
            # Nothing is offered if the API server needs more than a second.
            while not words:
                child = await self._launch("bash", "-c", _COMPLETE, "bash", line)
                running = Running(line, child)
                assert await running.end() == 0, running.output
                words = running.output.split()
            session += f"$ {line}<Tab>\n{'  '.join(words)}\n"
        self._write(session)

    async def _start(self, line: str) -> Running:
        child = await self._launch("bash", "-o", "pipefail", "-c", line)
        return Running(line, child)

    async def _launch(self, *command: str) -> asyncio.subprocess.Process:
        return await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            cwd=self._shell.folder,
            env=self._env,
            start_new_session=True,
        )

    def _render(self, running: Running, code: int) -> str:
        shown = running.line.replace("\n", "\n> ")
        output = running.output + running.notes
        ended = f"[exit code {code}]\n" if code else ""
        return f"$ {shown}\n{output}{ended}"

    def _write(self, session: str) -> None:
        self.page.append(f"```console\n{self._hide(session)}```\n")

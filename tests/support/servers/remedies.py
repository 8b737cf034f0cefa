"""Executes the remedies of ``framework why`` like a user: the printed lines, in a shell."""

import asyncio
import json
import os
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from cli.exitcodes import ExitCode
from tests.support.waiting import HANG_SECONDS

Answer = dict[str, Any]
_FIELD = re.compile(r"^  remedy +(.*)$")
_COMMAND_INDENT = " " * 14


class Done(NamedTuple):
    """A program that has ended."""

    code: int
    output: str


@dataclass(frozen=True)
class ExpectedAnswer:
    """The required content of an answer before its remedy is executed."""

    kind: str
    """Kind of the root cause."""
    words: tuple[str, ...] = ()
    """Texts of the answer."""
    remedy: str = ""
    """Start of the remedy; "" for the first remedy."""

    def find_commands(self, answer: str) -> list[str] | None:
        """Find the command lines of the remedy; None if the answer is not as expected (yet)."""
        remedies = list_remedies(answer)
        found = [lines for text, lines in remedies if text.startswith(self.remedy)]
        has_words = all(words in answer for words in self.words)
        return found[0] if has_words and found and found[0] else None


class Shell:
    """A user's shell: a folder, the programs ``framework`` and ``kubectl``, and a kubeconfig."""

    def __init__(self, folder: Path, kubeconfig: str, kubectl: str) -> None:
        programs = folder / "programs"
        programs.mkdir(exist_ok=True)
        (programs / "kubectl").symlink_to(kubectl)
        path = os.pathsep.join(
            [str(programs), str(Path(sys.executable).parent), os.environ["PATH"]]
        )
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("KUBE", "FRAMEWORK"))}
        self.folder = folder
        self.env = {**kept, "PATH": path, "KUBECONFIG": kubeconfig}

    async def run(self, command: str) -> Done:
        """Run a command line to its end."""
        child = await asyncio.create_subprocess_exec(
            *("bash", "-o", "pipefail", "-c", command),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            cwd=self.folder,
            env=self.env,
        )
        try:
            output, _ = await asyncio.wait_for(child.communicate(), HANG_SECONDS)
        finally:
            if child.returncode is None:
                child.kill()
                await child.wait()
        return Done(child.returncode or 0, output.decode())

    async def ask(self, name: str, *options: str) -> Answer | None:
        """Ask ``framework why``; None if the API server was too busy to answer in time."""
        done = await self.run(" ".join(["framework why", name, "-o json", *options]))
        if done.code == ExitCode.UNREACHABLE:
            return None
        assert done.code in {0, 1}, done.output
        answer: Answer = json.loads(done.output)
        assert answer["healthy"] == (done.code == 0), done
        return answer

    async def ask_until(self, name: str, kind: str | None, *options: str) -> Answer:
        """Ask until the root cause has this kind; None: until there is no cause."""
        answer: Answer | None = None
        try:
            async with asyncio.timeout(HANG_SECONDS):
                while True:
                    answer = await self.ask(name, *options)
                    causes = answer["causes"] if answer else []
                    if answer and (causes[0]["kind"] if causes else None) == kind:
                        return answer
                    await asyncio.sleep(0.2)
        except TimeoutError as e:
            raise AssertionError(f"not {kind}: {json.dumps(answer, indent=1)}") from e

    async def read_answer(self, name: str, *options: str) -> str:
        """Read the answer that users see, or that the API server was too busy."""
        done = await self.run(" ".join(["framework why", name, *options]))
        assert done.code in {0, 1, ExitCode.UNREACHABLE}, done.output
        return done.output

    async def read_remedy(
        self, name: str, expected: "ExpectedAnswer", *options: str
    ) -> tuple[str, list[str]]:
        """Read answers until one is as expected; return it, and the command lines of its remedy.

        The state of a gang moves on between two answers, and its Events come after the state that
        they describe: words and remedy are those of the same answer.
        """
        answer = ""
        try:
            async with asyncio.timeout(HANG_SECONDS):
                while True:
                    await self.ask_until(name, expected.kind, *options)
                    answer = await self.read_answer(name, *options)
                    commands = expected.find_commands(answer)
                    if commands is not None:
                        return answer, commands
                    await asyncio.sleep(0.2)
        except TimeoutError as e:
            raise AssertionError(f"not {expected}:\n{answer}") from e

    async def carry_out(self, commands: list[str], values: Mapping[str, str]) -> None:
        """Run the lines of a remedy; ``values`` replace its words in capitals."""
        for command in commands:
            for word, value in values.items():
                command = re.sub(rf"\b{word}\b", value, command)  # noqa: PLW2901 each word in turn
            done = await self.run(command)
            assert done.code == 0, f"{command}\n{done.output}"


def list_remedies(answer: str) -> list[tuple[str, list[str]]]:
    """List the remedies of an answer as users see it, each with its command lines."""
    found: list[tuple[str, list[str]]] = []
    for line in answer.splitlines():
        field = _FIELD.match(line)
        if field is not None:
            found.append((field.group(1), []))
        elif line.startswith(_COMMAND_INDENT) and found:
            found[-1][1].append(line.strip())
    return found

"""Calls of the command line: as a process, as users make them, or faster, in this process."""

import asyncio
import os
import subprocess
import sys
from dataclasses import dataclass

from click.testing import CliRunner

from cli.main import main
from tests.support.servers.controlplane import Access
from tests.support.servers.frameworkserver import build_env
from tests.support.waiting import HANG_SECONDS


@dataclass(frozen=True, slots=True)
class Answer:
    """The output and the exit code of a command."""

    code: int
    out: str
    err: str


async def call_framework(kubeconfig: str, *arguments: str) -> Answer:
    """Run ``framework ARGUMENTS`` on a cluster, without blocking the event loop."""
    command = [sys.executable, "-m", "cli.main", *arguments, "--kubeconfig", kubeconfig]
    child = await asyncio.create_subprocess_exec(
        *command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=build_env()
    )
    try:
        async with asyncio.timeout(HANG_SECONDS):
            out, err = await child.communicate()
    finally:
        if child.returncode is None:
            child.kill()
            await child.wait()
    return Answer(child.returncode or 0, out.decode(), err.decode())


async def call_in_thread(kubeconfig: str, *arguments: str) -> Answer:
    """Run ``framework ARGUMENTS`` on a cluster in a thread of this process.

    Only for commands that send requests and do not wait, because a thread cannot handle signals. It
    saves the start of a Python.
    """
    words = [*arguments, "--kubeconfig", kubeconfig]
    async with asyncio.timeout(HANG_SECONDS):
        return await asyncio.to_thread(call_in_process, *words)


def call_on(access: Access, *arguments: str) -> Answer:
    """Run ``framework ARGUMENTS`` on a cluster, in this thread."""
    return call_in_process(*arguments, "--kubeconfig", access.kubeconfig)


def call_in_process(*arguments: str, **env: str) -> Answer:
    """Run ``framework ARGUMENTS`` in this thread; the cluster must run in another one."""
    kept = build_env()
    absent = {name: None for name in os.environ if name not in kept}
    result = CliRunner(env={**absent, **kept, **env}).invoke(main, arguments)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return Answer(result.exit_code, result.stdout, result.stderr)

"""``framework exec``: a program in a container of a Task."""

import asyncio
import sys
from dataclasses import dataclass

from cli.clusterchoice import ClusterChoice
from cli.exitcodes import CliError, ExitCode
from cli.invocation import build_command
from cli.session import explained, find_cluster, find_local_kubeconfig, open_client
from cli.start.channel import Command, run_remote
from cli.start.kubectl import become_kubectl, build_call
from cli.start.pods import PodChoice, TaskName, find_pod, parse_task
from cli.terminal import print_error
from framework.api.naming import is_role_name
from framework.kube.config import KubeConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecOptions:
    """Options and arguments of ``framework exec``."""

    name: str
    """The Framework."""
    task: str
    """ROLE/INDEX, as the user wrote it."""
    command: tuple[str, ...]
    """The program and its arguments."""
    container: str | None = None
    """None for the first of the Pod."""
    has_stdin: bool = False
    """Whether the program reads this program's stdin."""
    has_terminal: bool = False
    """Whether the program gets a terminal."""
    cluster: ClusterChoice
    """Cluster and namespace."""


def run_command(options: ExecOptions) -> int:
    """Run ``framework exec``; return the exit code of the program.

    On a local cluster the program is run here; on another cluster kubectl takes over.

    Raises:
        CliError: there is no such container, or it cannot be reached.
    """
    config = find_cluster(options.cluster)
    task = _parse_task(options)
    pod = asyncio.run(_find(config, task, options.container))
    has_terminal = options.has_terminal
    if has_terminal and not (options.has_stdin and sys.stdin.isatty()):
        print_error("note: no terminal for the program: -t needs -i and a terminal as input")
        has_terminal = False
    if not is_local(config):
        flags = ["-i"] * options.has_stdin + ["-t"] * has_terminal
        target = [pod.pod, "-c", pod.container, *flags, "--", *options.command]
        become_kubectl(build_call(options.cluster, pod.namespace, "exec", *target))
    command = Command(pod, options.command, options.has_stdin, has_terminal)
    try:
        return asyncio.run(run_remote(config, command))
    except KeyboardInterrupt:
        return int(ExitCode.INTERRUPTED)


def _parse_task(options: ExecOptions) -> TaskName:
    """Read the Task; a word without an index may also be the program, and the Task is missing.

    Raises:
        CliError: it is no Task.
    """
    try:
        return parse_task(options.name, options.task)
    except CliError as e:
        if not is_role_name(options.task):
            raise
        call = build_command("exec", options.name, "ROLE/INDEX", "--", options.task)
        hint = f"if {options.task!r} is the program, name the Task before it: {call} ..."
        raise CliError(e.exit_code, *e.lines, hint) from e


async def _find(
    config: KubeConfig, task: TaskName, container: str | None, *, runs_in_container: bool = True
) -> PodChoice:
    async with open_client(config) as client:
        with explained(config):
            return await find_pod(
                client, config.namespace, task, container, runs_in_container=runs_in_container
            )


def is_local(config: KubeConfig) -> bool:
    """Return whether this is a local cluster: no other sends tokens over plain HTTP."""
    return config.server.startswith("http://127.0.0.1:") and config.token is not None


def forward_ports(name: str, task_text: str, ports: tuple[str, ...], choice: ClusterChoice) -> None:
    """Run ``framework port-forward``: kubectl takes over.

    Raises:
        CliError: there is no such Task, or no kubectl.
    """
    config = find_cluster(choice)
    pod = asyncio.run(_find(config, parse_task(name, task_text), None, runs_in_container=False))
    # kubectl does not find the local cluster that runs without its kubeconfig.
    kubeconfig = find_local_kubeconfig(config) if is_local(config) else None
    if kubeconfig is not None:
        choice = ClusterChoice(str(kubeconfig), None, choice.namespace)
    become_kubectl(build_call(choice, pod.namespace, "port-forward", f"pod/{pod.pod}", *ports))

"""``framework describe``: the state of a Framework as text."""

import sys
from shutil import get_terminal_size

from cli.clusterchoice import ClusterChoice
from cli.exitcodes import ExitCode
from cli.see.description import describe
from cli.see.observation import observe_framework
from cli.session import explained, find_cluster, open_client, run_printing
from cli.terminal import print_error, print_line
from framework.clock import SystemClock
from framework.kube.config import KubeConfig


def describe_framework(name: str, cluster: ClusterChoice, *, shows_all: bool) -> ExitCode:
    """Run ``framework describe``.

    Raises:
        CliError: there is no cluster, or no such Framework.
    """
    return run_printing(_describe(name, find_cluster(cluster), shows_all=shows_all))


async def _describe(name: str, config: KubeConfig, *, shows_all: bool) -> ExitCode:
    async with open_client(config) as client:
        with explained(config):
            observed = await observe_framework(client, config.namespace, name)
    width = get_terminal_size().columns if sys.stdout.isatty() else None
    for line in describe(observed, SystemClock().now(), shows_all=shows_all, width=width):
        print_line(line)
    if note := observed.explain_hidden():
        print_error(note)
    return ExitCode.SUCCEEDED

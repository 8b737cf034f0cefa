"""``framework why``: opens the cluster, reads, and prints the answer."""

import asyncio
import json
import os
from dataclasses import dataclass
from pathlib import Path

from cli.clusterchoice import ClusterChoice
from cli.exitcodes import ExitCode
from cli.local import requires_local_cluster
from cli.loglines.query import KeptLogs
from cli.printing.yamltext import render_yaml
from cli.session import (
    explained,
    find_cluster,
    find_local_directory,
    find_local_kubeconfig,
    open_client,
)
from cli.terminal import print_document, print_line
from cli.why.answers import build_structure, render_text
from cli.why.commands import Commands
from cli.why.gathering import Gatherer
from cli.why.ranking import find_causes
from framework.api.constants import KUBECONFIG_ENV
from framework.clock import SystemClock
from framework.kube.config import KubeConfig


@dataclass(frozen=True, slots=True)
class WhyOptions:
    """The options of ``framework why``."""

    name: str
    cluster: ClusterChoice = ClusterChoice()  # noqa: RUF009 frozen
    shows_all: bool = False
    output: str = "text"
    """``text``, ``json`` or ``yaml``."""


def explain(options: WhyOptions) -> ExitCode:
    """Print the answer.

    Returns:
        SUCCEEDED if nothing is wrong, FAILED if something holds the Framework or it failed.

    Raises:
        CliError: the cluster cannot be reached, or has no such Framework.
    """
    config = find_cluster(options.cluster)
    return asyncio.run(_explain(options, config))


async def _explain(options: WhyOptions, config: KubeConfig) -> ExitCode:
    directory = find_local_directory(config)
    kubeconfig = find_local_kubeconfig(config)
    commands = Commands(
        options.name,
        options.cluster,
        _find_kubeconfig(directory, options.cluster),
        None if kubeconfig is None else str(kubeconfig),
    )
    kept = None if directory is None else _open_kept_logs(directory)
    async with open_client(config) as client:
        with explained(config):
            gatherer = Gatherer(client, config.namespace, options.name, kept)
            observation = await gatherer.gather(
                commands, SystemClock().now(), is_local=directory is not None
            )
    causes = find_causes(observation)
    if options.output == "text":
        for line in render_text(observation, causes, shows_all=options.shows_all):
            print_line(line)
    else:
        structure = build_structure(observation, causes)
        is_json = options.output == "json"
        text = json.dumps(structure, indent=2) + "\n" if is_json else render_yaml([structure])
        print_document(text)
    return ExitCode.FAILED if causes else ExitCode.SUCCEEDED


def _find_kubeconfig(directory: Path | None, choice: ClusterChoice) -> str | None:
    """Find the kubeconfig of a local cluster that no option and no variable names."""
    if directory is None or choice.kubeconfig or os.environ.get(KUBECONFIG_ENV):
        return None
    return str(directory / "kubeconfig")


def _open_kept_logs(directory: Path) -> KeptLogs:
    with requires_local_cluster():
        from cli.local.keptlogs import open_logs
    return open_logs(directory)

"""Calls kubectl for the same cluster."""

import os
import shlex
import shutil
from typing import NoReturn

from cli.clusterchoice import ClusterChoice
from cli.exitcodes import CliError, ExitCode
from framework.api.constants import KUBE_APISERVER_ADDRESS_ENV

PROGRAM = "kubectl"


def build_call(choice: ClusterChoice, namespace: str, *arguments: str) -> list[str]:
    """Build a call of kubectl for the cluster that the options of our command name."""
    words = [PROGRAM]
    if choice.kubeconfig:
        words += ["--kubeconfig", choice.kubeconfig]
    if choice.context:
        words += ["--context", choice.context]
    address = os.environ.get(KUBE_APISERVER_ADDRESS_ENV)
    if address:
        words += ["--server", address]
    return [*words, "--namespace", namespace, *arguments]


def become_kubectl(call: list[str]) -> NoReturn:
    """Replace this process by kubectl, so that signals and the exit code are those of kubectl.

    Raises:
        CliError: it is not on the PATH.
    """
    if shutil.which(PROGRAM) is None:
        raise CliError(
            ExitCode.USAGE,
            "kubectl is not on the PATH, and this command needs it: install it "
            "(kubernetes.io/docs/tasks/tools), or run this where it is:",
            f"  {shlex.join(call)}",
        )
    os.execvp(PROGRAM, call)  # noqa: S606 the user's own kubectl

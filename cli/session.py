"""Opens the client of a command, and turns its errors into messages and exit codes."""

import asyncio
import os
import re
import sys
from collections.abc import AsyncIterator, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from cli.checkedclient import CheckedClient
from cli.clusterchoice import ClusterChoice
from cli.exitcodes import CliError, ExitCode
from cli.invocation import build_command, build_export
from cli.local import requires_local_cluster
from cli.terminal import print_error, silence
from cli.texts.diagnostics import strip_noise
from framework.api.completion import QUOTA_WORDS
from framework.api.constants import KUBECONFIG_ENV
from framework.api.text import describe_server
from framework.clock import SystemClock
from framework.kube.client import KubeClient
from framework.kube.config import ConfigError, KubeConfig, NoServerError, load_kube_config
from framework.kube.errors import (
    ApiError,
    ForbiddenError,
    KubeError,
    UnauthorizedError,
    UnreachableError,
)
from framework.kube.tokenurl import url_with_token
from framework.kube.transport import JSON
from framework.version import VERSION

_REACH_SECONDS = 10.0
_NO_CLUSTER = (
    "no cluster is configured: name a kubeconfig with --kubeconfig or $KUBECONFIG, or create "
    "~/.kube/config"
)
# The words of admission policies and webhooks; a missing right has other words.
_DENIED = re.compile(r"\bdenied (?:the )?request\b")


class NoClusterError(CliError):
    """No cluster is configured at all: no kubeconfig is there, and this is not a Pod."""


def find_cluster(choice: ClusterChoice, *, otherwise: str | None = None) -> KubeConfig:
    """Find the API server that a command talks to.

    Its namespace is that of the options, else that of the context.

    Args:
        choice: what the options name.
        otherwise: how the command works without a cluster; None if it does not.

    Raises:
        NoClusterError: no cluster is configured.
        CliError: the configuration cannot work.
    """
    try:
        config = load_kube_config(None, choice.kubeconfig, os.environ, context=choice.context)
    except ConfigError as e:
        fault = _NO_CLUSTER if isinstance(e, NoServerError) else str(e)
        stale = [] if choice.kubeconfig else _explain_stale()
        is_open = not stale and choice.context is None and isinstance(e, NoServerError)
        local = list_local_clusters() if is_open else []
        if local:
            print_error(
                f"note: no cluster is configured; using the local cluster in {local[0].directory}"
            )
            return _with_namespace(local[0].config, choice)
        if not isinstance(e, NoServerError):
            raise CliError(ExitCode.USAGE, *stale, fault) from e
        # The missing file is the fault: that no other cluster is configured is no news.
        lines = [*(stale or [fault]), *([otherwise] if otherwise else [])]
        raise NoClusterError(ExitCode.USAGE, *lines) from e
    if not choice.kubeconfig:
        for line in _explain_stale():
            print_error(f"warning: {line}; now using {describe_server(config.server)}")
    return _with_namespace(_without_token_path(config), choice)


def _with_namespace(config: KubeConfig, choice: ClusterChoice) -> KubeConfig:
    return replace(config, namespace=choice.namespace or config.namespace)


class LocalCluster(NamedTuple):
    """A local cluster of this user that runs."""

    config: KubeConfig
    directory: Path
    """Directory of its logs."""
    kubeconfig: Path


def list_local_clusters() -> list[LocalCluster]:
    """List the local clusters of this user that run."""
    try:
        with requires_local_cluster():
            from cli.local.state import list_running
        running = list_running()
    except CliError:
        # Not installed, or another user can write the state file, which is then ignored.
        return []
    found = []
    for cluster in running:
        # A user may have removed its kubeconfig.
        with suppress(ConfigError):
            config = load_kube_config(None, str(cluster.kubeconfig), {})
            own = _without_token_path(config)
            found.append(LocalCluster(own, cluster.directory, cluster.kubeconfig))
    return found


def find_local_directory(config: KubeConfig) -> Path | None:
    """Find the directory of the local cluster at this address; None if it is another cluster."""
    found = _find_local(config)
    return found and found.directory


def find_local_kubeconfig(config: KubeConfig) -> Path | None:
    """Find the kubeconfig of the local cluster at this address; None if it is another cluster."""
    found = _find_local(config)
    return found and found.kubeconfig


def _find_local(config: KubeConfig) -> LocalCluster | None:
    clusters = list_local_clusters()
    return next((each for each in clusters if each.config.server == config.server), None)


def _explain_stale() -> list[str]:
    """Explain that the file of $KUBECONFIG does not exist, so another cluster was tried."""
    named = os.environ.get(KUBECONFIG_ENV, "")
    if not named or any(Path(path).is_file() for path in named.split(":") if path):
        return []
    fault = f"$KUBECONFIG: no such file: {named}"
    running = list_local_clusters()
    if running:
        export = build_export(KUBECONFIG_ENV, str(running[0].kubeconfig))
        return [f"{fault}; a local cluster runs: to use it, run `{export}`"]
    again = build_command("local", "up", "--detach", "--kubeconfig", named)
    line = (
        f"{fault}; if it was that of a local cluster, start it again with `{again}`, else set it "
        "to a file that exists, or unset it"
    )
    return [line]


def _without_token_path(config: KubeConfig) -> KubeConfig:
    """Remove the token from the URL of a local cluster.

    The client sends the token in a header, and messages show the URL.
    """
    if not config.token:
        return config
    return replace(config, server=config.server.removesuffix(url_with_token("", config.token)))


@asynccontextmanager
async def open_client(config: KubeConfig, *, accept: str = JSON) -> AsyncIterator[KubeClient]:
    """Open a client and make sure that the server answers.

    Args:
        config: where the server is.
        accept: the form of objects; ``TABLE`` for those that kubectl prints.

    Raises:
        CliError: the server does not answer, or refuses the credentials.
    """
    try:
        async with CheckedClient(
            config, user_agent=f"framework/{VERSION}", clock=SystemClock(), accept=accept
        ) as client:
            with explained(config):
                await client.get_raw("/version", timeout_seconds=_REACH_SECONDS)
            yield client
    except ConfigError as e:
        raise CliError(ExitCode.USAGE, str(e)) from e


@contextmanager
def explained(config: KubeConfig, *, refused: ExitCode = ExitCode.FAILED) -> Iterator[None]:
    """Turn errors of the API into those of the command line.

    Args:
        config: its server is named in the messages.
        refused: exit code if the server answers, and refuses the request of a known user.
    """
    try:
        yield
    except UnreachableError as e:
        raise CliError(
            ExitCode.UNREACHABLE,
            f"the API server {describe_server(config.server)} cannot be reached: "
            f"{strip_noise(str(e))}; check --kubeconfig and that the server runs",
        ) from e
    except (UnauthorizedError, ForbiddenError) as e:
        server = f"the API server {describe_server(config.server)}"
        if QUOTA_WORDS in e.message:
            raise CliError(
                refused,
                f"{server} refuses this: {e.message}; delete objects that are no longer needed, "
                "or ask the administrator for a larger quota",
            ) from e
        if _DENIED.search(e.message):
            raise CliError(
                refused,
                f"{server} refuses this: {e.message}; change the file, or ask the administrator "
                "about this policy",
            ) from e
        raise CliError(
            ExitCode.UNREACHABLE,
            f"{server} refuses this: {e.message}; "
            "ask for the right, or use the kubeconfig of a user who has it",
        ) from e
    except ApiError as e:
        code = ExitCode.USAGE if e.status in {400, 422} else refused
        code = ExitCode.UNREACHABLE if e.is_transient else code
        raise CliError(code, f"{e.method} {e.path}: {e.message or e.reason}") from e
    except KubeError as e:
        raise CliError(ExitCode.UNREACHABLE, str(e)) from e


def run_printing(printing: Coroutine[Any, Any, ExitCode]) -> ExitCode:
    """Print until the end, until Ctrl-C, or until the reader of the pipe has closed it."""
    try:
        return asyncio.run(printing)
    except KeyboardInterrupt:
        return ExitCode.INTERRUPTED
    except BrokenPipeError:
        pass
    except BaseExceptionGroup as group:
        if group.subgroup(BrokenPipeError) is None:
            raise
    silence(sys.stdout)
    return ExitCode.SUCCEEDED

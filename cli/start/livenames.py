"""Names that exist on the cluster, for the completion of a shell.

A shell waits for these names while its user types, so this module uses the agents' small HTTP
client instead of ``KubeClient``, whose import alone takes longer than a completion may take.
Each function returns no names if the cluster does not answer in time, for any reason.
"""

import json
import os
import re
from collections.abc import Iterator
from contextlib import suppress
from typing import Any
from urllib.parse import urlencode

from cli.clusterchoice import ClusterChoice
from cli.exitcodes import CliError
from cli.local import requires_local_cluster
from framework.agent.access import Access, AccessError, parse_address
from framework.agent.clock import AgentClock
from framework.agent.connection import Connection, UnreachableError
from framework.kube import kubeconfig
from framework.kube.config import ConfigError, KubeConfig, NoServerError, load_kube_config
from framework.kube.resources import FRAMEWORKS, NAMESPACES, TABLE, Resource

TIMEOUT_SECONDS = 1.0
PLUGIN_TIMEOUT_SECONDS = 2.0
"""For a credential plugin of the kubeconfig, which may ask another server for a token."""
_PAGE_SIZE = 500
MAX_INDICES = 200
"""Tasks of one role that are offered."""
# Names are put into the user's command line: no character that a shell interprets may be in them.
_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?\Z")
_CONTEXT = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/@+-]{0,252}\Z")


def list_frameworks(choice: ClusterChoice) -> list[str]:
    """List the names of the Frameworks in the namespace of the command."""
    return _list_names(choice, FRAMEWORKS)


def list_namespaces(choice: ClusterChoice) -> list[str]:
    """List the names of the namespaces."""
    return _list_names(choice, NAMESPACES)


def list_contexts(choice: ClusterChoice) -> list[str]:
    """List the contexts of the kubeconfig."""
    try:
        paths = kubeconfig.find_paths(choice.kubeconfig, os.environ)
        names = kubeconfig.read_merged(paths).entries["contexts"] if paths else ()
    except (ConfigError, OSError):
        return []
    return [name for name in names if _CONTEXT.match(name)]


def read_roles(choice: ClusterChoice, framework: str) -> dict[str, tuple[list[int], list[str]]]:
    """Read the roles of a Framework, each with the indices of its Tasks and its containers."""
    if not _NAME.match(framework):
        return {}
    with suppress(*_FAULTS):
        config = _find_config(choice)
        path = FRAMEWORKS.path(choice.namespace or config.namespace, framework)
        spec = _fetch(config, path, "application/json")["spec"]
        return dict(_parse_role(role) for role in spec["taskRoles"] if _NAME.match(role["name"]))
    return {}


def _parse_role(role: dict[str, Any]) -> tuple[str, tuple[list[int], list[str]]]:
    absent = frozenset(role.get("absentTaskIndices") or ())
    indices = [i for i in range(min(role["taskNumber"], MAX_INDICES)) if i not in absent]
    pod = role["task"]["pod"]["spec"]
    containers = [*pod["containers"], *(pod.get("initContainers") or ())]
    names = [str(container.get("name", "")) for container in containers]
    return role["name"], (indices, [name for name in names if _NAME.match(name)])


# After any fault of the configuration or of the answer, the user sees no completion.
_FAULTS = (
    *(AccessError, CliError, ConfigError, UnreachableError, OSError, TimeoutError),
    *(ValueError, TypeError, KeyError, AttributeError, IndexError, RecursionError, LookupError),
)


def _list_names(choice: ClusterChoice, resource: Resource) -> list[str]:
    names: list[str] = []
    with suppress(*_FAULTS):
        config = _find_config(choice)
        namespace = (choice.namespace or config.namespace) if resource.namespaced else None
        names.extend(name for name in _read_pages(config, resource.path(namespace)))
    return [name for name in names if _NAME.match(name)]


def _read_pages(config: KubeConfig, path: str) -> Iterator[str]:
    """Read the first column of a table, until it ends or the time is over."""
    clock = AgentClock()
    deadline = clock.monotonic() + TIMEOUT_SECONDS
    query = {"limit": str(_PAGE_SIZE), "includeObject": "None"}
    while clock.monotonic() < deadline:
        table = _fetch(config, f"{path}?{urlencode(query)}", TABLE)
        yield from (str(row["cells"][0]) for row in table["rows"])
        query["continue"] = table["metadata"].get("continue") or ""
        if not query["continue"]:
            return


def _fetch(config: KubeConfig, path: str, accept: str) -> Any:
    connection = Connection(_build_access(config), AgentClock(), TIMEOUT_SECONDS, accept=accept)
    try:
        answer = connection.fetch("GET", path)
    finally:
        connection.close()
    if answer.head.status != 200:  # noqa: PLR2004 the only success of a GET
        raise UnreachableError(answer.describe())
    return json.loads(answer.body)


def _find_config(choice: ClusterChoice) -> KubeConfig:
    """Find the cluster as ``cli.session.find_cluster`` does, without its messages.

    Raises:
        ConfigError: there is none, or it is behind a proxy, which the small client cannot use.
    """
    try:
        config = load_kube_config(None, choice.kubeconfig, os.environ, context=choice.context)
    except NoServerError:
        if choice.kubeconfig or choice.context:
            raise
        config = _find_local_config()
    if config.proxy_url:
        raise ConfigError("proxy-url", "completion does not use proxies", "type the name")
    return config


def _find_local_config() -> KubeConfig:
    """Read the kubeconfig of the local cluster that runs."""
    with requires_local_cluster():
        from cli.local.state import list_running
    for cluster in list_running():
        return load_kube_config(None, str(cluster.kubeconfig), {})
    raise NoServerError("cluster", "no cluster is configured", "name a kubeconfig")


def _build_access(config: KubeConfig) -> Access:
    tls, host, port, prefix = parse_address(config.server)
    return Access(
        host=host,
        port=port,
        tls=tls,
        path_prefix=prefix,
        server_name=config.tls_server_name or "",
        token=config.token or _ask_plugin(config),
        token_file=config.token_file or "",
        ca_file=config.ca_file or "",
        ca_pem=config.ca_pem or "",
        verify=config.verify,
        client_cert_file=config.client_cert_file or "",
        client_key_file=config.client_key_file or "",
        client_cert_pem=config.client_cert_pem or "",
        client_key_pem=config.client_key_pem or "",
    )


def _ask_plugin(config: KubeConfig) -> str:
    """Run the credential plugin, if the kubeconfig has one; it may not ask its user here."""
    if config.exec_plugin is None or config.token_file:
        return ""
    import asyncio

    from framework.kube.execplugin import PluginError, run_plugin

    spec = {**config.exec_plugin.spec, "interactiveMode": "Never"}
    try:
        status = asyncio.run(asyncio.wait_for(run_plugin(spec), PLUGIN_TIMEOUT_SECONDS))
    except PluginError as e:
        raise ConfigError("exec", str(e), "type the name") from e
    return str(status.get("token") or "")

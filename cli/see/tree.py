"""``framework tree``: a Framework's roles, Tasks, Pods and further objects."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import islice

from cli.clusterchoice import ClusterChoice
from cli.exitcodes import ExitCode
from cli.files.templates import get_account, list_roles
from cli.printing.forms import OutputFormat
from cli.printing.output import Printer
from cli.see.drawing import render_tree
from cli.see.gangtree import build_tree
from cli.see.observation import ObservedFramework, observe_framework
from cli.session import explained, find_cluster, open_client, run_printing
from cli.terminal import print_document, print_error, print_line
from framework.api.gang_key import refers_to_gang_key
from framework.api.naming import build_gang_key_name
from framework.api.states import FrameworkState
from framework.clock import SystemClock
from framework.kube.client import KubeClient
from framework.kube.config import KubeConfig
from framework.kube.errors import ForbiddenError, NotFoundError
from framework.kube.resources import (
    CONFIGMAPS,
    METADATA,
    SECRETS,
    SERVICE_ACCOUNTS,
    Object,
    Resource,
)

_MAX_ACCOUNTS = 10


def print_tree(
    name: str, cluster: ClusterChoice, output: OutputFormat, *, shows_all: bool
) -> ExitCode:
    """Run ``framework tree``.

    Raises:
        CliError: there is no cluster, or no such Framework.
    """
    return run_printing(_print(name, find_cluster(cluster), output, shows_all=shows_all))


async def _print(
    name: str, config: KubeConfig, output: OutputFormat, *, shows_all: bool
) -> ExitCode:
    async with open_client(config) as client:
        with explained(config):
            observed = await observe_framework(client, config.namespace, name)
    # Metadata only, so that the server does not send the data of the Secret.
    async with open_client(config, accept=METADATA) as client:
        with explained(config):
            objects, lacking = await _find_objects(client, config.namespace, observed)
    observed = replace(observed, hidden=(*observed.hidden, *lacking))
    now = SystemClock().now()
    tree = build_tree(observed, objects, now)
    if output.is_table:
        for line in render_tree(tree, now, shows_all=shows_all):
            print_line(line)
    else:
        print_document(Printer(output).render([tree.to_wire()], is_list=False), keep="\n\t")
    if note := observed.explain_hidden():
        print_error(note)
    return ExitCode.SUCCEEDED


async def _find_objects(
    client: KubeClient, namespace: str, observed: ObservedFramework
) -> tuple[list[str], list[str]]:
    """Find the further objects of the gang; return them, and the rights that the user lacks."""
    found: list[str] = []
    lacking: list[str] = []
    is_completed = _is_completed(observed.framework)
    if observed.configmap is not None:
        found.append(f"{CONFIGMAPS.kind}/{observed.configmap['metadata']['name']}")
    for resource, name in _list_expected(observed.framework):
        try:
            await client.get(resource, namespace, name)
            found.append(f"{resource.kind}/{name}")
        except NotFoundError:
            if not is_completed:
                found.append(f"{resource.kind}/{name} (missing)")
            elif resource is SECRETS:
                found.append(f"{resource.kind}/{name} (deleted with its attempt)")
        except ForbiddenError:
            right = f"get {resource.plural}"
            lacking += [right] if right not in lacking else []
    return found, lacking


def _is_completed(framework: Object) -> bool:
    """Return whether a Framework has ended: the gang key is deleted, and no account is needed."""
    status = framework.get("status")
    return isinstance(status, Mapping) and status.get("state") == FrameworkState.COMPLETED


def _list_expected(framework: Object) -> Iterator[tuple[Resource, str]]:
    """List the Secret and the service accounts that the Pod templates name."""
    roles = list(list_roles(framework))
    name = str(framework["metadata"]["name"])
    if any(refers_to_gang_key(role.body["task"]["pod"], name) for role in roles):
        yield SECRETS, build_gang_key_name(name)
    accounts = dict.fromkeys(account for role in roles if (account := get_account(role)))
    for account in islice(accounts, _MAX_ACCOUNTS):
        yield SERVICE_ACCOUNTS, account

"""``framework run --dry-run``: prints the objects that would be created or changed."""

from cli.dryrun import CLIENT, describe_dry_run
from cli.files.manifests import Manifest, Manifests
from cli.running.apply import create, ensure_accepted, find_existing
from cli.running.sshkeys import check_chosen, find_creatable
from cli.terminal import print_error, print_line
from framework.kube.client import KubeClient
from framework.kube.errors import AlreadyExistsError
from framework.kube.resources import NAMESPACES

_CREATED, _CONFIGURED, _UNCHANGED, _REPLACED = "created", "configured", "unchanged", "replaced"


def show_files(manifests: Manifests) -> None:
    """Print the objects that the files would create; send nothing to a cluster."""
    for manifest in (*manifests.supporting, *manifests.frameworks):
        _show(manifest, _CREATED, CLIENT)
    for key in manifests.keys:
        if key.is_created:
            print_line(f"{key.title} {_CREATED}{describe_dry_run(CLIENT)}")


async def show_answers(
    client: KubeClient, manifests: Manifests, *, replaces: bool, dry_run: str
) -> None:
    """Let the server check every object without storing it, and print the changes.

    Raises:
        CliError: a Framework exists and may not be replaced, there is no such namespace, or a
            Secret of the user is missing.
        KubeError: the server refuses an object.
    """
    existing = await find_existing(client, manifests.frameworks, replaces=replaces)
    await check_chosen(client, manifests.keys, print_error)
    old = {(manifest.namespace, manifest.name) for manifest, _ in existing}
    new_namespaces: set[str] = set()
    for manifest in manifests.supporting:
        is_checked = manifest.namespace not in new_namespaces
        verb = await _check_supporting(client, manifest) if is_checked else _CREATED
        if manifest.resource is NAMESPACES and verb is _CREATED:
            new_namespaces.add(manifest.name)
        _show(manifest, verb, dry_run, is_checked=is_checked)
    for manifest in manifests.frameworks:
        is_checked = manifest.namespace not in new_namespaces
        if is_checked:
            await ensure_accepted(client, manifest)
        is_old = (manifest.namespace, manifest.name) in old
        _show(manifest, _REPLACED if is_old else _CREATED, dry_run, is_checked=is_checked)
    for key in await find_creatable(client, manifests.keys):
        print_line(f"{key.title} {_CREATED}{describe_dry_run(dry_run)}")


async def _check_supporting(client: KubeClient, manifest: Manifest) -> str:
    try:
        await create(client, manifest, dry_run=True)
    except AlreadyExistsError:
        if manifest.resource is NAMESPACES:
            return _UNCHANGED
        place = (manifest.resource, manifest.namespace, manifest.name)
        await client.patch(*place, manifest.body, dry_run=True)
        return _CONFIGURED
    return _CREATED


def _show(manifest: Manifest, verb: str, dry_run: str, *, is_checked: bool = True) -> None:
    group = manifest.resource.group
    kind = manifest.resource.kind.lower() + (f".{group}" if group else "")
    note = "" if is_checked else ", not checked: its namespace is new"
    print_line(f"{kind}/{manifest.name} {verb}{describe_dry_run(dry_run)}{note}")

"""Applies all objects of the user's files, or none of them.

An existing Framework is refused, or replaced. Any other object is created, or patched if it exists.
If the server refuses an object, the changes before it are undone. A deletion cannot be undone, so
existing Frameworks are deleted after a dry run of all later changes.
"""

import asyncio
import contextlib
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from cli.exitcodes import CliError, ExitCode
from cli.files.manifests import Manifest, Manifests
from cli.frameworks import check_served
from cli.invocation import build_command
from cli.running.sshkeys import check_chosen, create_keys
from cli.terminal import print_error, print_line
from framework.api.completion import QUOTA_WORDS
from framework.kube.client import KubeClient
from framework.kube.errors import AlreadyExistsError, ForbiddenError, KubeError, NotFoundError
from framework.kube.resources import FRAMEWORKS, NAMESPACES, Object

_GONE_SECONDS = 120.0
_POLL_SECONDS = 0.2
_LOCALLY = "run on this machine with --local"
_Undo = Callable[[], Coroutine[Any, Any, object]]


async def apply_all(
    client: KubeClient,
    manifests: Manifests,
    say: Callable[[str], None] = print_line,
    remark: Callable[[str], None] = print_error,
    *,
    replaces: bool,
) -> list[Object]:
    """Apply everything and return the Frameworks as stored, in the order of the files.

    Args:
        client: of the cluster.
        manifests: of the files.
        say: prints a line about a Secret that is created.
        remark: prints a warning about a Secret that may not be read or created.
        replaces: whether to delete Frameworks of these names first.

    Raises:
        CliError: a Framework exists and may not be replaced, there is no such namespace, or a
            Secret of the user is missing.
        KubeError: the server refused; nothing of ours is left.
    """
    existing = await find_existing(client, manifests.frameworks, replaces=replaces)
    await check_chosen(client, manifests.keys, remark)
    undos: list[_Undo] = []
    try:
        for manifest in manifests.supporting:
            await _apply_supporting(client, manifest, undos)
        if existing:
            for manifest in manifests.frameworks:
                await ensure_accepted(client, manifest)
            await _delete_all(client, existing)
        created = []
        for manifest in manifests.frameworks:
            stored = await _create_framework(client, manifest)
            undos.append(_build_deletion(client, manifest, stored))
            created.append(stored)
        await create_keys(client, manifests.keys, created, say, remark)
    except BaseException:
        for undo in reversed(undos):
            await _try_undo(undo)
        raise
    return created


async def find_existing(
    client: KubeClient, frameworks: Sequence[Manifest], *, replaces: bool
) -> list[tuple[Manifest, Object]]:
    """Find the Frameworks of the files that exist, as stored.

    Raises:
        CliError: one exists and may not be replaced, or the cluster does not know Frameworks.
    """
    existing = []
    for manifest in frameworks:
        try:
            stored = await client.get(FRAMEWORKS, manifest.namespace, manifest.name)
        except NotFoundError as e:
            check_served(e, _LOCALLY)
            continue
        existing.append((manifest, stored))
    if existing and not replaces:
        raise CliError(ExitCode.USAGE, *(_explain_existing(m) for m, _ in existing))
    return existing


async def ensure_accepted(client: KubeClient, manifest: Manifest) -> None:
    """Check with a dry run that the server accepts the object; an existing name is no fault."""
    try:
        with contextlib.suppress(AlreadyExistsError):
            await create(client, manifest, dry_run=True)
    except ForbiddenError as e:
        # The quota still counts the object that will be replaced.
        if QUOTA_WORDS not in e.message:
            raise


async def _delete_all(client: KubeClient, existing: Sequence[tuple[Manifest, Object]]) -> None:
    """Delete them, and wait until they and their Pods do not exist any more."""
    for manifest, stored in existing:
        uid = stored["metadata"]["uid"]
        await client.delete(
            FRAMEWORKS, manifest.namespace, manifest.name, uid=uid, propagation="Foreground"
        )
    for manifest, _ in existing:
        await _wait_gone(client, manifest)


def _explain_existing(manifest: Manifest) -> str:
    """Explain that a Framework of the files exists, and what to do."""
    delete = build_command("delete", str(manifest.name), "-n", str(manifest.namespace))
    return (
        f"{manifest.place.locate('metadata.name')}: metadata.name: a Framework "
        f"{manifest.name!r} exists in namespace "
        f"{manifest.namespace}: delete it (`{delete}`), use --replace, or take another name"
    )


async def _wait_gone(client: KubeClient, manifest: Manifest) -> None:
    try:
        async with asyncio.timeout(_GONE_SECONDS):
            while True:
                try:
                    await client.get(FRAMEWORKS, manifest.namespace, manifest.name)
                except NotFoundError:
                    return
                await asyncio.sleep(_POLL_SECONDS)
    except TimeoutError as e:
        raise CliError(
            ExitCode.USAGE,
            f"{manifest.title}: the old one is not deleted after {_GONE_SECONDS:.0f} s; check the "
            "finalizers of its Pods, and the controller",
        ) from e


async def _create_framework(client: KubeClient, manifest: Manifest) -> Object:
    try:
        return await create(client, manifest)
    except AlreadyExistsError as e:
        raise CliError(ExitCode.USAGE, _explain_existing(manifest)) from e


async def create(client: KubeClient, manifest: Manifest, *, dry_run: bool = False) -> Object:
    """Create an object.

    Raises:
        CliError: there is no such namespace.
        KubeError: the server refuses it.
    """
    try:
        return await client.create(
            manifest.resource, manifest.namespace, manifest.body, dry_run=dry_run
        )
    except NotFoundError as e:
        details = (e.body or {}).get("details") or {}
        if details.get("kind") != NAMESPACES.plural:
            raise
        raise CliError(
            ExitCode.USAGE,
            f"{manifest.place.locate('metadata.name')}: metadata.namespace: there is no namespace "
            f"{manifest.namespace!r}: create it (kubectl create namespace {manifest.namespace}), "
            "put a Namespace of this name into the file, or take another one with --namespace",
        ) from e


async def _apply_supporting(client: KubeClient, manifest: Manifest, undos: list[_Undo]) -> None:
    try:
        stored = await create(client, manifest)
    except AlreadyExistsError:
        if manifest.resource is NAMESPACES:
            return
        before = await client.get(manifest.resource, manifest.namespace, manifest.name)
        await client.patch(manifest.resource, manifest.namespace, manifest.name, manifest.body)
        undos.append(_build_restoration(client, manifest, before))
    else:
        undos.append(_build_deletion(client, manifest, stored))


def _build_deletion(client: KubeClient, manifest: Manifest, stored: Object) -> _Undo:
    async def undo() -> None:
        uid = stored["metadata"]["uid"]
        await client.delete(manifest.resource, manifest.namespace, manifest.name, uid=uid)

    return undo


def _build_restoration(client: KubeClient, manifest: Manifest, before: Object) -> _Undo:
    async def undo() -> None:
        metadata = {k: v for k, v in before["metadata"].items() if k != "resourceVersion"}
        body = {**before, "metadata": metadata}
        await client.replace(manifest.resource, manifest.namespace, manifest.name, body)

    return undo


async def _try_undo(undo: _Undo) -> None:
    try:
        await undo()
    except KubeError as e:
        # The caller reports the error that caused the undo; this message adds to it.
        if not isinstance(e, NotFoundError):
            print_error(f"warning: could not undo what was applied: {e}")

"""Sends changes of Frameworks to the API server.

A patch tests the fields from which it was computed. If another client has changed them meanwhile,
the server refuses the patch, and the change is computed again from the new object, at most five
times.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from cli.dryrun import CLIENT, SERVER
from cli.exitcodes import CliError, ExitCode
from cli.frameworks import Selection, find_frameworks
from cli.steer.changes import Change, Computation, Gang, apply_operations, read_gang
from cli.steer.ownership import check_change
from framework.kube.client import KubeClient, PatchContent
from framework.kube.errors import ConflictError, InvalidError, NotFoundError
from framework.kube.resources import FRAMEWORKS, Object

_TRIES = 5
_PAUSE_SECONDS = 0.1


@dataclass(frozen=True, slots=True)
class Outcome:
    """A change that was made, or, in a dry run, would be."""

    before: Gang
    """The Framework that was read."""
    change: Change
    """The change."""
    after: Object
    """The Framework as stored."""


async def fetch_gang(client: KubeClient, namespace: str, name: str) -> Gang:
    """Read a Framework.

    Raises:
        CliError: there is no such Framework.
        KubeError: it cannot be read.
    """
    found = await find_frameworks(client, Selection((name,), namespace))
    if found.faults:
        raise CliError(ExitCode.FAILED, *found.faults)
    return read_gang(found.items[0])


async def change_framework(
    client: KubeClient, namespace: str, name: str, compute: Computation, *, dry_run: str
) -> Outcome:
    """Read a Framework, compute its change and send it.

    Raises:
        CliError: there is no such Framework, or it cannot be changed so.
        KubeError: the server cannot be reached, or refuses the change.
    """
    refused: Sequence[Object] = ()
    uid = ""
    for _ in range(_TRIES):
        gang = await fetch_gang(client, namespace, name)
        if uid and gang.uid != uid:
            raise CliError(
                ExitCode.FAILED,
                f"{name}: nothing was changed: it was deleted and created again meanwhile; if the "
                "new one is meant, try again",
            )
        uid = gang.uid
        change = compute(gang)
        if not change.operations:
            return Outcome(gang, change, gang.body)
        check_change(gang.body, change.operations)
        if dry_run == CLIENT:
            return Outcome(gang, change, apply_operations(gang.body, change.operations))
        try:
            stored = await client.patch(
                FRAMEWORKS,
                namespace,
                name,
                change.operations,
                content=PatchContent.JSON,
                dry_run=dry_run == SERVER,
            )
            return Outcome(gang, change, stored)
        except (InvalidError, ConflictError) as e:
            # 422 is also the answer to a test that fails. If it repeats although the tested fields
            # have not changed, the server refuses the new value.
            if isinstance(e, InvalidError) and refused == change.operations:
                raise
            refused = change.operations
        except NotFoundError:
            pass
        await asyncio.sleep(_PAUSE_SECONDS)
    raise CliError(
        ExitCode.FAILED,
        f"{name}: nothing was changed: others changed it {_TRIES} times meanwhile; try again",
    )


async def delete_object(
    client: KubeClient, namespace: str, body: Object, *, propagation: str, dry_run: str
) -> bool:
    """Delete a Framework that was read; return whether it still existed.

    Raises:
        KubeError: the server cannot be reached, or refuses.
    """
    if dry_run == CLIENT:
        return True
    metadata = body["metadata"]
    try:
        await client.delete(
            FRAMEWORKS,
            namespace,
            str(metadata["name"]),
            uid=str(metadata["uid"]),
            propagation=propagation,
            dry_run=dry_run == SERVER,
        )
    except (NotFoundError, ConflictError):
        # The Framework that was read is gone; another one may have its name now.
        return False
    return True

"""Watches Frameworks, and passes on each change once, also across broken connections."""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress

from cli.frameworks import Selection, add_kind
from cli.objects import read_metadata
from cli.terminal import print_error
from framework.clock import SystemClock, SystemRandom
from framework.kube.client import KubeClient
from framework.kube.errors import ForbiddenError, KubeError, NotFoundError, UnauthorizedError
from framework.kube.listwatch import ListWatch
from framework.kube.resources import FRAMEWORKS, Object, Resource

_ChangeListener = Callable[[Object], None]
_FATAL = (ForbiddenError, UnauthorizedError, NotFoundError)


class Changes:
    """Passes on objects, or rows, whose version was not passed on before."""

    def __init__(self, known: Sequence[Object], show: _ChangeListener) -> None:
        self._show = show
        self._versions = {_read_uid(item): _read_version(item) for item in known}

    def replace(self, items: list[Object], resource_version: str) -> None:
        """Take a complete list; pass on the objects that changed during a lost connection."""
        del resource_version
        for item in items:
            self._take(item)
        listed = {_read_uid(item) for item in items}
        self._versions = {uid: v for uid, v in self._versions.items() if uid in listed}

    def apply(self, event_type: str, obj: Object) -> None:
        """Take one change; that of a Table has rows."""
        for item in obj["rows"] if obj.get("kind") == "Table" else [obj]:
            self._take(item)
            if event_type == "DELETED":
                self._versions.pop(_read_uid(item), None)

    def bookmark(self, resource_version: str) -> None:
        """Nothing to do: nothing changed."""

    def _take(self, item: Object) -> None:
        uid, version = _read_uid(item), _read_version(item)
        if self._versions.get(uid) == version:
            return
        self._versions[uid] = version
        self._show(item)


async def watch_frameworks(
    client: KubeClient, selection: Selection, known: Sequence[Object], show: _ChangeListener
) -> None:
    """Call ``show`` with each change of the selected Frameworks, until cancelled.

    Args:
        client: returns objects or Tables.
        selection: with at most one name.
        known: objects that were read before, and are not passed on again.
        show: gets an object with its kind, or a row.

    Raises:
        KubeError: the server refuses.
    """
    fields = [selection.fields] if selection.fields else []
    fields += [f"metadata.name={name}" for name in selection.names]
    changes = Changes(known, lambda item: show(add_kind(item)))
    await watch_resource(
        client,
        FRAMEWORKS,
        changes,
        Selection((), selection.namespace, selection.labels, ",".join(fields) or None),
    )


async def watch_resource(
    client: KubeClient,
    resource: Resource,
    sink: Changes,
    selection: Selection,
    trim: Callable[[Object], Object] | None = None,
) -> None:
    """Watch until cancelled; report on standard error when the connection is lost and back.

    Raises:
        KubeError: the server refuses.
    """
    refused: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    is_lost = False

    def report_connection(is_connected: bool) -> None:  # noqa: FBT001 signature of ListWatch
        nonlocal is_lost
        error = listwatch.last_error
        if isinstance(error, _FATAL) and not refused.done():
            refused.set_exception(error)
        elif is_connected and is_lost:
            print_error("note: connected again")
            is_lost = False
        elif not is_connected:
            print_error(f"note: the watch is interrupted, and is tried again: {error}")
            is_lost = True

    listwatch = ListWatch(
        client,
        resource,
        sink,
        clock=SystemClock(),
        random=SystemRandom(),
        namespace=selection.namespace,
        label_selector=selection.labels,
        field_selector=selection.fields,
        trim=trim,
        on_connection=report_connection,
    )
    watching = asyncio.create_task(listwatch.run(), name=f"watch-{resource.plural}")
    try:
        done, _ = await asyncio.wait((watching, refused), return_when=asyncio.FIRST_COMPLETED)
        for each in done:
            await each
    finally:
        watching.cancel()
        with suppress(asyncio.CancelledError, KubeError):
            await watching


def _read_uid(item: Object) -> str:
    return str(read_metadata(item).get("uid") or "")


def _read_version(item: Object) -> str:
    return str(read_metadata(item).get("resourceVersion") or "")

"""The observer: from the store's entry to the Snapshot a decision reads.

Called by the worker. Nothing is copied: decide is synchronous and changes nothing. What costs time
and depends on the Framework's status is computed here: creation proofs, and the published roster.
"""

from datetime import datetime

from controller.core.snapshot import MemoryBudget, Snapshot
from controller.store import provenance
from controller.store.entry import Entry
from controller.store.published import refresh_published


def observe(entry: Entry, now: datetime, memory: MemoryBudget | None = None) -> Snapshot | None:
    """Gather the Snapshot.

    Returns:
        None while the Framework is not there or cannot be read, or its roster must be read first.
    """
    if entry.framework is None:
        return None
    provenance.settle(entry)
    if entry.lacks_roster:
        return None
    refresh_published(entry)
    return Snapshot(
        framework=entry.framework,
        now=now,
        configmap=entry.configmap,
        pods=entry.pods,
        in_flight=entry.in_flight,
        failures=entry.failures,
        live=entry.live,
        unconfirmed=entry.unconfirmed,
        end_versions=entry.end_versions,
        gang_key_owner=entry.gang_key_owner,
        published=entry.published,
        proven=entry.proven,
        object_bytes=entry.object_bytes,
        memory=memory,
    )

"""The observer: from the store's entry to the Snapshot a decision reads.

Called by the worker. Nothing is copied: decide is synchronous and changes nothing.
"""

from datetime import datetime

from controller.core.snapshot import Snapshot
from controller.entry import Entry


def observe(entry: Entry, now: datetime) -> Snapshot | None:
    """Gather the Snapshot; None while the Framework is not there or cannot be read."""
    if entry.framework is None:
        return None
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
    )

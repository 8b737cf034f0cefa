"""The observer: from the store's entry to the Snapshot a decision reads.

Nothing is copied: decide is synchronous and changes nothing.
"""

from collections.abc import Mapping
from datetime import datetime

from controller.core.snapshot import MemoryBudget, Snapshot
from controller.core.waits import Wait
from controller.store.entry import Entry
from controller.store.nodes import NodeStore


def observe(
    entry: Entry,
    now: datetime,
    memory: MemoryBudget | None = None,
    nodes: NodeStore | None = None,
    waited: Mapping[Wait, float] | None = None,
) -> Snapshot | None:
    """Gather the Snapshot from an entry that the store has settled.

    Returns:
        None if the Framework is absent or cannot be read, or if its roster must be read first.
    """
    known = entry.observed
    if known.framework is None or known.lacks_roster:
        return None
    return Snapshot(
        framework=known.framework,
        now=now,
        configmap=known.configmap,
        pods=known.pods,
        in_flight=entry.outcomes.in_flight,
        failures=entry.outcomes.failures,
        live=known.live,
        unconfirmed=known.unconfirmed,
        end_versions=known.end_versions,
        disruptions=known.disruptions,
        gang_key_owner=known.gang_key_owner,
        published=known.published,
        proven=known.proven,
        object_bytes=known.object_bytes,
        memory=memory,
        nodes=nodes.notices if nodes is not None else {},
        knows_nodes=nodes is not None and not nodes.is_missing,
        waited=waited or {},
    )

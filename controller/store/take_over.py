"""The take-over: compares the store with the API server after this controller became the leader.

1. Until then, ``StatusTrust.follow``: the store follows the statuses of another leader.
2. ``confirm`` takes each page of a list of all Frameworks that is read after we became the leader.
3. ``finish`` lets the other Frameworks be read live before their first decision.

Example: the former leader writes a status and ends. The watch of this controller has not shown the
write yet. The list has the newer version, which the store takes before the first decision.
"""

from collections.abc import Iterable
from collections.abc import Set as AbstractSet

from controller.store.entries import Entries
from controller.store.framework_records import FrameworkRecords
from controller.store.object_identity import name_key, read_meta
from controller.store.status_trust import StatusTrust
from framework.kube.resources import Object


class TakeOver:
    """The take-over of one controller."""

    def __init__(self, entries: Entries, frameworks: FrameworkRecords, trust: StatusTrust) -> None:
        """Compare ``entries``; ``frameworks`` takes the newer versions."""
        self._entries = entries
        self._frameworks = frameworks
        self._trust = trust

    def confirm(self, items: Iterable[Object]) -> set[str]:
        """Take a page of the list of all Frameworks that is read after we became the leader.

        The watch may be behind the last writes of the former leader. The list does not replace its
        versions, because the watch may also be ahead of the list: a Framework for which the two
        differ is read live.

        Returns:
            The keys of the known Frameworks that the page contains.
        """
        confirmed = set()
        for wire in items:
            entry = self._entries.find(name_key(wire))
            known = entry.observed.version if entry else None
            if entry is None or known is None or known.uid != read_meta(wire).get("uid"):
                continue
            confirmed.add(entry.key)
            self._frameworks.apply(wire)
        return confirmed

    def finish(self, confirmed: AbstractSet[str]) -> None:
        """Begin to lead; let the Frameworks be read live that no page of the list has confirmed."""
        self._trust.expect_late_writes()
        for entry in self._entries.walk():
            if entry.observed.version is not None and entry.key not in confirmed:
                entry.observed.needs_refresh = True

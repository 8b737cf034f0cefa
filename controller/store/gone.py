"""The UIDs of objects that were seen deleted, so that a late answer does not bring them back."""

from collections import OrderedDict

_REMEMBERED_UIDS = 100_000


class GoneUids:
    """The newest UIDs of objects that were seen deleted."""

    def __init__(self) -> None:
        """Start empty."""
        self._uids: OrderedDict[str, None] = OrderedDict()

    def __contains__(self, uid: str | None) -> bool:
        """Return whether an object was seen deleted."""
        return uid in self._uids

    def add(self, uid: str) -> None:
        """Remember a UID, and forget the oldest one if there are too many."""
        self._uids[uid] = None
        while len(self._uids) > _REMEMBERED_UIDS:
            self._uids.popitem(last=False)

    def clear(self) -> None:
        """Forget all: the server's storage was restored, so some may exist again."""
        self._uids.clear()

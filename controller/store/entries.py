"""The entries of all Frameworks, and the values that the records of all kinds share."""

from collections.abc import Callable, Iterator

from controller.store.entry import Entry
from controller.store.gone import GoneUids
from framework.clock import Clock


class Entries:
    """The entries by ``namespace/name``; ``on_change`` is called with the key of a changed one."""

    def __init__(self, on_change: Callable[[str], None], clock: Clock | None) -> None:
        """Start empty. ``clock``: for the times in entries."""
        self._by_key: dict[str, Entry] = {}
        self._on_change = on_change
        self.clock = clock
        self.gone = GoneUids()
        """The UIDs of objects of all kinds that were seen deleted."""

    def __len__(self) -> int:
        """Count the Frameworks."""
        return sum(1 for entry in self._by_key.values() if entry.observed.version is not None)

    def find(self, key: str) -> Entry | None:
        """Find an entry."""
        return self._by_key.get(key)

    def open(self, key: str) -> Entry | None:
        """Find an entry, or add an empty one; None if the key has no namespace or no name."""
        namespace, _, name = key.partition("/")
        if not namespace or not name:
            return None
        return self._by_key.setdefault(key, Entry(namespace, name))

    def drop(self, key: str) -> None:
        """Drop an entry."""
        del self._by_key[key]

    def walk(self) -> Iterator[Entry]:
        """Walk all entries."""
        return iter(self._by_key.values())

    def notify(self, entry: Entry) -> None:
        """Record that an entry has changed."""
        self._on_change(entry.key)

    def read_clock(self) -> float:
        """Read the monotonic clock."""
        return self.clock.monotonic() if self.clock else 0.0

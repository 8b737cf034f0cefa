"""The difference of two generations, for callbacks of training code."""

import os
import threading
import traceback
from typing import Any, Callable, NamedTuple, Optional, Set, Tuple

from .failures import Failure, FailureReader
from .generations import LOOK_SECONDS, Peer, Roster, find_current, roster


class Change(NamedTuple):
    """The difference of two generations; ``moved`` has the new state of the members.

    ``failed`` has members that failed. They are reported at once, before the generation without
    them: in a change of their own, with the roster that was current before.
    """

    roster: Roster
    added: Tuple[Peer, ...]
    removed: Tuple[Peer, ...]
    moved: Tuple[Peer, ...]
    failed: Tuple[Failure, ...] = ()


def on_change(callback: Callable[[Change], Any], since: Optional[Roster] = None) -> "Subscription":
    """Call ``callback`` with each change after ``since`` (now), in order, in a thread of its own.

    An exception of the callback is printed, and the next change is passed all the same.
    """
    subscription = Subscription(callback, since if since is not None else roster())
    subscription.start()
    return subscription


class Subscription(threading.Thread):
    """A thread that looks for new generations; ``stop`` ends it."""

    def __init__(self, callback: Callable[[Change], Any], since: Roster) -> None:
        super().__init__(name="peers", daemon=True)
        self._callback = callback
        self._seen = since
        self._failures = FailureReader(os.path.dirname(find_current()))
        self._reported: Set[Tuple[str, int, str]] = set()
        self._ended = threading.Event()

    def stop(self) -> None:
        """End the thread; a running callback is not interrupted."""
        self._ended.set()

    def run(self) -> None:
        """Look until the end."""
        seen_link = ""
        current = find_current()
        while not self._ended.wait(LOOK_SECONDS):
            self._report_failures()
            try:
                link = os.readlink(current)
                if link == seen_link:
                    continue
                new = roster()
            except OSError:
                continue  # the volume is being changed
            seen_link = link
            if new.generation > self._seen.generation or new.attempt != self._seen.attempt:
                change = compute_change(self._seen, new)
                self._seen = new
                if change.added or change.removed or change.moved:
                    self._call_back(change)

    def _report_failures(self) -> None:
        """Report the members of the last seen generation that failed, each once."""
        members = {(peer.role, peer.index, peer.fingerprint) for peer in self._seen.peers}
        self._reported &= members
        new = []
        for failure in self._failures.read(self._seen.attempt):
            key = (failure.role, failure.index, failure.fingerprint)
            if key in members and key not in self._reported:
                self._reported.add(key)
                new.append(failure)
        if new:
            self._call_back(Change(self._seen, (), (), (), tuple(new)))

    def _call_back(self, change: Change) -> None:
        try:
            self._callback(change)
        except Exception:  # noqa: BLE001  (an error of the user's code; the next change is passed, too)
            traceback.print_exc()


def compute_change(before: Roster, after: Roster) -> Change:
    """Compute the difference of two generations."""
    old = {(peer.role, peer.index): peer for peer in before.peers}
    new = {(peer.role, peer.index): peer for peer in after.peers}
    return Change(
        roster=after,
        added=tuple(peer for key, peer in new.items() if key not in old),
        removed=tuple(peer for key, peer in old.items() if key not in new),
        moved=tuple(
            peer
            for key, peer in new.items()
            if key in old
            and (old[key].address, old[key].fingerprint) != (peer.address, peer.fingerprint)
        ),
    )

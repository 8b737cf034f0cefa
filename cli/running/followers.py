"""The Frameworks of a run, with the views of their states."""

import asyncio
from collections.abc import Iterator, Sequence
from datetime import datetime
from itertools import zip_longest

from cli.running.follow import Follower
from cli.running.viewbuilder import build_view
from cli.running.views import FrameworkObjects, GangView
from framework.clock import Clock

# A Framework without a status is no fault for so long: a controller needs a moment.
_CONTROLLER_SECONDS = 5.0


class FollowedFrameworks:
    """The Frameworks that were applied, in the order of the files."""

    def __init__(
        self, followers: Sequence[Follower], clock: Clock, started: float, *, is_local: bool
    ) -> None:
        """Follow nothing yet.

        Args:
            followers: one for each Framework.
            clock: measures the time since the start.
            started: the monotonic time of the start of the run.
            is_local: whether the cluster starts with the run, and its controller with it.
        """
        self.followers = followers
        self._clock = clock
        self._started = started
        self._is_local = is_local

    @property
    def elapsed_seconds(self) -> float:
        """Seconds since the start of the run."""
        return self._clock.monotonic() - self._started

    @property
    def connection_error(self) -> str | None:
        """Why a Framework cannot be watched now; None while all are watched."""
        return next((e for f in self.followers if (e := f.connection_error)), None)

    def start(self, tasks: asyncio.TaskGroup) -> "list[asyncio.Task[None]]":
        """Start to watch; the tasks run until they are cancelled."""
        return [task for follower in self.followers for task in follower.start(tasks)]

    def take_replaced(self, now: datetime | None) -> Iterator[tuple[int, GangView]]:
        """Yield the views that were replaced since the last call, each with its Framework's number.

        Args:
            now: the time for countdowns; None for words without one.
        """
        replaced = [follower.take_replaced() for follower in self.followers]
        for states in zip_longest(*replaced):
            for number, objects in enumerate(states):
                if objects is not None:
                    yield number, self._build_view(objects, now)

    def build_views(self, now: datetime | None) -> list[GangView]:
        """Build the views of the newest states.

        Args:
            now: the time for countdowns; None for words without one.
        """
        return [self._build_view(follower.collect_objects(), now) for follower in self.followers]

    def are_over(self, views: Sequence[GangView]) -> bool:
        """Return whether every Framework is Completed or was deleted."""
        pairs = zip(views, self.followers, strict=True)
        return all(view.is_completed or follower.is_gone for view, follower in pairs)

    def lack_controller(self, views: Sequence[GangView]) -> bool:
        """Return whether all that go on wait for a controller, and so have no Pods."""
        pairs = zip(views, self.followers, strict=True)
        open_views = [v for v, follower in pairs if not (v.is_completed or follower.is_gone)]
        return bool(open_views) and all(view.lacks_controller for view in open_views)

    def list_deleted(self, views: Sequence[GangView]) -> list[str]:
        """List the Frameworks that were deleted before they completed."""
        pairs = zip(views, self.followers, strict=True)
        return [v.name for v, follower in pairs if follower.is_gone and not v.is_completed]

    def _build_view(self, objects: FrameworkObjects, now: datetime | None) -> GangView:
        is_expected = self._is_local or self.elapsed_seconds < _CONTROLLER_SECONDS
        return build_view(objects, now, expects_controller=is_expected)

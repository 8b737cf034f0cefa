"""Lanes: which unsent action goes next, fairly between Frameworks and carefully after errors.

Called by the executor only. Each Framework has a lane; the newest decision replaces what its lane
has not sent. Lanes take turns: one action each, or a small gang's when there are more lanes than
may send at once, because a gang that comes up together changes its status fewer times. A lane
starts slowly after an error: one request, then twice as many with each success (the slow start of
the Kubernetes job controllers).
"""

from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass, field

from controller.core.actions import Action, ActionKey

MAX_WINDOW = 64
_LONG_TURN = 8


@dataclass(slots=True)
class _Lane:
    waiting: OrderedDict[ActionKey, Action] = field(default_factory=OrderedDict)
    running: int = 0
    window: int = MAX_WINDOW
    taken: int = 0
    """In its present turn."""


class Lanes:
    """All lanes, and how many requests may run at once in all of them."""

    def __init__(self, limit: int) -> None:
        """Let at most ``limit`` requests run at once."""
        self._limit = limit
        self._running = 0
        self._lanes: OrderedDict[str, _Lane] = OrderedDict()

    @property
    def running(self) -> int:
        """Count the requests that run."""
        return self._running

    def replace(self, key: str, actions: Iterable[Action]) -> None:
        """Replace what a lane has not sent."""
        waiting = OrderedDict((action.key, action) for action in actions)
        lane = self._lanes.get(key)
        if lane is None:
            if waiting:
                self._lanes[key] = _Lane(waiting)
        else:
            lane.waiting = waiting
            self._drop_if_idle(key, lane)

    def forget(self, key: str) -> None:
        """Drop a Framework that is gone, and what its errors taught."""
        lane = self._lanes.get(key)
        if lane is not None:
            lane.waiting.clear()
            lane.window = MAX_WINDOW
            self._drop_if_idle(key, lane)

    def take(self) -> tuple[str, Action] | None:
        """Take the next action to send; None while nothing may be sent."""
        if self._running >= self._limit:
            return None
        for key in list(self._lanes):
            lane = self._lanes[key]
            if not lane.waiting or lane.running >= lane.window:
                self._end_turn(key, lane)
                continue
            _, action = lane.waiting.popitem(last=False)
            lane.running += 1
            self._running += 1
            lane.taken += 1
            if lane.taken >= self._turn:
                self._end_turn(key, lane)
            return key, action
        return None

    @property
    def _turn(self) -> int:
        return 1 if len(self._lanes) <= self._limit else _LONG_TURN

    def _end_turn(self, key: str, lane: _Lane) -> None:
        lane.taken = 0
        self._lanes.move_to_end(key)

    def finish(self, key: str, *, is_failed: bool) -> None:
        """Say that an action taken was answered."""
        self._running -= 1
        lane = self._lanes[key]
        lane.running -= 1
        lane.window = 1 if is_failed else min(MAX_WINDOW, lane.window * 2)
        self._drop_if_idle(key, lane)

    def clear(self) -> list[str]:
        """Drop everything unsent; return the keys that lost something."""
        lost = [key for key, lane in self._lanes.items() if lane.waiting]
        for key in lost:
            self._lanes[key].waiting.clear()
            self._drop_if_idle(key, self._lanes[key])
        return lost

    def _drop_if_idle(self, key: str, lane: _Lane) -> None:
        if not lane.waiting and not lane.running and lane.window == MAX_WINDOW:
            del self._lanes[key]

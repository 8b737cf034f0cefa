"""The action queue: chooses the next unsent action, fairly between namespaces and Frameworks.

Each Framework has a flow of actions; the newest decision replaces the unsent ones. At most
``limit`` requests run at a time, and at most ``namespace_limit`` of one namespace, so that a
namespace whose requests hang leaves slots to the others.

1. Namespaces that may send take turns, one action each.
2. Within a namespace, flows take turns: one action each, or up to eight when the namespace has
   more flows than it may have requests, because a small gang that comes up together changes its
   status fewer times.
3. After an error a flow starts slowly: one request at a time, then twice as many with each success
   (the slow start of the Kubernetes job controllers).
4. Each error halves how many requests of its namespace may run at a time, down to one, and each
   success doubles it. So a namespace whose creates are refused has one request at the API server,
   whose time all namespaces share, and a namespace with few errors is not slowed. The namespace may
   keep as many workers busy (``controller.controller``), because each worker sends a request, too:
   the write of a status.
5. A namespace sends nothing while the bodies of its requests have too many bytes together, because
   a Pod of 1.4 MB costs as much as hundreds of small ones (``body_bytes``). All namespaces together
   have such a limit, too.

A refused create is followed by a GET of the name, whose success must not enlarge the windows. So
after each error of a create or a delete, one successful read does not count. All other reads count,
because otherwise the Pods to be looked up after an outage would be read one after the other.

Invariant: a namespace is in the turns if and only if it is below its window and its limit of bytes,
and one of its flows has an unsent action and is below its window. So every operation is O(1) in the
number of namespaces and of Frameworks.

Example: a/x has 100 actions, a/y and b/z have one each. They are sent in the order a/x, b/z, a/y,
a/x, a/x and so on.
"""

from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass, field

from controller.core.actions import Action, ActionKey
from controller.queues.body_bytes import (
    MAX_BODY_BYTES,
    MAX_NAMESPACE_BODY_BYTES,
    measure_body,
)
from controller.queues.workqueue import split_namespace

MAX_WINDOW = 64
_LONG_TURN = 8


@dataclass(slots=True)
class _Flow:
    """The actions of one Framework."""

    waiting: OrderedDict[ActionKey, Action] = field(default_factory=OrderedDict)
    running: int = 0
    window: int = MAX_WINDOW
    """How many of its requests may run at a time."""
    taken: int = 0
    """Number of actions that were sent in its present turn."""
    uncounted_reads: int = 0
    """Number of reads that follow its errors: their success does not count."""

    @property
    def may_send(self) -> bool:
        """Return whether an action of this flow may be sent now."""
        return bool(self.waiting) and self.running < self.window

    @property
    def is_idle(self) -> bool:
        """Return whether this flow has no state that must be kept."""
        return not self.waiting and not self.running and self.window == MAX_WINDOW


@dataclass(slots=True)
class _Namespace:
    """The flows of one namespace."""

    flows: dict[str, _Flow] = field(default_factory=dict)
    turns: OrderedDict[str, _Flow] = field(default_factory=OrderedDict)
    """The flows that may send, in the order of their turns."""
    running: int = 0
    window: int = 1
    """How many of its requests may run at a time."""
    body_bytes: int = 0
    """The bytes of the bodies of its requests that run."""

    @property
    def may_send(self) -> bool:
        """Return whether one more of its requests may run."""
        return self.running < self.window and self.body_bytes < MAX_NAMESPACE_BODY_BYTES


class ActionQueue:
    """The unsent actions of all Frameworks, and the number of requests that run."""

    def __init__(self, limit: int, namespace_limit: int | None = None) -> None:
        """Let at most ``limit`` requests run at a time, ``namespace_limit`` of one namespace."""
        self._limit = limit
        self._namespace_limit = namespace_limit or limit
        self._running = 0
        self._body_bytes = 0
        self._namespaces: dict[str, _Namespace] = {}
        self._turns: OrderedDict[str, _Namespace] = OrderedDict()

    @property
    def running(self) -> int:
        """Count the requests that run."""
        return self._running

    def get_window(self, name: str) -> int:
        """Return how many requests of a namespace may run at a time."""
        namespace = self._namespaces.get(name)
        return namespace.window if namespace else self._namespace_limit

    @property
    def is_empty(self) -> bool:
        """Return whether the queue has no Framework."""
        return not self._namespaces

    def has_waiting(self, key: str) -> bool:
        """Return whether a Framework has actions that are not sent."""
        flow = self._find(key)
        return flow is not None and bool(flow.waiting)

    def replace(self, key: str, actions: Iterable[Action]) -> None:
        """Replace the actions of a Framework that are not sent."""
        waiting = OrderedDict((action.key, action) for action in actions)
        name = split_namespace(key)
        if waiting and name not in self._namespaces:
            self._namespaces[name] = _Namespace(window=self._namespace_limit)
        namespace = self._namespaces.get(name)
        if namespace is None:
            return
        if waiting:
            namespace.flows.setdefault(key, _Flow()).waiting = waiting
        elif key in namespace.flows:
            namespace.flows[key].waiting = waiting
        self._update(key)

    def retain(self, key: str, actions: Iterable[Action]) -> None:
        """Drop the actions of a Framework that are not sent, except those that are given."""
        flow = self._find(key)
        if flow is not None and flow.waiting:
            kept = {action.key for action in actions}
            self.replace(key, [a for name, a in flow.waiting.items() if name in kept])

    def forget(self, key: str) -> None:
        """Drop the unsent actions and the window of a Framework that is gone.

        With the last busy Framework of a namespace, the window of the namespace is dropped, too.
        """
        flow = self._find(key)
        if flow is not None:
            flow.waiting.clear()
            flow.window = MAX_WINDOW
            self._update(key)
        name = split_namespace(key)
        if name in self._namespaces and not self._namespaces[name].flows:
            del self._namespaces[name]

    def take(self) -> tuple[str, Action] | None:
        """Take the next action to send; None while nothing may be sent."""
        if self._running >= self._limit or self._body_bytes >= MAX_BODY_BYTES or not self._turns:
            return None
        name, namespace = next(iter(self._turns.items()))
        key, flow = next(iter(namespace.turns.items()))
        _, action = flow.waiting.popitem(last=False)
        flow.running += 1
        self._count(namespace, 1, measure_body(action))
        flow.taken += 1
        if flow.taken >= self._get_turn_length(namespace):
            flow.taken = 0
            namespace.turns.move_to_end(key)
        self._turns.move_to_end(name)
        self._update(key)
        return key, action

    def finish(
        self, key: str, *, is_failed: bool, is_read: bool = False, body_bytes: int = 0
    ) -> None:
        """Record that an action was answered; ``body_bytes`` as ``measure_body`` says."""
        namespace = self._namespaces[split_namespace(key)]
        flow = namespace.flows[key]
        self._count(namespace, -1, -body_bytes)
        flow.running -= 1
        if is_failed:
            flow.window = 1
            flow.uncounted_reads = min(MAX_WINDOW, flow.uncounted_reads + int(not is_read))
            namespace.window = max(1, namespace.window // 2)
        elif is_read and flow.uncounted_reads:
            flow.uncounted_reads -= 1
        else:
            flow.window = min(MAX_WINDOW, flow.window * 2)
            namespace.window = min(self._namespace_limit, namespace.window * 2)
        self._update(key)

    def clear(self) -> list[str]:
        """Drop all unsent actions; return the keys that lost some."""
        flows = [item for found in self._namespaces.values() for item in found.flows.items()]
        lost = [key for key, flow in flows if flow.waiting]
        for key in lost:
            self.replace(key, ())
        return lost

    def _find(self, key: str) -> _Flow | None:
        namespace = self._namespaces.get(split_namespace(key))
        return namespace.flows.get(key) if namespace else None

    def _count(self, namespace: _Namespace, requests: int, body_bytes: int) -> None:
        """Count requests that begin or end."""
        namespace.running += requests
        namespace.body_bytes += body_bytes
        self._running += requests
        self._body_bytes += body_bytes

    def _get_turn_length(self, namespace: _Namespace) -> int:
        limit = min(self._limit, self._namespace_limit)
        return 1 if len(namespace.flows) <= limit else _LONG_TURN

    def _update(self, key: str) -> None:
        """Restore the invariant after a change of one flow."""
        name = split_namespace(key)
        namespace = self._namespaces[name]
        flow = namespace.flows.get(key)
        if flow is None or not flow.may_send:
            namespace.turns.pop(key, None)
        else:
            namespace.turns.setdefault(key, flow)
        if flow is not None and not flow.may_send:
            flow.taken = 0
        if flow is not None and flow.is_idle:
            del namespace.flows[key]
        if namespace.turns and namespace.may_send:
            self._turns.setdefault(name, namespace)
        else:
            self._turns.pop(name, None)
        if not namespace.flows and namespace.window == self._namespace_limit:
            del self._namespaces[name]

"""A watch of one object by name that reconnects for ever.

Each ``poll`` takes these steps:

1. Without a stream: wait until the backoff is over, then send the watch request, from the last
   resourceVersion (at first "0": the state in the server's cache, as ADDED events).
2. Read the stream until the timeout. Each complete line is an event: ADDED and MODIFIED give a
   ``Change`` with the object, DELETED one without, BOOKMARK none. Each sets the resourceVersion.
3. If the stream ends, fails, or is silent for 90 s: close the connection and set the next connect
   time. 410 Gone and an invalid event reset the resourceVersion to "0".
4. Return the changes that were read, also if the stream has ended after them.

Invariants:

- ``health`` is HEALTHY after a normal end of a stream: the API server ends every watch after some
  minutes. It changes only after a failed request or an ERROR event.
- The wait before a reconnect doubles from 0.2 s to 5 s, with jitter, and is reset by received
  bytes. ``Retry-After`` is added to it. After a 403 it is about 5 s.
- Every request reads the token again, so a rotated token needs no special handling after 401.

Example: the stream is at resourceVersion 7 when the connection breaks. The watch connects again
after about 0.2 s with ``resourceVersion=7``. The server answers 410, because etcd was compacted.
The watch connects with ``resourceVersion=0`` and gets the current object as ADDED.
"""

import json
from typing import Any, Dict, List, NamedTuple, Optional

from framework.agent.access import Access
from framework.agent.clock import AgentClock
from framework.agent.connection import Answer, Connection, Head, UnreachableError
from framework.agent.health import HEALTH_BY_STATUS, Health

# Bookmarks come every 60 s, so a longer silence means a dead connection.
READ_DEADLINE_SECONDS = 90.0
_BACKOFF_FIRST_SECONDS = 0.2
_BACKOFF_MAX_SECONDS = 5.0
# After a 403: a missing permission is seldom granted within seconds.
_DENIED_BACKOFF_SECONDS = 5.0
# The metadata of an object is enough to detect a change.
METADATA_ONLY = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
_JSON = "application/json"
_MAX_LINE_BYTES = 16 * 1024 * 1024
_OK, _GONE = 200, 410


class Change(NamedTuple):
    """A change of the object: its new state, or None if it was deleted."""

    body: Optional[Dict[str, Any]]


class _Ended(Exception):  # noqa: N818  (the end of a watch is not an error)
    """The stream has ended; ``restart`` resets the resourceVersion."""

    def __init__(self, health: Health, message: str, *, restart: bool) -> None:
        super().__init__(message)
        self.health = health
        self.message = message
        self.restart = restart


class ObjectWatch:
    """The watch. ``health`` and ``message`` describe its last request or stream."""

    def __init__(
        self,
        access: Access,
        clock: AgentClock,
        collection_path: str,
        name: str,
        *,
        accept: str = _JSON,
    ) -> None:
        """Watch the object ``name`` of a collection such as ``/api/v1/namespaces/x/configmaps``."""
        self._clock = clock
        self._connection = Connection(access, clock, accept=accept)
        self._path = f"{collection_path}?watch=true&fieldSelector=metadata.name%3D{name}"
        self._resource_version = "0"
        self._streaming = False
        self._received = bytearray()
        self._changes: List[Change] = []
        self._silent_since = 0.0
        self._failures = 0
        self._next_connect_at = 0.0
        self.health = Health.STARTING
        self.message = ""

    def poll(self, timeout_seconds: float) -> List[Change]:
        """Return the changes of at most about ``timeout_seconds`` (connecting may take longer)."""
        if not self._streaming:
            left = self._next_connect_at - self._clock.monotonic()
            if left > 0:
                self._clock.sleep(min(left, timeout_seconds))
                return []
        try:
            if not self._streaming:
                self._start()
            if self._streaming:
                self._read(timeout_seconds)
        except UnreachableError as e:
            # A broken stream is a normal end of a watch; a failed connect is not.
            health = Health.HEALTHY if self._streaming else Health.UNREACHABLE
            self._end(_Ended(health, str(e), restart=False), None)
        except _Ended as ended:
            self._end(ended, None)
        # Also after the end of a stream: the server does not repeat these changes.
        changes, self._changes = self._changes, []
        return changes

    def get_descriptor(self) -> int:
        """Return the file descriptor for ``select``; -1 while there is no stream."""
        return self._connection.get_descriptor() if self._streaming else -1

    def get_idle_seconds(self) -> float:
        """Return for how many seconds ``poll`` has nothing to do if no bytes arrive."""
        now = self._clock.monotonic()
        if not self._streaming:
            return max(0.0, self._next_connect_at - now)
        if self._connection.has_pending():
            return 0.0
        return max(0.0, self._silent_since + READ_DEADLINE_SECONDS - now)

    def close(self) -> None:
        """Close the connection; the next ``poll`` resumes from the last resourceVersion."""
        self._streaming = False
        self._connection.close()

    def _start(self) -> None:
        # A random duration, so that the watches of a gang do not reconnect at the same time.
        seconds = int(self._clock.uniform(300, 600))
        version = f"&resourceVersion={self._resource_version}&timeoutSeconds={seconds}"
        path = f"{self._path}{version}&allowWatchBookmarks=true"
        head = self._connection.start("GET", path)
        if head.status != _OK:
            self._refuse(head)
            return
        self._streaming = True
        self._received = bytearray()
        self._silent_since = self._clock.monotonic()
        self.health, self.message = Health.HEALTHY, ""

    def _refuse(self, head: Head) -> None:
        try:
            body = self._connection.read_rest(self._clock.monotonic() + 5.0)
        except UnreachableError:
            body = b""  # the status is enough for a message
        health = HEALTH_BY_STATUS.get(head.status, Health.UNREACHABLE)
        ended = _Ended(health, Answer(head, body).describe(), restart=head.status == _GONE)
        self._end(ended, head.retry_after_seconds)

    def _read(self, timeout_seconds: float) -> None:
        silence = self._clock.monotonic() - self._silent_since
        received = self._connection.read_some(
            min(timeout_seconds, max(0.0, READ_DEADLINE_SECONDS - silence))
        )
        if received is None:
            if self._clock.monotonic() - self._silent_since >= READ_DEADLINE_SECONDS:
                raise _Ended(Health.HEALTHY, "silent connection", restart=False)
            return
        if not received:
            raise _Ended(Health.HEALTHY, "", restart=False)
        self._silent_since = self._clock.monotonic()
        self._failures = 0
        self._received += received
        self._parse_lines()

    def _parse_lines(self) -> None:
        *lines, rest = self._received.split(b"\n")
        self._received = bytearray(rest)
        if len(self._received) > _MAX_LINE_BYTES:
            raise _Ended(Health.UNREACHABLE, "a watch event is too long", restart=True)
        for line in lines:
            if line.strip():
                self._parse_event(bytes(line))

    def _parse_event(self, line: bytes) -> None:
        try:
            event = json.loads(line.decode())
            kind, body = event["type"], event["object"]
            if kind == "ERROR":
                raise self._translate_error(body)
            version = body["metadata"]["resourceVersion"]
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as e:
            message = f"broken watch event: {e}"
            raise _Ended(Health.UNREACHABLE, message, restart=True) from e
        self._resource_version = str(version)
        if kind == "DELETED":
            self._changes.append(Change(None))
        elif kind in {"ADDED", "MODIFIED"}:
            self._changes.append(Change(body))

    @staticmethod
    def _translate_error(status: Dict[str, Any]) -> _Ended:
        code = status.get("code")
        if code == _GONE:
            return _Ended(Health.HEALTHY, "", restart=True)
        health = HEALTH_BY_STATUS.get(code or 0, Health.UNREACHABLE)
        return _Ended(health, str(status.get("message", "watch error")), restart=True)

    def _end(self, ended: _Ended, retry_after_seconds: Optional[float]) -> None:
        self._connection.close()
        self._streaming = False
        self.health, self.message = ended.health, ended.message
        if ended.restart:
            self._resource_version = "0"
        ceiling = min(_BACKOFF_FIRST_SECONDS * 2.0**self._failures, _BACKOFF_MAX_SECONDS)
        if ended.health is Health.FORBIDDEN:
            ceiling = _DENIED_BACKOFF_SECONDS
        self._failures = min(self._failures + 1, 10)
        wait = self._clock.uniform(ceiling / 2.0, ceiling)
        # Retry-After is a minimum. The jitter spreads the reconnects of a gang.
        self._next_connect_at = self._clock.monotonic() + wait + (retry_after_seconds or 0.0)

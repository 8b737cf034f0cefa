"""The Events of one Framework, its Pods and its ConfigMap, in the order of time. Pure.

The newest ``MAX_EVENTS`` are kept. An Event of an earlier Framework of the same name is left out:
it is older than this Framework.
"""

import heapq
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import count
from typing import Any

from cli.objects import read_version
from cli.printing.output import hide_managed_fields
from framework.api import constants
from framework.api.durations import format_seconds, parse_time
from framework.api.naming import build_configmap_name, parse_pod_name
from framework.kube.resources import EVENTS, Object

MAX_EVENTS = 10_000
"""The most Events that a command keeps."""
EVENT_HEADER = ("LAST SEEN", "TYPE", "REASON", "OBJECT", "MESSAGE")
_UNKNOWN = datetime.min.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class EventRecord:
    """One Event, and how often it happened."""

    type: str
    """Normal or Warning."""
    reason: str
    """CamelCase reason."""
    message: str
    """Text for users."""
    subject: str
    """Task such as worker/2, Framework or ConfigMap."""
    uid: str
    """UID of the object that it is about."""
    count: int
    """How often it happened."""
    first_at: datetime
    """When it happened first."""
    last_at: datetime
    """When it happened last."""
    body: Object
    """The Event as stored, without managedFields."""

    def build_row(self, now: datetime) -> list[str]:
        """Build the cells below ``EVENT_HEADER``."""
        seen = _format_age(self.last_at, now)
        if self.count > 1:
            seen = f"{seen} (x{self.count} over {_format_age(self.first_at, now)})"
        return [seen, self.type, self.reason, self.subject, self.message]


class EventLog:
    """Collects the Events of one Framework."""

    def __init__(self, framework: Object) -> None:
        """Collect the Events of ``framework``, an object as stored."""
        metadata = framework.get("metadata") or {}
        self._name = str(metadata.get("name"))
        self._uid = str(metadata.get("uid") or "")
        self._created_at = parse_time(metadata.get("creationTimestamp")) or _UNKNOWN
        self._configmap = build_configmap_name(self._name)
        self._numbers = count()
        self._kept: list[tuple[datetime, int, int, EventRecord]] = []
        self.total = 0
        """Number of Events that were added, kept or not."""

    def add(self, bodies: Iterable[Object]) -> None:
        """Add the Events of a page of a list; ignore Events of other objects."""
        for body in bodies:
            record = self.read(body)
            if record is None:
                continue
            self.total += 1
            # Times of Events are whole seconds; the version orders Events of the same second.
            entry = (record.last_at, read_version(body), next(self._numbers), record)
            if len(self._kept) < MAX_EVENTS:
                heapq.heappush(self._kept, entry)
            else:
                heapq.heappushpop(self._kept, entry)

    @property
    def left_out(self) -> int:
        """Number of older Events that were not kept."""
        return self.total - len(self._kept)

    def trim(self, body: Object) -> Object:
        """Keep only the metadata of an Event of another object, because nothing else is read."""
        return body if self.read(body) is not None else {"metadata": body.get("metadata") or {}}

    def list_records(self) -> Sequence[EventRecord]:
        """List the Events, the newest last."""
        return [entry[-1] for entry in sorted(self._kept, key=lambda entry: entry[:-1])]

    def read(self, body: Object) -> EventRecord | None:
        """Read an Event; None if it is about another object, or an earlier Framework."""
        involved = _get_object(body, "involvedObject")
        subject = self._name_subject(involved)
        if subject is None:
            return None
        series = _get_object(body, "series")
        times = [
            parse_time(value)
            for value in (
                body.get("firstTimestamp"),
                body.get("eventTime"),
                series.get("lastObservedTime"),
                body.get("lastTimestamp"),
            )
        ]
        known = [time for time in times if time is not None]
        if known and max(known) < self._created_at:
            return None
        number = series.get("count") or body.get("count")
        return EventRecord(
            type=str(body.get("type") or ""),
            reason=str(body.get("reason") or ""),
            message=str(body.get("message") or "").strip(),
            subject=subject,
            uid=str(involved.get("uid") or ""),
            count=number if isinstance(number, int) else 1,
            first_at=min(known, default=_UNKNOWN),
            last_at=max(known, default=_UNKNOWN),
            body=_complete(body),
        )

    def _name_subject(self, involved: Object) -> str | None:
        kind, name = involved.get("kind"), str(involved.get("name") or "")
        if kind == constants.POD_KIND:
            parsed = parse_pod_name(name)
            return str(parsed[1]) if parsed is not None and parsed[0] == self._name else None
        if kind == constants.CONFIGMAP_KIND:
            return kind if name == self._configmap else None
        is_it = kind == constants.FRAMEWORK_KIND and name == self._name
        return kind if is_it and involved.get("uid", self._uid) == self._uid else None


def _complete(body: Object) -> Object:
    """Add kind and apiVersion, which the items of a list do not have."""
    return {"apiVersion": EVENTS.api_version, "kind": EVENTS.kind, **hide_managed_fields(body)}


def _format_age(moment: datetime, now: datetime) -> str:
    if moment == _UNKNOWN:
        return "<unknown>"
    return format_seconds(max(0.0, (now - moment).total_seconds()))


def _get_object(body: Object, key: str) -> dict[str, Any]:
    value = body.get(key)
    return value if isinstance(value, dict) else {}

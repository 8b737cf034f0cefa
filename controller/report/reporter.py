"""The reporter: reports changes to users, by Events and log lines.

It reports only after a status is persisted, so that no crash undoes a reported change.
"""

import logging
from collections.abc import Iterable

from controller.core.decision import Event, EventType
from controller.report.events import EventRecorder
from controller.store.entry import Entry
from framework.api import constants
from framework.api.types import Framework, FrameworkStatus
from framework.kube.resources import Object

logger = logging.getLogger(__name__)


class Reporter:
    """Reports each change once."""

    def __init__(self, recorder: EventRecorder) -> None:
        """Report through ``recorder``."""
        self._recorder = recorder
        self._reported_faults: dict[str, str] = {}

    def report_change(
        self,
        before: Framework | None,
        status: FrameworkStatus,
        events: Iterable[Event],
    ) -> None:
        """Report the changes of a persisted status."""
        if before is None:
            return
        self.report_events(before, events)
        old = before.status.state if before.status else None
        if old is status.state:
            return
        attempt = status.attempt_status
        logger.info(
            "framework state",
            extra={
                "framework": before.key,
                "attempt": attempt.id,
                "from": old or "",
                "to": status.state,
            },
        )

    def report_events(self, framework: Framework, events: Iterable[Event]) -> None:
        """Report Events on a Framework."""
        involved = _refer(framework)
        for event in events:
            self._recorder.emit(involved, event.type, event.reason, event.message)

    def report_fault(self, entry: Entry) -> None:
        """Report once for each fault that a Framework cannot be read."""
        if entry.observed.fault is None:
            self._reported_faults.pop(entry.key, None)
            return
        text = str(entry.observed.fault)
        if self._reported_faults.get(entry.key) == text:
            return
        self._reported_faults[entry.key] = text
        logger.error("framework unreadable", extra={"framework": entry.key, "error": text})
        self._recorder.emit(_refer_by_name(entry), EventType.WARNING, "UnreadableFramework", text)

    def report_blocked(self, entry: Entry, reason: str, message: str) -> None:
        """Report that a Framework cannot be decided, or that its status cannot be stored."""
        involved = (
            _refer(entry.observed.framework) if entry.observed.framework else _refer_by_name(entry)
        )
        self._recorder.emit(involved, EventType.WARNING, reason, message)


def _refer_by_name(entry: Entry) -> Object:
    return {
        "apiVersion": constants.API_VERSION,
        "kind": constants.FRAMEWORK_KIND,
        "name": entry.name,
        "namespace": entry.namespace,
    }


def _refer(framework: Framework) -> Object:
    meta = framework.metadata
    return {
        "apiVersion": constants.API_VERSION,
        "kind": constants.FRAMEWORK_KIND,
        "name": meta.name,
        "namespace": meta.namespace,
        "uid": meta.uid,
        "resourceVersion": meta.resource_version,
    }

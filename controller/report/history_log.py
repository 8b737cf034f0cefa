"""The history log: one line per object that is about to be replaced, or a Pod that is gone.

A line is written when the replacement is persisted. Collectors of the Go original parse its text
form (``: ObjectSnapshot: (.+)``); in the JSON format of the log, the object is also a member.
``controller.core.history.logged_fields`` selects the fields of the object.
"""

import json
import logging
from collections.abc import Iterable
from collections.abc import Set as AbstractSet

from controller.core.decision import ObjectSnapshot, SnapshotTrigger
from controller.core.history.object_snapshots import build_pod_snapshot
from framework.api import gojson
from framework.api.text import is_printable
from framework.kube.resources import Object

logger = logging.getLogger(__name__)


class HistoryLog:
    """Writes the snapshots that the configuration selects."""

    def __init__(self, triggers: AbstractSet[SnapshotTrigger]) -> None:
        """Write only those of ``triggers``."""
        self._triggers = triggers

    def log(self, snapshots: Iterable[ObjectSnapshot]) -> None:
        """Log each snapshot on its own line."""
        for snapshot in snapshots:
            if snapshot.trigger in self._triggers:
                _write(snapshot)

    def log_deleted_pod(self, wire: Object) -> None:
        """Log a Pod as the watch showed it last."""
        if SnapshotTrigger.POD_DELETION in self._triggers:
            _write(build_pod_snapshot(wire))


def _write(snapshot: ObjectSnapshot) -> None:
    if not logger.isEnabledFor(logging.INFO):
        return
    body = snapshot.body
    logger.info(
        "[%s]: %s: ObjectSnapshot: %s",
        snapshot.subject,
        snapshot.trigger,
        _encode(body),
        # The text format leaves mappings out, so that its line ends with the object.
        extra={
            "object_snapshot": {
                "trigger": str(snapshot.trigger),
                "subject": snapshot.subject,
                "object": body,
            },
        },
    )


def _encode(body: Object) -> str:
    """Encode as Go does; text in which the log would escape characters is plain JSON instead."""
    text = gojson.dumps(body)
    return text if is_printable(text) else json.dumps(body, separators=(",", ":"))

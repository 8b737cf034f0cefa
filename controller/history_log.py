"""The history log: one line per object that is about to be replaced, or a Pod that is gone.

Called by the worker once the replacement is persisted, and by the informer. The text form is what
collectors of the Go original look for (``: ObjectSnapshot: (.+)``); in the JSON format of the log
the object is a member too. Source: FRAMEWORK, "Status size and history".
"""

import logging
from collections.abc import Iterable
from collections.abc import Set as AbstractSet

from controller.core.decision import ObjectSnapshot, SnapshotTrigger
from framework.api import gojson
from framework.kube.resources import Object

logger = logging.getLogger(__name__)


class HistoryLog:
    """Writes the snapshots that the configuration asks for."""

    def __init__(self, triggers: AbstractSet[SnapshotTrigger]) -> None:
        """Write only those of ``triggers``."""
        self._triggers = triggers

    def log(self, snapshots: Iterable[ObjectSnapshot]) -> None:
        """Log each snapshot on its own line, environment values left out."""
        for snapshot in snapshots:
            if snapshot.trigger in self._triggers:
                _write(snapshot)

    def log_deleted_pod(self, wire: Object) -> None:
        """Log a Pod as the watch showed it last."""
        if SnapshotTrigger.POD_DELETION in self._triggers:
            meta = wire.get("metadata") or {}
            subject = f"{meta.get('namespace')}/{meta.get('name')}"
            _write(ObjectSnapshot(SnapshotTrigger.POD_DELETION, subject, wire))


def _write(snapshot: ObjectSnapshot) -> None:
    if not logger.isEnabledFor(logging.INFO):
        return
    body = redact(snapshot.body)
    logger.info(
        "[%s]: %s: ObjectSnapshot: %s",
        snapshot.subject,
        snapshot.trigger,
        gojson.dumps(body),
        # A mapping, which the text format leaves out: its line ends with the object.
        extra={
            "object_snapshot": {
                "trigger": str(snapshot.trigger),
                "subject": snapshot.subject,
                "object": body,
            },
        },
    )


def redact(value: object) -> object:
    """Replace the literal values of environment variables: they may be secrets."""
    if isinstance(value, dict):
        return {
            key: [_redact_variable(v) for v in item]
            if key == "env" and isinstance(item, list)
            else redact(item)
            for key, item in value.items()
        }
    if isinstance(value, (list, tuple)):
        return [redact(item) for item in value]
    return value


def _redact_variable(variable: object) -> object:
    if isinstance(variable, dict) and variable.get("value"):
        return {**variable, "value": "<redacted>"}
    return variable

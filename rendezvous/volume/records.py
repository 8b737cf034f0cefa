"""The records of an agent in the volume, beside the generations, which ``writer`` writes.

::

    failed.json             the members that failed, for peers.on_change
    leaving.json            the Pods that leave, for peers.leaving
    .notified               the last generation and events that processes were notified of
    .scaler                 the last scaler whose script was started, and its result
"""

import contextlib
import os
import re

from framework.agent.files import write_atomically
from framework.api.scalerequest import (
    MAX_RESULT_CHARS,
    ScaleRequestError,
    decode_result,
    encode_result,
)
from rendezvous.core.notifying.notification import Notified
from rendezvous.core.scaling import Record
from rendezvous.volume.lock import lock_volume

NOTIFIED_FILE = ".notified"
FAILED_FILE = "failed.json"
LEAVING_FILE = "leaving.json"
SCALER_FILE = ".scaler"
_NOTIFIED = re.compile(
    r"([0-9]{1,18}) leaving=([!-~]{0,40}) completing=(?:0|(1))(?: failed=([0-9]{1,18}))?"
    r"(?: peersLeaving=([0-9]{1,18}))?\n\Z"
)
_MAX_NOTIFIED_BYTES = 256


class Records:
    """The records in one directory."""

    def __init__(self, directory: str) -> None:
        """Read and write in ``directory``."""
        self._directory = directory

    def read_notified(self) -> Notified:
        """Read the last events that processes were notified of."""
        match = _NOTIFIED.match(read_file(self._get_path(NOTIFIED_FILE), _MAX_NOTIFIED_BYTES))
        if match is None:
            return Notified()  # no agent wrote it
        number, leaving, completing, failed, peers = match.groups()
        return Notified(int(number), leaving, bool(completing), int(failed or 0), int(peers or 0))

    def write_notified(self, notified: Notified) -> None:
        """Record the events that processes were notified of.

        Raises:
            OSError: It cannot be written.
        """
        number, leaving, completing, failed, peers = notified
        text = f"{number} leaving={leaving} completing={int(completing)} failed={failed}"
        # Only if needed: older agents cannot read a line with this field.
        text += f" peersLeaving={peers}\n" if peers else "\n"
        self._write(NOTIFIED_FILE, text.encode())

    def write_failures(self, content: bytes) -> None:
        """Write the members that failed, for training code.

        Raises:
            OSError: It cannot be written.
        """
        self._write(FAILED_FILE, content)

    def clear_departures(self) -> None:
        """Remove the Pods that left before this agent started."""
        with contextlib.suppress(OSError):
            os.unlink(self._get_path(LEAVING_FILE))

    def write_departures(self, content: bytes) -> None:
        """Write the Pods that leave, for training code.

        Raises:
            OSError: It cannot be written.
        """
        self._write(LEAVING_FILE, content)

    def read_scaler(self) -> Record:
        """Read which scaler was carried out last."""
        text = read_file(self._get_path(SCALER_FILE), MAX_RESULT_CHARS * 4)
        uid, _, result = text.partition("\n")
        if not result:
            return Record(uid)
        try:
            return Record(uid, decode_result(result))
        except ScaleRequestError:
            return Record(uid)  # no agent wrote it: the script may have run

    def write_scaler(self, record: Record) -> None:
        """Record that a script is about to start, or the result of a scaler.

        Raises:
            OSError: It cannot be written.
        """
        result = "" if record.result is None else encode_result(record.result)
        text = f"{record.uid}\n{result}"
        self._write(SCALER_FILE, text.encode())

    def _write(self, name: str, content: bytes) -> None:
        # Another agent that tidies up meanwhile would remove the temporary file.
        with lock_volume(self._directory):
            write_atomically(self._get_path(name), content, 0o444)

    def _get_path(self, name: str) -> str:
        return os.path.join(self._directory, name)


def read_file(path: str, limit: int) -> str:
    """Read the first ``limit`` bytes of a file; "" if it cannot be read, or is a link."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        with open(descriptor, "rb") as file:
            return file.read(limit).decode("utf-8", "replace")
    except OSError:
        return ""

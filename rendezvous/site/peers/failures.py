"""The members that failed, from the agent's file ``failed.json``.

The agent replaces the file by rename before it notifies processes. The file is parsed only if its
inode and time differ from those of the last read.
"""

import contextlib
import json
import os
from typing import Any, Dict, NamedTuple, Optional, Tuple

_FILE_NAME = "failed.json"


class Failure(NamedTuple):
    """A member that failed. ``code`` is None, and ``reason`` "", if they are unknown."""

    role: str
    """The name of its task role."""
    index: int  # type: ignore[assignment]  # hides tuple.index, which is not used
    """The index of its Task."""
    address: str
    """The address that it had."""
    fingerprint: str
    """Distinguishes its Pod from other Pods of the same Task."""
    code: Optional[int]
    """The completion code of its Task attempt, for example 137."""
    reason: str
    """The name of the code."""


class FailureReader:
    """Reads the file of a volume, and parses it when it was replaced."""

    def __init__(self, directory: str) -> None:
        self._path = os.path.join(directory, _FILE_NAME)
        self._seen: Tuple[int, int] = (0, 0)
        self._attempt = ""
        self._failures: Tuple[Failure, ...] = ()

    def read(self, attempt: str) -> Tuple[Failure, ...]:
        """Read the failures of an attempt; none if there is no such file, or no agent wrote it."""
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError, AttributeError):
            status = os.stat(self._path)
            identity = (status.st_ino, status.st_mtime_ns)
            if identity != self._seen:
                with open(self._path, encoding="utf-8") as file:
                    document = json.load(file)
                self._attempt = document["instanceUID"]
                self._failures = tuple(map(_parse, document["failed"]))
                self._seen = identity
        return self._failures if attempt == self._attempt else ()


def _parse(entry: Dict[str, Any]) -> Failure:
    return Failure(
        entry["role"],
        entry["index"],
        entry["address"],
        entry["podUIDFingerprint"],
        entry["code"],
        entry["reason"],
    )

"""Reports of an agent about its processes, in annotations of its own Pod.

Written by ``run``, read by the controller. Written for Python 3.7 (agents' zipapp). Rules:
docs/design/recovery.md, "Steps".

- ``frameworkbarrier.io/process-ended``: epoch and exit code of the process that failed last.
  Example: ``4 137``.
- ``frameworkbarrier.io/epoch-started``: ``since`` and epoch of a start barrier. ``7 5``: this start
  barrier was the last that released its members. ``7 5 89abcdef``: Pods with these fingerprints
  have not come to it. The agent that serves the start barrier reports late Pods; an agent that
  waits there reports the Pod that serves it.
"""

import re
from typing import NamedTuple, Optional, Tuple

MAX_MISSING = 10
# After this time, the Pods of a new generation that have not come are reported. It is long, because
# their agents have to start.
START_SECONDS = 300.0
# After this time, agents that wait report the Pod that serves the start barrier.
SERVER_SECONDS = 600.0
_END = re.compile(r"(0|[1-9][0-9]{0,8}) ([1-9][0-9]{0,2})", re.ASCII)
_START = re.compile(r"([1-9][0-9]{0,8}) (0|[1-9][0-9]{0,8})((?: [0-9a-f]{8}){0,10})", re.ASCII)


class ProcessEnd(NamedTuple):
    """A process that failed: its epoch and its exit code."""

    epoch: int
    code: int


class EpochStart(NamedTuple):
    """An epoch that has started, or that cannot start because the ``missing`` Pods have not come.

    ``since`` is the generation since which the gang has its members.
    """

    since: int
    epoch: int
    missing: Tuple[str, ...] = ()


def encode_end(end: ProcessEnd) -> str:
    """Encode the annotation."""
    return f"{end.epoch} {end.code}"


def parse_end(text: str) -> Optional[ProcessEnd]:
    """Parse the annotation; None if the text is invalid."""
    found = _END.fullmatch(text)
    return None if found is None else ProcessEnd(int(found.group(1)), int(found.group(2)))


def encode_start(start: EpochStart) -> str:
    """Encode the annotation, with the first Pods that have not come."""
    return " ".join([str(start.since), str(start.epoch), *start.missing[:MAX_MISSING]])


def parse_start(text: str) -> Optional[EpochStart]:
    """Parse the annotation; None if the text is invalid."""
    found = _START.fullmatch(text)
    if found is None:
        return None
    since, epoch, missing = found.groups()
    return EpochStart(int(since), int(epoch), tuple(missing.split()))

"""The Pods that leave, from the agent's file ``leaving.json``."""

import contextlib
import json
import os
from typing import Any, Dict, NamedTuple, Optional, Tuple

from .generations import find_current, roster

_FILE_NAME = "leaving.json"


class Leaving(NamedTuple):
    """A Pod that leaves before its node goes, or because its Task is scaled down."""

    role: str
    """The name of its task role."""
    index: int  # type: ignore[assignment]  # hides tuple.index, which is not used
    """The index of its Task."""
    address: str
    """Its address; "" if it is unknown."""
    fingerprint: str
    """Distinguishes its Pod from other Pods of the same Task."""
    deadline: str
    """When its Pod is deleted at the latest, such as 2026-01-01T00:00:00Z."""
    is_own: bool
    """Whether it is the Pod of this process."""


def leaving() -> Tuple[Leaving, ...]:
    """Return the Pods of the gang that leave, the own one first; () while none does.

    It reads a small file, so it may be called in each step. Ranks may see a change in different
    steps: let them agree, for example by an all-reduce, before they write a checkpoint together.
    A Pod that leaves and is not the own one is listed only while the gang waits for its successor:
    otherwise there is a generation without it.
    """
    path = os.path.join(os.path.dirname(find_current()), _FILE_NAME)
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError, AttributeError):
        with open(path, encoding="utf-8") as file:
            document = json.load(file)
        if document["instanceUID"] != roster().attempt:
            return ()
        own: Optional[Dict[str, Any]] = document["own"]
        found = [] if own is None else [_parse(own, is_own=True)]
        found += [_parse(entry, is_own=False) for entry in document["peers"]]
        return tuple(found)
    return ()


def _parse(entry: Dict[str, Any], *, is_own: bool) -> Leaving:
    return Leaving(
        entry["role"],
        entry["index"],
        entry["address"],
        entry["podUIDFingerprint"],
        entry["deadline"],
        is_own,
    )

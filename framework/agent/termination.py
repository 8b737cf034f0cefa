"""The termination message of an agent, which ``kubectl describe`` and the controller show.

Kubernetes reads at most 4096 bytes of it.
"""

import json
import os
from typing import Any, Dict

MAX_BYTES = 4096


def render_termination_message(fields: Dict[str, Any]) -> bytes:
    """Render the message as one JSON object of at most 4096 bytes.

    If it is longer, entries of ``missing`` are dropped first, then the end of ``message``. The
    result is always valid JSON.
    """
    fields = dict(fields)
    text = _dump(fields)
    while len(text) > MAX_BYTES and fields.get("missing"):
        fields["missing"] = fields["missing"][:-1]
        text = _dump(fields)
    while len(text) > MAX_BYTES and fields.get("message"):
        # Halve it: because of escapes, the length of the JSON is not the length of the text.
        fields["message"] = fields["message"][: len(fields["message"]) // 2]
        text = _dump(fields)
    return text


def write_termination_message(path: str, fields: Dict[str, Any]) -> bool:
    """Write the message; return whether that succeeded. A failure does not fail the agent.

    In a Pod the file is a mount, which cannot be replaced by a rename, so it is written in place.
    Outside a Pod the file does not exist and is not created. The kubelet creates it empty. It is
    truncated only if it is not empty: ext4 flushes a truncated file to the disk at its close, and
    all agents of a gang would wait for that at the same time.
    """
    try:
        flags = os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
        descriptor = os.open(path, flags)
    except OSError:
        return False
    try:
        if os.fstat(descriptor).st_size:
            os.ftruncate(descriptor, 0)
        os.write(descriptor, render_termination_message(fields))
    except OSError:
        return False
    finally:
        os.close(descriptor)
    return True


def _dump(fields: Dict[str, Any]) -> bytes:
    return json.dumps(fields, separators=(",", ":")).encode()

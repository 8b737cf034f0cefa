"""The termination message: what ``kubectl describe`` and the controller show of an agent's end.

Called once, by the agent's way out. Kubernetes reads at most 4096 bytes of it.
"""

import json
import os
from typing import Any, Dict

MAX_BYTES = 4096


def render_termination_message(fields: Dict[str, Any]) -> bytes:
    """Render the message as one JSON object of at most 4096 bytes.

    What is too long is cut in the order in which it can be missed: entries of ``missing``, then
    the end of ``message``. The result stays valid JSON.
    """
    fields = dict(fields)
    text = _dump(fields)
    while len(text) > MAX_BYTES and fields.get("missing"):
        fields["missing"] = fields["missing"][:-1]
        text = _dump(fields)
    while len(text) > MAX_BYTES and fields.get("message"):
        # Cut in halves: escapes make the length of the JSON differ from that of the text.
        fields["message"] = fields["message"][: len(fields["message"]) // 2]
        text = _dump(fields)
    return text


def write_termination_message(path: str, fields: Dict[str, Any]) -> bool:
    """Write the message; return whether it worked. An agent does not fail for want of it.

    The file exists in a Pod, as a mount that cannot be renamed over, so it is opened for writing
    in place; elsewhere it does not exist and is not created. A kubelet makes it empty, and it is
    cut only if it is not: a file that was cut is sent to the disk when it is closed (ext4), and a
    gang's agents would all wait for that at one moment.
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

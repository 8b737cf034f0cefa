"""Turns JSON diagnostics and errors of libraries into words for users. Pure.

The stored diagnostics stay unchanged: they are those of the Go original, and its users' programs
read them.
"""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from cli.texts.torchreport import strip_report
from framework.api.endings import PLAIN_REASONS, describe_container_end

_REFUSED = "Failed to create Pod: "
# aiohttp adds this to the address of a server.
_TLS_NOISE = re.compile(r" ssl:(?:default|None|True|False|<[^>]{0,200}>)")
_HAS_WORDS = re.compile(r"\w")
# A termination message of at most so many characters is shown whole.
_SHORT_MESSAGE = 120


def explain_diagnostics(diagnostics: str) -> str:
    """Explain completion diagnostics; a text without JSON is returned unchanged."""
    found = _find_object(diagnostics)
    if found is None:
        return diagnostics
    if diagnostics.startswith(_REFUSED):
        status = found.get("ErrStatus", found)
        message = status.get("message") if isinstance(status, dict) else None
        return f"Pod refused: {message}" if message else diagnostics
    parts = list(_walk_parts(found))
    return "; ".join(parts) or diagnostics


def find_cut_message(diagnostics: str) -> tuple[str, list[str]] | None:
    """Find the termination message of which ``explain_diagnostics`` shows only the last line.

    Returns:
        The container and the lines of its message; None if all lines are shown.
    """
    found = _find_object(diagnostics)
    containers = [] if found is None else found.get("containers")
    for container in containers if isinstance(containers, list) else ():
        message = str(container.get("message") or "") if isinstance(container, dict) else ""
        lines = [line.rstrip() for line in strip_report(message.splitlines()) if line.strip()]
        if len(lines) > 1 and "; ".join(_explain_message(message)) in lines:
            return str(container.get("name")), lines
    return None


def strip_noise(message: str) -> str:
    """Remove the details of the library from a connection error."""
    return _TLS_NOISE.sub("", message)


def _find_object(text: str) -> dict[str, Any] | None:
    start = text.find("{")
    if start < 0:
        return None
    try:
        found, _ = json.JSONDecoder().raw_decode(text[start:])
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


def _walk_parts(pod: Mapping[str, Any]) -> Iterator[str]:
    reason, message = str(pod.get("reason") or ""), str(pod.get("message") or "")
    if reason or message:
        yield ": ".join(filter(None, (reason, message)))
    containers = pod.get("containers")
    for container in containers if isinstance(containers, list) else ():
        # A container that ended with 0 is not the cause. Without a code, it may be.
        if isinstance(container, dict) and container.get("code", -1) != 0:
            yield _explain_container(container)


def _explain_container(container: Mapping[str, Any]) -> str:
    name = str(container.get("name") or "a container")
    reason, message = str(container.get("reason") or ""), str(container.get("message") or "")
    agents = _find_agents_message(message)
    details = [] if reason in PLAIN_REASONS else [reason]
    if agents or details:
        details += agents or _explain_message(message)
        message = ""
    text = f"{name} {_describe_end(container, ': '.join(details))}"
    output = _explain_message(message)
    return f"{text}; last output: {output[0]}" if output else text


def _describe_end(container: Mapping[str, Any], details: str) -> str:
    code, signal = container.get("code"), container.get("signal")
    if not isinstance(code, int) and not isinstance(signal, int):
        return f"failed ({details})" if details else "failed"
    return describe_container_end(
        code if isinstance(code, int) else 0, signal if isinstance(signal, int) else 0, details
    )


def _find_agents_message(message: str) -> list[str]:
    """Find the reason and the message of an agent of this project in a termination message."""
    found = _find_object(message) if message.startswith("{") else None
    if found is None or not found.get("message"):
        return []
    return [part for part in (str(found.get("reason") or ""), str(found["message"])) if part]


def _explain_message(message: str) -> list[str]:
    """Find the text of a termination message that names the cause."""
    output = strip_report(message.splitlines())
    lines = [stripped for line in output if (stripped := line.strip())]
    whole = "; ".join(lines)
    if len(whole) <= _SHORT_MESSAGE:
        return [whole] if whole else []
    # The end of a log: a stack trace has the cause in its last line, rulers may follow.
    return [next((line for line in reversed(lines) if _HAS_WORDS.search(line)), lines[-1])]

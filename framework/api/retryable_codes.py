"""Which exit codes of a container are retried: an annotation of the Pod template.

The compile step of a TfJob writes it; users of Frameworks may write it, too. The controller reads
it from the spec of the Framework, never from a Pod, and
``controller.core.policies.exit_code_policy`` decides by it.
"""

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from framework.api import constants
from framework.api.podtemplates import find_annotation

ANNOTATION_FORM = "tensorflow=128-255"
_MAX_EXIT_CODE = 255
_MAX_SHOWN = 5
# The name of a container is a DNS label.
_ANNOTATION = re.compile(
    r"([a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?)=([1-9][0-9]{0,2})-([1-9][0-9]{0,2})", re.ASCII
)


@dataclass(frozen=True, slots=True)
class RetryableCodes:
    """The exit codes from ``low`` to ``high`` of a container are retried, and no others."""

    container: str
    low: int
    high: int

    def contains(self, code: int) -> bool:
        """Return whether this exit code is retried."""
        return self.low <= code <= self.high

    def __str__(self) -> str:
        """Write it as the annotation."""
        return f"{self.container}={self.low}-{self.high}"


def find_text(template: Mapping[str, Any] | None) -> object:
    """Find the annotation of a Pod template; None if it is absent."""
    return find_annotation(template, constants.RETRYABLE_CODES_ANNOTATION)


def find_retryable_codes(template: Mapping[str, Any] | None) -> RetryableCodes | None:
    """Find the retryable exit codes of a Pod template; None if it has none that can be read."""
    return parse_retryable_codes(find_text(template))


def find_fault(template: Mapping[str, Any] | None, names: Collection[str]) -> tuple[str, str]:
    """Find why the annotation of a Pod template has no effect, and the remedy; "" if it has one.

    Args:
        template: the Pod template.
        names: the names of its containers.
    """
    text = find_text(template)
    codes = parse_retryable_codes(text)
    if text is None or (codes is not None and codes.container in names):
        return "", ""
    if codes is None:
        example = f"write CONTAINER=LOW-HIGH with codes from 1 to {_MAX_EXIT_CODE}, for example "
        return f"{text!r:.100} cannot be read", example + ANNOTATION_FORM
    known = ", ".join(sorted(names)[:_MAX_SHOWN]) or "none"
    return f"no container has the name {codes.container}", f"write the name of one: {known:.200}"


def parse_retryable_codes(text: object) -> RetryableCodes | None:
    """Parse the annotation; None if it is not of ``ANNOTATION_FORM``, or out of bounds."""
    found = _ANNOTATION.fullmatch(text) if isinstance(text, str) else None
    if found is None:
        return None
    codes = RetryableCodes(found.group(1), int(found.group(2)), int(found.group(3)))
    return codes if codes.low <= codes.high <= _MAX_EXIT_CODE else None

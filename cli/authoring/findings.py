"""A finding of `lint` at one place of a Framework. Pure."""

from dataclasses import dataclass
from enum import StrEnum


class Severity(StrEnum):
    """How serious a finding is."""

    ERROR = "error"
    """It does not work."""
    WARNING = "warning"
    """It works now, and may fail later or elsewhere."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One fault: its place, its effect, and what to write instead."""

    rule: str
    severity: Severity
    path: str
    message: str
    fix: str


def error(rule: str, path: str, message: str, fix: str) -> Finding:
    """Report something that does not work."""
    return Finding(rule, Severity.ERROR, path, message, fix)


def warning(rule: str, path: str, message: str, fix: str) -> Finding:
    """Report something that works only by chance."""
    return Finding(rule, Severity.WARNING, path, message, fix)

"""What the API server says when it refuses to create an object. Pure.

The texts are those of kube-apiserver 1.27 to 1.34: quota, Pod Security, admission policies and
webhooks, service accounts, validation.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum


class Refuser(StrEnum):
    """Which part of the API server refused."""

    QUOTA = "quota"
    QUOTA_NEEDS = "quota needs a request"
    POD_SECURITY = "Pod Security"
    POLICY = "admission policy"
    WEBHOOK = "admission webhook"
    WEBHOOK_DOWN = "admission webhook that does not answer"
    SERVICE_ACCOUNT = "service account"
    PRIORITY_CLASS = "priority class"
    NAMESPACE = "namespace"
    RIGHT = "missing right"
    INVALID = "validation"
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class Refusal:
    """A refusal, read from its message."""

    refuser: Refuser
    name: str = ""
    """Of the quota, level, policy, webhook, account or class."""
    details: str = ""
    """What the refuser says, without the words of the API server around it."""
    amounts: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Of a quota: requested, used and limited, each resource with its quantity."""


_AMOUNTS = frozenset({"requested", "used", "limited"})
_PATTERNS: tuple[tuple[Refuser, re.Pattern[str]], ...] = (
    (
        Refuser.QUOTA,
        re.compile(
            r"exceeded quota: (?P<name>\S+), requested: (?P<requested>\S+), "
            r"used: (?P<used>\S+), limited: (?P<limited>[^\s)]+)"
        ),
    ),
    (
        Refuser.QUOTA_NEEDS,
        re.compile(r"failed quota: (?P<name>[^:\s]+): must specify (?P<details>.+)"),
    ),
    (
        Refuser.POD_SECURITY,
        re.compile(r'violates PodSecurity "(?P<name>[^":]+)(?::[^"]*)?": (?P<details>.+)'),
    ),
    (
        Refuser.POLICY,
        re.compile(
            r"ValidatingAdmissionPolicy '(?P<name>[^']+)'(?: with binding '[^']*')? "
            r"denied request: (?P<details>(?s:.+))"
        ),
    ),
    (
        Refuser.WEBHOOK_DOWN,
        re.compile(r'failed calling webhook "(?P<name>[^"]+)": (?P<details>.+)'),
    ),
    (
        Refuser.WEBHOOK,
        re.compile(r'admission webhook "(?P<name>[^"]+)" denied the request: (?P<details>.+)'),
    ),
    (
        Refuser.SERVICE_ACCOUNT,
        re.compile(r'serviceaccount "(?P<name>[^"]+)" not found(?P<details>)'),
    ),
    (
        Refuser.PRIORITY_CLASS,
        re.compile(r"no PriorityClass with name (?P<name>\S+) was found(?P<details>)"),
    ),
    (Refuser.NAMESPACE, re.compile(r"namespace (?P<name>\S+) (?P<details>.*being terminated)")),
    (Refuser.RIGHT, re.compile(r'cannot create resource "(?P<name>[^"]+)"(?P<details>.*)')),
    (Refuser.INVALID, re.compile(r"(?P<name>) is invalid: (?P<details>.+)")),
)


def parse_refusal(message: str) -> Refusal:
    """Find out which part of the API server refused, and what it says."""
    line = " ".join(message.split())
    for refuser, pattern in _PATTERNS:
        found = pattern.search(line)
        if found is None:
            continue
        groups = found.groupdict()
        amounts: dict[str, Mapping[str, str]] = {
            key: _parse_amounts(text) for key, text in groups.items() if key in _AMOUNTS
        }
        return Refusal(refuser, groups["name"].strip("\"'"), groups.get("details") or "", amounts)
    return Refusal(Refuser.OTHER, details=line)


def _parse_amounts(text: str) -> dict[str, str]:
    pairs = (part.partition("=") for part in text.split(","))
    return {name: value for name, _, value in pairs if name}

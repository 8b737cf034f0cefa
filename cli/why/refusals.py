"""Reads the messages with which the API server refuses to create an object. Pure.

The texts are those of kube-apiserver 1.27 to 1.34: quota, Pod Security, admission policies and
webhooks, service accounts, validation.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from cli.why.names import hide_names, unquote


class Refuser(StrEnum):
    """The part of the API server that refused."""

    QUOTA = "quota"
    QUOTA_NEEDS = "quota needs a request"
    LIMIT_RANGE = "LimitRange"
    POD_SECURITY = "Pod Security"
    POLICY = "admission policy"
    WEBHOOK = "admission webhook"
    WEBHOOK_DOWN = "admission webhook that does not answer"
    SERVICE_ACCOUNT = "service account"
    PRIORITY_CLASS = "priority class"
    NAMESPACE = "namespace"
    RIGHT = "missing right"
    FINALIZERS_RIGHT = "missing right on finalizers"
    INVALID = "validation"
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class Refusal:
    """A refusal, read from its message."""

    refuser: Refuser
    name: str = ""
    """Name of the quota, level, policy, webhook, account or class."""
    details: str = ""
    """The message of the refuser, without the words of the API server around it."""
    amounts: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """For a quota: requested, used and limited, each resource with its quantity."""


_AMOUNTS = frozenset({"requested", "used", "limited"})
# The text of the API server before the message of the part that refused.
_HEAD = re.compile(r'^(?:[\w.-]+ (?:"\d+" )?is )?forbidden: |^Internal error occurred: ')
# They match the beginning of a message whose quoted names are hidden.
_PATTERNS: tuple[tuple[Refuser, re.Pattern[str]], ...] = (
    (
        Refuser.QUOTA,
        re.compile(
            r"^exceeded quota: (?P<name>\S+), requested: (?P<requested>\S+), "
            r"used: (?P<used>\S+), limited: (?P<limited>[^\s)]+)"
        ),
    ),
    (
        Refuser.QUOTA_NEEDS,
        re.compile(r"^failed quota: (?P<name>[^:\s]+): must specify (?P<details>.+)"),
    ),
    (
        Refuser.LIMIT_RANGE,
        re.compile(
            r"^(?P<name>)\[?(?P<details>(?:minimum|maximum) \S+ usage per .+"
            r"|\S+ max limit to request ratio per .+)"
        ),
    ),
    (
        Refuser.POD_SECURITY,
        re.compile(r'^violates PodSecurity (?P<name>"\d+"): (?P<details>.+)'),
    ),
    (
        Refuser.POLICY,
        re.compile(
            r"^ValidatingAdmissionPolicy '(?P<name>[^']+)'(?: with binding '[^']*')? "
            r"denied request: (?P<details>.+)"
        ),
    ),
    (
        Refuser.WEBHOOK_DOWN,
        re.compile(r'^failed calling webhook (?P<name>"\d+")[:;] (?P<details>.+)'),
    ),
    (
        Refuser.WEBHOOK,
        re.compile(
            r'^admission webhook (?P<name>"\d+") denied the request'
            r"(?:: (?P<details>.+)| without explanation)"
        ),
    ),
    (
        Refuser.SERVICE_ACCOUNT,
        re.compile(
            r'^(?:error looking up service account .*: )?serviceaccount (?P<name>"\d+") not found$'
        ),
    ),
    (
        Refuser.PRIORITY_CLASS,
        re.compile(r"^no PriorityClass with name (?P<name>.*) was found$"),
    ),
    (
        Refuser.NAMESPACE,
        re.compile(
            r"^unable to create new content in namespace (?P<name>\S+) because it is being "
            r"terminated"
        ),
    ),
    (Refuser.RIGHT, re.compile(r'^User "\d+" cannot create resource (?P<name>"\d+")')),
    (
        Refuser.FINALIZERS_RIGHT,
        re.compile(
            r"^(?P<name>)cannot set blockOwnerDeletion if an ownerReference refers to a resource "
            r"you can't set finalizers on"
        ),
    ),
    (Refuser.INVALID, re.compile(r'^(?P<name>)[\w.]+ "\d+" is invalid: (?P<details>.+)')),
)


def parse_refusal(message: str) -> Refusal:
    """Find the part of the API server that refused, and its message.

    Only the beginning of a message is matched: names and values of users come later.
    """
    hidden = hide_names(" ".join(message.split()))
    head = _HEAD.match(hidden.text)
    line = hidden.text[head.end() :] if head else hidden.text
    for refuser, pattern in _PATTERNS:
        found = pattern.match(line)
        if found is not None:
            groups = {key: hidden.restore(text or "") for key, text in found.groupdict().items()}
            return _build_refusal(refuser, groups)
    return Refusal(Refuser.OTHER, details=hidden.restore(hidden.text))


def _build_refusal(refuser: Refuser, groups: Mapping[str, str]) -> Refusal:
    name = unquote(groups["name"])
    if refuser is Refuser.POD_SECURITY:
        # The level, and the version of the level.
        name = name.partition(":")[0]
    amounts: dict[str, Mapping[str, str]] = {
        key: _parse_amounts(text) for key, text in groups.items() if key in _AMOUNTS
    }
    return Refusal(refuser, name, groups.get("details", ""), amounts)


def _parse_amounts(text: str) -> dict[str, str]:
    pairs = (part.partition("=") for part in text.split(","))
    return {name: value for name, _, value in pairs if name}

"""Names of objects and instance UIDs: validation, building and parsing. Pure.

The rules are those of microsoft/frameworkcontroller ``funcs.go``, with one extension: the name of a
Framework may be any DNS-1123 label. A role has no dash, so ``{framework}-{role}-{index}`` is parsed
from the right. Python 3.7 syntax, because the zipapp of the agents contains this file.
"""

import re
from typing import NamedTuple, Optional

FRAMEWORK_NAME_PATTERN = r"^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$"
ROLE_NAME_PATTERN = r"^[a-z0-9]{1,63}$"
# The original accepts a role without a name.
STORED_ROLE_NAME_PATTERN = r"^[a-z0-9]{0,63}$"

_OBJECT_NAME = re.compile(r"[a-z0-9]([-.a-z0-9]{0,251}[a-z0-9])?\Z")
_FRAMEWORK_NAME = re.compile(FRAMEWORK_NAME_PATTERN + r"\Z")
_ROLE_NAME = re.compile(ROLE_NAME_PATTERN + r"\Z")
_CONFIGMAP_NAME = re.compile(r"^(?P<framework>.+)-attempt\Z")
_POD_NAME = re.compile(r"^(?P<framework>.+)-(?P<role>[a-z0-9]{0,63})-(?P<index>0|[1-9][0-9]*)\Z")


class TaskKey(NamedTuple):
    """The identity of a Task in its Framework: role and index, not rank."""

    role: str
    index: int  # type: ignore[assignment]  # hides tuple.index

    def __str__(self) -> str:
        """Render as ``worker/3``."""
        return f"{self.role}/{self.index}"


def is_framework_name(name: str) -> bool:
    """Return whether a Framework may have this name (a DNS-1123 label)."""
    return _FRAMEWORK_NAME.match(name) is not None


def is_namespace_name(name: str) -> bool:
    """Return whether a namespace may have this name (a DNS-1123 label)."""
    return _FRAMEWORK_NAME.match(name) is not None


def is_object_name(name: str) -> bool:
    """Return whether an object may have this name (a DNS-1123 subdomain)."""
    return _OBJECT_NAME.match(name) is not None


def is_role_name(name: str) -> bool:
    """Return whether a task role may have this name (no dash, as in the Go original)."""
    return _ROLE_NAME.match(name) is not None


def build_configmap_name(framework: str) -> str:
    """Build the name of the attempt ConfigMap. It is the same for every attempt."""
    return framework + "-attempt"


def parse_configmap_name(configmap: str) -> Optional[str]:
    """Parse the name of the Framework from that of an attempt ConfigMap; None if impossible."""
    match = _CONFIGMAP_NAME.match(configmap)
    return match.group("framework") if match else None


def build_gang_key_name(framework: str) -> str:
    """Build the name of the Secret with the gang key."""
    return framework + "-gang-key"


def build_pod_name(framework: str, role: str, index: int) -> str:
    """Build the name of the Pod of a Task. It is the same for every attempt of the Task."""
    return f"{framework}-{role}-{index}"


def parse_pod_name(pod: str) -> Optional["tuple[str, TaskKey]"]:
    """Parse ``{framework}-{role}-{index}`` from the right; None if impossible."""
    match = _POD_NAME.match(pod)
    if match is None:
        return None
    return match.group("framework"), TaskKey(match.group("role"), int(match.group("index")))


def build_instance_uid(attempt_id: int, object_uid: str) -> str:
    """Build the instance UID ``{attemptID}_{UID}``, which is globally unique."""
    return f"{attempt_id}_{object_uid}"

"""Names and instance UIDs, built and taken apart again.

Called by the controller, the agents and the CLI. Written for Python 3.7 (agents' zipapp).
Rules: microsoft/frameworkcontroller ``funcs.go``; a Framework's name may be any DNS-1123 label
here, because a role has no dash, so ``{framework}-{role}-{index}`` parses from the right.
"""

import re
from typing import NamedTuple, Optional

FRAMEWORK_NAME_PATTERN = r"^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$"
ROLE_NAME_PATTERN = r"^[a-z0-9]{1,63}$"
# The Go original ran a role that was given no name, so there are such.
STORED_ROLE_NAME_PATTERN = r"^[a-z0-9]{0,63}$"

_FRAMEWORK_NAME = re.compile(FRAMEWORK_NAME_PATTERN + r"\Z")
_ROLE_NAME = re.compile(ROLE_NAME_PATTERN + r"\Z")
_CONFIGMAP_NAME = re.compile(r"^(?P<framework>.+)-attempt\Z")
_POD_NAME = re.compile(r"^(?P<framework>.+)-(?P<role>[a-z0-9]{0,63})-(?P<index>0|[1-9][0-9]*)\Z")


class TaskKey(NamedTuple):
    """A Task within one Framework: role name and index (identity, not rank)."""

    role: str
    index: int  # type: ignore[assignment]  # hides tuple.index, which nobody asks for

    def __str__(self) -> str:
        """Render as users write it: ``worker/3``."""
        return f"{self.role}/{self.index}"


def is_framework_name(name: str) -> bool:
    """Return whether a Framework may have this name (a DNS-1123 label)."""
    return _FRAMEWORK_NAME.match(name) is not None


def is_role_name(name: str) -> bool:
    """Return whether a task role may have this name (no dash, as in the Go original)."""
    return _ROLE_NAME.match(name) is not None


def build_configmap_name(framework: str) -> str:
    """Build the name of the attempt ConfigMap, the same for every attempt."""
    return framework + "-attempt"


def parse_configmap_name(configmap: str) -> Optional[str]:
    """Take the Framework's name out of its attempt ConfigMap's; None if it is no such name."""
    match = _CONFIGMAP_NAME.match(configmap)
    return match.group("framework") if match else None


def build_gang_key_name(framework: str) -> str:
    """Build the name of the Secret that holds the gang key of the attempt."""
    return framework + "-gang-key"


def build_pod_name(framework: str, role: str, index: int) -> str:
    """Build the name of a Task's Pod, the same for every attempt of the Task."""
    return f"{framework}-{role}-{index}"


def parse_pod_name(pod: str) -> Optional["tuple[str, TaskKey]"]:
    """Take ``{framework}-{role}-{index}`` apart from the right; None if it is no such name."""
    match = _POD_NAME.match(pod)
    if match is None:
        return None
    return match.group("framework"), TaskKey(match.group("role"), int(match.group("index")))


def build_instance_uid(attempt_id: int, object_uid: str) -> str:
    """Build ``{attemptID}_{UID}``, which names one instance of an attempt universally."""
    return f"{attempt_id}_{object_uid}"

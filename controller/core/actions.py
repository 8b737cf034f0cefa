"""Actions: what a decision asks the executor to send, one request each.

Frozen values in one union. An action names its object by identity, so the same action decided
twice has the same key and is sent once. Bodies are rendered when an action is sent: a decision
may hold a thousand creates that a later one drops.
"""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import ClassVar, TypeAlias

from framework.api import naming
from framework.api.types import Framework


class Verb(StrEnum):
    """The request an action sends."""

    CREATE = "create"
    DELETE = "delete"
    GET = "get"


class Propagation(StrEnum):
    """What a delete does to the objects that the deleted one owns; without one the server asks it.

    BACKGROUND lets the object go at once, whatever its finalizers for the garbage collector say.
    """

    FOREGROUND = "Foreground"
    BACKGROUND = "Background"


class ObjectKind(StrEnum):
    """The kinds the controller acts on."""

    FRAMEWORK = "Framework"
    CONFIGMAP = "ConfigMap"
    POD = "Pod"
    SECRET = "Secret"


@dataclass(frozen=True, slots=True)
class ActionKey:
    """Identity of an action within one Framework.

    ``identity``: the UID for a delete; for a create what the object will say to be; "" for a get.
    """

    verb: Verb
    kind: ObjectKind
    name: str
    identity: str = ""


@dataclass(frozen=True, slots=True)
class _CreateForAttempt:
    """Create an object of which each attempt of ``framework`` has one."""

    kind: ClassVar[ObjectKind]

    framework: Framework = field(compare=False)
    name: str
    identity: str
    cause: str
    is_settled: bool = False
    is_patient: bool = False

    @property
    def key(self) -> ActionKey:
        """Identity of the action."""
        return ActionKey(Verb.CREATE, self.kind, self.name, self.identity)


@dataclass(frozen=True, slots=True)
class CreateConfigMap(_CreateForAttempt):
    """Create the attempt ConfigMap of ``framework``'s current attempt."""

    kind = ObjectKind.CONFIGMAP


@dataclass(frozen=True, slots=True)
class CreateGangKey(_CreateForAttempt):
    """Create the Secret with the gang key; ``identity`` is the UID of the attempt's ConfigMap."""

    kind = ObjectKind.SECRET


@dataclass(frozen=True, slots=True)
class CreatePod:
    """Create the Pod of a Task's current attempt, as ``framework``'s status has it."""

    framework: Framework = field(compare=False)
    task: naming.TaskKey
    name: str
    identity: str
    cause: str
    is_settled: bool = False
    is_patient: bool = False

    @property
    def key(self) -> ActionKey:
        """Identity of the action."""
        return ActionKey(Verb.CREATE, ObjectKind.POD, self.name, self.identity)


@dataclass(frozen=True, slots=True)
class DeleteObject:
    """Delete one instance, by UID. ``grace_seconds`` None leaves the grace to the object.

    ``is_settled``: nothing it relies on waits to be persisted (also on the creates).
    ``is_patient``: nobody waits for it while other Tasks go on.
    """

    kind: ObjectKind
    name: str
    uid: str
    cause: str
    grace_seconds: int | None = None
    propagation: Propagation | None = None
    is_settled: bool = False
    is_patient: bool = False

    @property
    def key(self) -> ActionKey:
        """Identity of the action; a forced delete is another one than a graceful one."""
        suffix = "" if self.grace_seconds is None else f"/{self.grace_seconds}"
        return ActionKey(Verb.DELETE, self.kind, self.name, self.uid + suffix)


@dataclass(frozen=True, slots=True)
class GetObject:
    """Read an object live: its presence decides, not what the cache says."""

    kind: ObjectKind
    name: str
    cause: str
    is_settled: bool = True
    is_patient: bool = False

    @property
    def key(self) -> ActionKey:
        """Identity of the action."""
        return ActionKey(Verb.GET, self.kind, self.name)


Action: TypeAlias = CreateConfigMap | CreateGangKey | CreatePod | DeleteObject | GetObject


def build_attempt_identity(owner_uid: str, attempt_id: int) -> str:
    """Build what a created object says to be: the owner instance and the attempt."""
    return f"{owner_uid}/{attempt_id}"

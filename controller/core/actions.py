"""Actions: the requests that a decision asks the executor to send, one each.

Frozen values in one union. Equal keys mean the same request, which is sent once, even if two
decisions ask for it. The executor renders the body when it sends a create, because a later decision
may drop a thousand creates that are not sent yet.
"""

from dataclasses import dataclass, field
from enum import IntEnum, StrEnum
from typing import ClassVar, TypeAlias

from framework.api import naming
from framework.api.types import Framework


class Verb(StrEnum):
    """The request an action sends."""

    CREATE = "create"
    DELETE = "delete"
    GET = "get"


class Urgency(IntEnum):
    """How soon the status must be written. The greatest urgency of a decision counts."""

    NONE = 0
    """No write is needed: the status that the actions rely on is persisted."""
    LATER = 1
    """The write may wait for long: more changes are certain to follow."""
    SOON = 2
    """The change only informs: it may share a write with the changes of a short while."""
    NOW = 3
    """An action, a release or a retry depends on the write."""
    AGAIN = 4
    """As NOW, and the next decision depends on it."""


class Propagation(StrEnum):
    """How a delete treats the objects that the deleted object owns.

    Without a propagation policy, the finalizers of the object decide. BACKGROUND overrides them:
    the object goes at once, and the objects that it owns follow.
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

    ``identity``: for a delete the UID; for a create the owner instance and the attempt id; for a
    get "".
    """

    verb: Verb
    kind: ObjectKind
    name: str
    identity: str = ""


@dataclass(frozen=True, slots=True)
class _CreateForAttempt:
    """Create an object of the current attempt of ``framework``."""

    kind: ClassVar[ObjectKind]
    """Kind of the object."""
    framework: Framework = field(compare=False)
    """The Framework, with the status from which the object is rendered."""
    name: str
    """Name of the object."""
    identity: str
    """Identity of the object's owner and attempt: see ``ActionKey``."""
    cause: str
    """Why it is created, for the log."""
    urgency: Urgency = Urgency.NOW
    """How soon the status that the action relies on must be written; NONE if it is persisted."""

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
class CreatePod(_CreateForAttempt):
    """Create the Pod of a Task's current attempt; ``identity`` is that of the Task's attempt."""

    kind = ObjectKind.POD
    task: naming.TaskKey = field(kw_only=True)
    """The Task, by role and index."""


@dataclass(frozen=True, slots=True)
class DeleteObject:
    """Delete one instance, by UID."""

    kind: ObjectKind
    """Kind of the object."""
    name: str
    """Name of the object."""
    uid: str
    """UID of the object, a precondition: no other object of this name is deleted."""
    cause: str
    """Why it is deleted, for the log."""
    grace_seconds: int | None = None
    """Grace period of the deletion; None for that of the object."""
    propagation: Propagation | None = None
    """How the objects that it owns are treated; None for what its finalizers ask for."""
    resource_version: str | None = None
    """Version of the object, another precondition; None for any version."""
    urgency: Urgency = Urgency.NOW
    """How soon the status that the action relies on must be written; NONE if it is persisted, so
    that the action may be sent before the write."""

    @property
    def key(self) -> ActionKey:
        """Identity of the action; a forced delete and a graceful delete differ."""
        suffix = "" if self.grace_seconds is None else f"/{self.grace_seconds}"
        return ActionKey(Verb.DELETE, self.kind, self.name, self.uid + suffix)


@dataclass(frozen=True, slots=True)
class GetObject:
    """Read an object live: the answer, not the cache, decides whether it exists."""

    kind: ObjectKind
    name: str
    cause: str
    urgency: Urgency = Urgency.NONE

    @property
    def key(self) -> ActionKey:
        """Identity of the action."""
        return ActionKey(Verb.GET, self.kind, self.name)


Action: TypeAlias = CreateConfigMap | CreateGangKey | CreatePod | DeleteObject | GetObject


def find_urgency(*, is_persisted: bool) -> Urgency:
    """Return the urgency of an action that relies on a part of the status."""
    return Urgency.NONE if is_persisted else Urgency.NOW


def build_attempt_identity(owner_uid: str, attempt_id: int) -> str:
    """Build the identity of a created object: the owner instance and the attempt id."""
    return f"{owner_uid}/{attempt_id}"

"""The users, groups and capabilities of a container's processes. Pure."""

from dataclasses import dataclass

UNCHANGED = -1
"""For a user or a group: the kubelet's."""


@dataclass(frozen=True, slots=True)
class Privileges:
    """What a container's processes get."""

    user: int = UNCHANGED
    group: int = UNCHANGED
    groups: tuple[int, ...] | None = None
    """The supplementary groups; None for the kubelet's."""
    dropped_capabilities: tuple[int, ...] = ()
    no_new_privileges: bool = False
    read_only_root: bool = False

    @property
    def changes_user(self) -> bool:
        """Return whether the container runs as another user than the kubelet."""
        return self.user != UNCHANGED

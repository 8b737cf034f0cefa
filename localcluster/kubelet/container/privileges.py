"""The users, groups and capabilities of a container's processes. Pure."""

from dataclasses import dataclass

UNCHANGED = -1
"""Stands for the user or group of the kubelet."""


@dataclass(frozen=True, slots=True)
class Privileges:
    """The privileges of a container's processes."""

    user: int = UNCHANGED
    """The user id; -1 keeps the kubelet's."""
    group: int = UNCHANGED
    """The group id; -1 keeps the kubelet's."""
    groups: tuple[int, ...] | None = None
    """The supplementary groups; None for the kubelet's."""
    dropped_capabilities: tuple[int, ...] = ()
    """Numbers of the capabilities to drop."""
    no_new_privileges: bool = False
    """Whether exec may not add privileges."""
    read_only_root: bool = False
    """Whether the private root is read-only."""

    @property
    def changes_user(self) -> bool:
        """Return whether the container runs as another user than the kubelet."""
        return self.user != UNCHANGED

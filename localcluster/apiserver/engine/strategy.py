"""The rules of one kind: defaults, preparation and validation of its objects.

``Strategy`` is for kinds without rules of their own. Its methods change the object that they get in
place, because it is not stored yet.
"""

from localcluster.apiserver.model.errors import Cause, Object
from localcluster.apiserver.model.objects import copy_json
from localcluster.apiserver.model.registry import ResourceType


class Strategy:
    """Rules of a type; this class has only the status subresource and the generation."""

    create_warning = ""
    """Warning that the answer to each create has; empty for none."""

    def __init__(self, rt: ResourceType) -> None:
        """Serve objects of ``rt``."""
        self.rt = rt

    def apply_defaults(self, obj: Object) -> None:
        """Set the fields that are absent and have a default."""

    def prepare_create(self, obj: Object) -> None:
        """Set or drop the fields of a new object that a client may not decide."""
        if self.rt.has_status:
            obj.pop("status", None)
        if self.rt.has_generation:
            obj["metadata"]["generation"] = 1

    def create_faults(self, obj: Object) -> list[Cause]:
        """Check a new object."""
        return self.object_faults(obj)

    def prepare_update(self, new: Object, old: Object) -> None:
        """Set or drop the fields that a client may not change; increase the generation."""
        if self.rt.has_status:
            keep_field(new, old, "status")
        if self.rt.has_generation and self.is_new_generation(new, old):
            new["metadata"]["generation"] = old["metadata"].get("generation", 0) + 1

    def is_new_generation(self, new: Object, old: Object) -> bool:
        """Return whether a change is a change of the desired state."""
        return new.get("spec") != old.get("spec")

    def update_faults(self, new: Object, old: Object) -> list[Cause]:
        """Check a changed object."""
        del old
        return self.object_faults(new)

    def object_faults(self, obj: Object) -> list[Cause]:
        """Check the rules of both new and changed objects."""
        del obj
        return []

    def prepare_status(self, new: Object, old: Object) -> None:
        """Drop all but the status from a write to the status subresource."""
        for name in set(new) | set(old):
            if name not in ("status", "metadata", "apiVersion", "kind"):
                keep_field(new, old, name)

    def status_faults(self, new: Object, old: Object) -> list[Cause]:
        """Check an object whose status changed."""
        del new, old
        return []

    def grace_seconds(self, obj: Object, asked: int | None) -> int | None:
        """Return how long the object may take to end; None: it has no graceful deletion."""
        del obj, asked
        return None


def keep_field(new: Object, old: Object, name: str) -> None:
    """Give a changed object (in place) the old value of one top-level field."""
    if name in old:
        new[name] = copy_json(old[name])
    else:
        new.pop(name, None)

"""Custom objects: validated by their CRD's schema, with an optional status subresource.

``strategies`` makes one per served version. Pruning and defaults come before (``bodies``). CEL
rules (``x-kubernetes-validations``) would be checked in ``object_faults`` after the schema.
"""

from localcluster.apiserver import errors, objects, schema
from localcluster.apiserver.collection import DEFINITIONS_KEY
from localcluster.apiserver.errors import Cause, Object
from localcluster.apiserver.registry import ResourceType
from localcluster.apiserver.state import State
from localcluster.apiserver.strategy import Strategy, keep_field


class CustomStrategy(Strategy):
    """Rules of one custom type in one version."""

    def __init__(self, rt: ResourceType, state: State) -> None:
        """Serve objects of ``rt``."""
        super().__init__(rt)
        self._state = state

    def prepare_create(self, obj: Object) -> None:
        """Drop a status that has its own subresource.

        Raises:
            StatusError: 405 while the definition is being deleted.
        """
        name = f"{self.rt.plural}.{self.rt.group}"
        definition = self._state.find(DEFINITIONS_KEY, ("", name))
        if definition is not None and objects.is_terminating(definition):
            message = "create not allowed while custom resource definition is terminating"
            raise errors.StatusError(405, "MethodNotAllowed", message)
        super().prepare_create(obj)

    def is_new_generation(self, new: Object, old: Object) -> bool:
        """Tell whether anything but metadata (and a status subresource) changed."""
        ignored = {"metadata", "status"} if self.rt.has_status else {"metadata"}
        return any(new.get(name) != old.get(name) for name in (set(new) | set(old)) - ignored)

    def prepare_status(self, new: Object, old: Object) -> None:
        """Keep all of the old object but its status."""
        for name in (set(new) | set(old)) - {"status"}:
            keep_field(new, old, name)

    def object_faults(self, obj: Object) -> list[Cause]:
        """Check an object against the schema."""
        return [] if self.rt.schema is None else schema.object_faults(obj, self.rt.schema)

    def status_faults(self, new: Object, old: Object) -> list[Cause]:
        """Check the whole object: the schema does not tell status apart."""
        del old
        return self.object_faults(new)

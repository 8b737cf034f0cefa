"""Custom objects: validated by the schema of their CRD, with an optional status subresource.

A value that an update leaves unchanged may break the schema, because a CRD may become stricter
while objects are stored.
"""

from functools import cached_property

from localcluster.apiserver.engine.collection import DEFINITIONS_KEY
from localcluster.apiserver.engine.state import State
from localcluster.apiserver.engine.strategy import Strategy, keep_field
from localcluster.apiserver.model import errors, objects
from localcluster.apiserver.model.errors import Cause, Object
from localcluster.apiserver.model.registry import ResourceType
from localcluster.apiserver.schemas import rules, validation


class CustomStrategy(Strategy):
    """Rules of one custom type in one version."""

    def __init__(self, rt: ResourceType, state: State) -> None:
        """Serve objects of ``rt``."""
        super().__init__(rt)
        self._state = state

    def prepare_create(self, obj: Object) -> None:
        """Drop the status if it is a subresource; refuse if the definition is being deleted."""
        name = f"{self.rt.plural}.{self.rt.group}"
        definition = self._state.find(DEFINITIONS_KEY, ("", name))
        if definition is not None and objects.is_terminating(definition):
            message = "create not allowed while custom resource definition is terminating"
            raise errors.StatusError(405, "MethodNotAllowed", message)
        super().prepare_create(obj)

    def is_new_generation(self, new: Object, old: Object) -> bool:
        """Return whether a field other than metadata (and a status subresource) changed."""
        ignored = {"metadata", "status"} if self.rt.has_status else {"metadata"}
        return any(new.get(name) != old.get(name) for name in (set(new) | set(old)) - ignored)

    def prepare_status(self, new: Object, old: Object) -> None:
        """Keep all of the old object but its status."""
        for name in (set(new) | set(old)) - {"status"}:
            keep_field(new, old, name)

    def create_faults(self, obj: Object) -> list[Cause]:
        """Check a new object against the schema, then against the rules."""
        if self.rt.schema is None:
            return []
        found = validation.object_faults(obj, self.rt.schema)
        return self._with_rules(found + validation.duplicate_faults(obj, self.rt.schema), obj, None)

    def update_faults(self, new: Object, old: Object) -> list[Cause]:
        """Check the changed fields."""
        if self.rt.schema is None:
            return []
        found = validation.object_faults(new, self.rt.schema, old)
        return self._with_rules(found + self._new_duplicates(new, old), new, old)

    def status_faults(self, new: Object, old: Object) -> list[Cause]:
        """Check the status against the schema; no known rule is for the status."""
        declared = objects.get_path(self.rt.schema or {}, "properties", "status")
        found = self._new_duplicates(new, old)
        if "status" in new and declared is not None:
            found += validation.value_faults(new["status"], declared, "status", old.get("status"))
        return found

    def _new_duplicates(self, new: Object, old: Object) -> list[Cause]:
        found = validation.duplicate_faults(new, self.rt.schema or {})
        return [] if found and validation.duplicate_faults(old, self.rt.schema or {}) else found

    def _with_rules(self, found: list[Cause], new: Object, old: Object | None) -> list[Cause]:
        if rules.is_blocking(found):
            return found
        return [*found, *rules.rule_faults(self._rules, new, old)]

    @cached_property
    def _rules(self) -> list[rules.Rule]:
        return rules.find_rules(self.rt.schema or {})

"""The objects of one list-watch, by name."""

from collections.abc import Callable

from framework.kube.resources import Object

ObjectListener = Callable[[Object], None]


class ObjectCache:
    """The objects of one kind, kept up to date by a ``ListWatch``."""

    def __init__(
        self, on_change: Callable[[], None], on_object: ObjectListener | None = None
    ) -> None:
        """Begin without objects.

        Args:
            on_change: called after each change.
            on_object: called with each object that is added, changed or deleted.
        """
        self.objects: dict[str, Object] | None = None
        """By name; None before the first list."""
        self._on_change = on_change
        self._on_object = on_object

    def replace(self, items: list[Object], resource_version: str) -> None:
        """Take a complete list."""
        del resource_version
        self.objects = {str(item["metadata"]["name"]): item for item in items}
        for item in items:
            self._report(item)
        self._on_change()

    def apply(self, event_type: str, obj: Object) -> None:
        """Take one change."""
        objects = {} if self.objects is None else self.objects
        name = str(obj["metadata"]["name"])
        if event_type == "DELETED":
            objects.pop(name, None)
        else:
            objects[name] = obj
        self.objects = objects
        self._report(obj)
        self._on_change()

    def bookmark(self, resource_version: str) -> None:
        """Nothing to do: nothing changed."""

    def _report(self, obj: Object) -> None:
        if self._on_object is not None:
            self._on_object(obj)

"""The forms of objects, lists and watch events: whole, metadata only, table. Pure."""

from collections.abc import Sequence

import msgspec

from framework.clock import Clock
from localcluster.apiserver.model.errors import Object, StatusError
from localcluster.apiserver.model.registry import ResourceType
from localcluster.apiserver.views.negotiation import Form
from localcluster.apiserver.views.tables import find_printer, partial_metadata, render_table

INITIAL_EVENTS_END = "k8s.io/initial-events-end"

encode_json = msgspec.json.Encoder().encode


class Renderer:
    """Renders the objects of a type in a form."""

    def __init__(
        self, rt: ResourceType, clock: Clock, form: Form = Form.OBJECT, include: str = "Metadata"
    ) -> None:
        """Render objects of ``rt``.

        Args:
            rt: their type.
            clock: for ages.
            form: the form that the client requested.
            include: the object in a row of a table: None, Metadata or Object.
        """
        self.rt = rt
        self._clock = clock
        self._form = form
        self._include = include

    def render_object(self, item: Object) -> Object:
        """Return one object in the form.

        Raises:
            StatusError: 406, the form is one of lists.
        """
        self.check_renders_objects()
        if self._form is Form.TABLE:
            version = (item.get("metadata") or {}).get("resourceVersion", "")
            return self._table([item], {"resourceVersion": version})
        return partial_metadata(item) if self._form is Form.METADATA else item

    def check_renders_objects(self) -> None:
        """Refuse a form of lists for single objects.

        Raises:
            StatusError: 406.
        """
        if self._form is Form.METADATA_LIST:
            raise _not_acceptable(
                "you requested PartialObjectMetadataList, but the requested object is not a list"
                f" ({self.rt.kind})"
            )

    def render_list(self, items: Sequence[Object], metadata: Object) -> Object:
        """Return a list in the form.

        Raises:
            StatusError: 406, the form is one of single objects.
        """
        form = self._form
        if form is Form.METADATA:
            raise _not_acceptable(
                "you requested PartialObjectMetadata, but the requested object is a list"
                f" ({self.rt.list_kind})"
            )
        if form is Form.TABLE:
            return self._table(items, metadata)
        if form is Form.METADATA_LIST:
            return {
                "kind": "PartialObjectMetadataList",
                "apiVersion": "meta.k8s.io/v1",
                "metadata": metadata,
                "items": [partial_metadata(item) for item in items],
            }
        return {
            "kind": self.rt.list_kind,
            "apiVersion": self.rt.api_version,
            "metadata": metadata,
            "items": [self._list_item(item) for item in items],
        }

    def _list_item(self, item: Object) -> Object:
        # As on a real server, items of built-in lists have no kind, but items of custom lists do.
        if self.rt.is_custom:
            return item
        return {key: value for key, value in item.items() if key not in ("kind", "apiVersion")}

    def _table(self, items: Sequence[Object], metadata: Object) -> Object:
        table = render_table(find_printer(self.rt), items, metadata, self._clock.now())
        if self._include == "Object":
            for row, item in zip(table["rows"], items, strict=True):
                row["object"] = item
        elif self._include == "None":
            for row in table["rows"]:
                row["object"] = None
        return table

    def bookmark(self, resource_version: int, *, ends_initial_events: bool = False) -> bytes:
        """Return the line of a BOOKMARK event."""
        metadata: Object = {"resourceVersion": str(resource_version)}
        if ends_initial_events:
            metadata["annotations"] = {INITIAL_EVENTS_END: "true"}
        item = {"kind": self.rt.kind, "apiVersion": self.rt.api_version, "metadata": metadata}
        return event_line("BOOKMARK", self.render_object(item))


def event_line(kind: str, item: Object) -> bytes:
    """Return one line of a watch."""
    return b'{"type":"%b","object":%b}\n' % (kind.encode(), encode_json(item))


def _not_acceptable(message: str) -> StatusError:
    return StatusError(406, "NotAcceptable", message)

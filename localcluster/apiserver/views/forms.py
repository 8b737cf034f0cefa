"""The forms of objects, lists and watch events: whole, metadata only, table. Pure.

A client chooses a form by ``Accept``. Protobuf is not supported: clients that prefer it also accept
JSON.
"""

from collections.abc import Iterator, Sequence
from enum import Enum

import msgspec

from framework.clock import Clock
from localcluster.apiserver.model.errors import Object, StatusError
from localcluster.apiserver.model.registry import ResourceType
from localcluster.apiserver.views.tables import find_printer, partial_metadata, render_table

INITIAL_EVENTS_END = "k8s.io/initial-events-end"
_JSON_TYPES = ("application/json", "application/*", "*/*")
_META_GROUP = "meta.k8s.io"
_META_VERSIONS = ("v1", "v1beta1")


encode_json = msgspec.json.Encoder().encode


class Form(Enum):
    """The form of an object or a list on the wire."""

    OBJECT = "object"
    TABLE = "Table"
    METADATA = "PartialObjectMetadata"
    METADATA_LIST = "PartialObjectMetadataList"


def _parse_accept(header: str) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield types and parameters in the client's order, without regard to quality values."""
    for entry in (header or "*/*").split(","):
        name, *parameters = (part.strip() for part in entry.split(";"))
        pairs = (parameter.partition("=")[::2] for parameter in parameters)
        yield (
            name.lower() or "*/*",
            {key.strip().lower(): value.strip().strip('"') for key, value in pairs},
        )


def choose_form(accept: str) -> Form | None:
    """Return the form of the first supported entry; None if there is none."""
    for name, parameters in _parse_accept(accept):
        if name not in _JSON_TYPES:
            continue
        wanted = parameters.get("as")
        if not wanted:
            return Form.OBJECT
        if parameters.get("g") != _META_GROUP or parameters.get("v") not in _META_VERSIONS:
            continue
        try:
            return Form(wanted)
        except ValueError:
            continue
    return None


class Renderer:
    """Renders the objects of a type in a form."""

    def __init__(
        self, rt: ResourceType, clock: Clock, form: Form = Form.OBJECT, include: str = "Metadata"
    ) -> None:
        """Render objects of ``rt``; ``include`` (None, Metadata, Object) is for rows of a table."""
        self.rt = rt
        self._clock = clock
        self._form = form
        self._include = include

    def render_object(self, item: Object) -> Object:
        """Return one object in the form; a form of lists is refused (406)."""
        self.check_renders_objects()
        if self._form is Form.TABLE:
            version = (item.get("metadata") or {}).get("resourceVersion", "")
            return self._table([item], {"resourceVersion": version})
        return partial_metadata(item) if self._form is Form.METADATA else item

    def check_renders_objects(self) -> None:
        """Refuse a form of lists for single objects (406)."""
        if self._form is Form.METADATA_LIST:
            raise self._refuse(f"not a list ({self.rt.kind})")

    def _refuse(self, found: str) -> StatusError:
        text = f"you requested {self._form.value}, but the requested object is {found}"
        return StatusError(406, "NotAcceptable", text)

    def render_list(self, items: Sequence[Object], metadata: Object) -> Object:
        """Return a list in the form; a form of single objects is refused (406)."""
        form = self._form
        if form is Form.METADATA:
            raise self._refuse(f"a list ({self.rt.list_kind})")
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

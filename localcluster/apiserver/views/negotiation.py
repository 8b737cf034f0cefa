"""The form that a client requests: Accept and Content-Type.

Protobuf is not supported: clients that prefer it also accept JSON.
"""

from collections.abc import Iterator
from enum import Enum

_JSON_TYPES = ("application/json", "application/*", "*/*")
_META_GROUP = "meta.k8s.io"
_META_VERSIONS = ("v1", "v1beta1")


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


def media_name(content_type: str) -> str:
    """Return the bare media type of a Content-Type header."""
    return content_type.partition(";")[0].strip().lower()

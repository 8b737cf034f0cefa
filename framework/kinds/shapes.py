"""Checks the JSON types of what the compile steps read. Pure.

A shape is a string or another scalar (``Scalar``), a list (``[shape of the items]``), an object
(``{field: shape}``) or an object with any fields (``{ANY: shape}``). Fields that a shape does not
name are not checked. Null is an absent field, but no item of a list.

Example: ``{"env": [{"name": TEXT}]}`` accepts ``{}``, ``{"env": null}`` and
``{"env": [{"name": "A", "value": "b"}]}``; for ``{"env": ["A"]}`` it names ``env[0]``.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from framework.api.fielderrors import FieldError
from framework.api.wire import json_type


@dataclass(frozen=True, slots=True)
class Scalar:
    """Values that are no list and no object."""

    types: tuple[type, ...]
    words: str
    """What the field must be."""


TEXT = Scalar((str,), "a string")
BOOLEAN = Scalar((bool,), "true or false")
QUANTITY = Scalar((str, int, float), "a number or a string")
ANY = "*"
"""Stands for each field of an object."""

Shape: TypeAlias = Scalar | list[Any] | dict[str, Any]


def find_shape_faults(value: Any, shape: Shape, path: str) -> Iterator[FieldError]:
    """Find the values of other JSON types than those of the shape."""
    if isinstance(shape, Scalar):
        if type(value) not in shape.types:
            yield FieldError(path, f"must be {shape.words}, not {json_type(value)}: correct it")
    elif isinstance(shape, list):
        yield from _check_items(value, shape[0], path)
    elif not isinstance(value, Mapping):
        yield FieldError(path, f"must be an object, not {json_type(value)}: correct it")
    else:
        for key in value if ANY in shape else shape:
            found = value.get(key)
            if found is not None:
                place = f"{path}[{key}]" if ANY in shape else f"{path}.{key}"
                yield from find_shape_faults(found, shape[ANY if ANY in shape else key], place)


def _check_items(value: Any, shape: Shape, path: str) -> Iterator[FieldError]:
    if not isinstance(value, list):
        yield FieldError(path, f"must be a list, not {json_type(value)}: correct it")
        return
    for index, item in enumerate(value):
        yield from find_shape_faults(item, shape, f"{path}[{index}]")

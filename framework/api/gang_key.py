"""Whether a Pod template refers to the gang key, the Secret that the Pods of an attempt share.

The controller creates the Secret ``{framework}-gang-key`` only if a template refers to it. A
template names it literally or with the placeholder ``{{FC_FRAMEWORK_NAME}}``, in a volume, a
projected volume, ``env`` or ``envFrom``.
"""

from collections.abc import Iterator, Mapping
from itertools import chain
from typing import Any

from framework.api import constants, naming
from framework.api.podtemplates import walk_objects

PLACEHOLDER_NAME = naming.build_gang_key_name("{{" + constants.FRAMEWORK_NAME + "}}")
_SUFFIX = naming.build_gang_key_name("")
# A longer text is no name of an object.
_MAX_NAME_CHARS = 253


def refers_to_gang_key(template: Mapping[str, Any], framework: str) -> bool:
    """Return whether a Pod template refers to the gang key of the Framework of this name."""
    names = (naming.build_gang_key_name(framework), PLACEHOLDER_NAME)
    return any(name in names for name in walk_gang_keys(template))


def walk_gang_keys(template: Mapping[str, Any]) -> Iterator[str]:
    """Walk the places where a Pod template may refer to a gang key, of any Framework.

    Yields:
        The name of a gang key; "" for each volume, variable and container that refers to none.
    """
    spec = _mapping(template.get("spec"))
    for name in chain(_walk_volumes(spec), _walk_variables(spec)):
        is_name = isinstance(name, str) and len(name) <= _MAX_NAME_CHARS
        yield name if is_name and name.endswith(_SUFFIX) else ""


def _walk_volumes(spec: Mapping[str, Any]) -> Iterator[Any]:
    for volume in walk_objects(spec.get("volumes")):
        yield _mapping(volume.get("secret")).get("secretName")
        for source in walk_objects(_mapping(volume.get("projected")).get("sources")):
            yield _mapping(source.get("secret")).get("name")


def _walk_variables(spec: Mapping[str, Any]) -> Iterator[Any]:
    for field in ("containers", "initContainers"):
        for container in walk_objects(spec.get(field)):
            yield None
            for variable in walk_objects(container.get("env")):
                source = _mapping(variable.get("valueFrom"))
                yield _mapping(source.get("secretKeyRef")).get("name")
            for source in walk_objects(container.get("envFrom")):
                yield _mapping(source.get("secretRef")).get("name")


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}

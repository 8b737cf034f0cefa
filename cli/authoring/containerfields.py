"""Images and ports of containers that cannot work. Pure.

The grammar of images is that of references in the distribution project (``reference.go``). The API
server accepts every image, so an invalid one is found by the kubelet only.
"""

import json
import re
from collections.abc import Iterator, Mapping

from cli.authoring.findings import Finding, error
from cli.files.templates import ContainerTemplate, is_open

_RULE = "pod-template"
_REFUSED = "the API server refuses the Pod"
_LABEL = r"(?:[a-zA-Z0-9]|[a-zA-Z0-9][a-zA-Z0-9-]*[a-zA-Z0-9])"
_DOMAIN = re.compile(rf"(?:{_LABEL}(?:\.{_LABEL})*|\[[a-fA-F0-9:]+\])(?::[0-9]+)?")
_PATH = re.compile(r"[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*")
_TAG = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}")
_DIGEST = re.compile(r"[A-Za-z][A-Za-z0-9]*(?:[-_+.][A-Za-z][A-Za-z0-9]*)*:[0-9a-fA-F]{32,}")
_ID = re.compile(r"[a-f0-9]{64}")
_LONGEST_IMAGE = 255
"""Length of the name, without tag and digest."""
_LONGEST_REFERENCE = 1024
"""A longer reference is not corrected in the message."""
_IMAGE_FORM = "write it as REGISTRY/NAME:TAG, in lower-case letters and without spaces"
_PORT_NAME = re.compile(r"(?=.*[a-z])[a-z0-9]+(?:-[a-z0-9]+)*")
_LONGEST_PORT_NAME = 15
_MAX_PORT = 65535
_PROTOCOLS = ("TCP", "UDP", "SCTP")
_PORT_FORM = "write `- containerPort: NUMBER` for each port"
_SHOWN = 80


def find_invalid_image(container: ContainerTemplate) -> Iterator[Finding]:
    """Find an image that no registry can have."""
    image = container.body.get("image")
    if not isinstance(image, str) or not image or is_open(image) or is_reference(image):
        return
    yield error(
        _RULE,
        f"{container.path}.image",
        f"{_show(image)} is not a valid image reference: the kubelet cannot pull it "
        "(InvalidImageName), and the Pod waits",
        _suggest_image(image),
    )


def is_reference(image: str) -> bool:
    """Return whether a text is a reference of an image: NAME[:TAG][@DIGEST]."""
    rest, at, digest = image.partition("@")
    name, colon, tag = rest.rpartition(":")
    if not colon or "/" in tag:
        # A colon here belongs to the port of the registry.
        name, colon, tag = rest, "", ""
    if (at and not _DIGEST.fullmatch(digest)) or (colon and not _TAG.fullmatch(tag)):
        return False
    if len(name) > _LONGEST_IMAGE or _ID.fullmatch(image):
        return False
    first, slash, path = name.partition("/")
    has_domain = slash and (first == "localhost" or re.search(r"[.:A-Z]", first))
    if has_domain and not _DOMAIN.fullmatch(first):
        return False
    return all(map(_PATH.fullmatch, (path if has_domain else name).split("/")))


def _suggest_image(image: str) -> str:
    stripped = "".join(image.split())
    if len(image) > _LONGEST_REFERENCE:
        return _IMAGE_FORM
    for meant in (image.lower(), image.strip(), stripped, stripped.lower()):
        if is_reference(meant):
            return f"write `{meant}`"
    return _IMAGE_FORM


def find_invalid_ports(container: ContainerTemplate) -> Iterator[Finding]:
    """Find ports that the API server refuses."""
    ports, path = container.body.get("ports"), f"{container.path}.ports"
    if ports is None:
        return
    if not isinstance(ports, list):
        yield error(_RULE, path, f"is not a list: {_REFUSED}", _PORT_FORM)
        return
    for index, port in enumerate(ports):
        place = f"{path}[{index}]"
        if not isinstance(port, Mapping):
            yield error(_RULE, place, f"is not a port: {_REFUSED}", _PORT_FORM)
        else:
            yield from _find_in_port(port, place)


def _find_in_port(port: Mapping[str, object], path: str) -> Iterator[Finding]:
    yield from _find_no_number(port.get("containerPort"), f"{path}.containerPort", least=1)
    if port.get("hostPort") is not None:
        yield from _find_no_number(port["hostPort"], f"{path}.hostPort", least=0)
    name, protocol = port.get("name"), port.get("protocol")
    if name not in (None, "") and not _is_port_name(name):
        yield error(
            _RULE,
            f"{path}.name",
            f"{_show(name)} is not a valid name of a port: {_REFUSED}",
            f"write at most {_LONGEST_PORT_NAME} lower-case letters, digits and `-`, with a letter",
        )
    if protocol not in (None, "", *_PROTOCOLS):
        meant = str(protocol).upper()
        yield error(
            _RULE,
            f"{path}.protocol",
            f"is not a valid protocol: {_REFUSED}",
            f"write `{meant}`" if meant in _PROTOCOLS else f"write one of {', '.join(_PROTOCOLS)}",
        )


def _is_port_name(name: object) -> bool:
    if not isinstance(name, str):
        return False
    is_short = len(name) <= _LONGEST_PORT_NAME
    return is_open(name) or (is_short and _PORT_NAME.fullmatch(name) is not None)


def _find_no_number(value: object, path: str, *, least: int) -> Iterator[Finding]:
    if isinstance(value, int) and not isinstance(value, bool) and least <= value <= _MAX_PORT:
        return
    if value is None:
        yield error(_RULE, path, f"is missing: {_REFUSED}", _PORT_FORM)
    elif isinstance(value, int) and not isinstance(value, bool):
        fault = f"{_show(value)} is not a port: {_REFUSED}"
        yield error(_RULE, path, fault, f"write a number from {least} to {_MAX_PORT}")
    else:
        digits = value.strip() if isinstance(value, str) else ""
        is_port = bool(re.fullmatch(r"[0-9]{1,5}", digits)) and least <= int(digits) <= _MAX_PORT
        yield error(
            _RULE,
            path,
            f"{_show(value)} is not an integer: {_REFUSED}",
            f"write {int(digits)} without quotes"
            if is_port
            else f"write a number from {least} to {_MAX_PORT}",
        )


def _show(value: object) -> str:
    text = json.dumps(value, default=str)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."

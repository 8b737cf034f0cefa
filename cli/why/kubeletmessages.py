"""What the kubelet says when it cannot start a container. Pure.

The texts are those of kubelet 1.27 to 1.34 with containerd, and of the local cluster.
"""

import re
from dataclasses import dataclass
from enum import StrEnum


class ImageFault(StrEnum):
    """Why an image cannot be pulled."""

    MISSING = "the registry has no such image"
    DENIED = "the registry refuses the node: it needs credentials"
    UNREACHABLE = "the node cannot reach the registry"
    INVALID = "its name is not valid"
    NEVER = "the node does not have it, and imagePullPolicy is Never"
    OTHER = ""


@dataclass(frozen=True, slots=True)
class MissingObject:
    """A ConfigMap or Secret, or a key of it, that a Pod needs and that is not there."""

    kind: str
    """``configmap`` or ``secret``."""
    name: str
    """Name of the object; "" if the message does not have it."""
    key: str = ""
    """The key that it lacks; "" if the object itself is missing."""

    def describe(self) -> str:
        """Describe it in words."""
        kind = "ConfigMap" if self.kind == "configmap" else "Secret"
        name = f"{kind} {self.name}".rstrip()
        return f"the {name} has no key {self.key}" if self.key else f"there is no {name}"


IMAGE_WAITS = frozenset(
    {
        "ErrImagePull",
        "ImagePullBackOff",
        "InvalidImageName",
        "ErrImageNeverPull",
        "RegistryUnavailable",
        "ImageInspectError",
    }
)
"""Reasons with which a container waits for its image."""

_IMAGE_FAULTS = (
    (ImageFault.NEVER, re.compile(r"pull policy of Never")),
    (
        ImageFault.DENIED,
        re.compile(
            r"unauthorized|authentication required|authorization failed|access denied|forbidden"
            r"|401|403|no basic auth",
            re.IGNORECASE,
        ),
    ),
    (
        ImageFault.UNREACHABLE,
        re.compile(
            r"no such host|dial tcp|i/o timeout|connection refused|network is unreachable|x509"
            r"|TLS handshake|server misbehaving|deadline exceeded",
            re.IGNORECASE,
        ),
    ),
    (ImageFault.MISSING, re.compile(r"not found|manifest unknown|404|NotFound")),
    (ImageFault.INVALID, re.compile(r"couldn't parse image|invalid reference format|InvalidImage")),
)
_MISSING_OBJECT = re.compile(
    r'(?P<kind>configmap|secret)s? "(?P<name>[^"]+)" not found', re.IGNORECASE
)
_MISSING_KEY = re.compile(
    r"couldn't find key (?P<key>\S+) in (?P<kind>ConfigMap|Secret) [^/\s]+/(?P<name>\S+)"
)
_MISSING_ITEM = re.compile(
    r"references non-existent (?P<kind>config|secret|configMap) key: (?P<key>\S+)"
)
_VOLUME = re.compile(r'(?:for|failed for) volume "(?P<name>[^"]+)"')


def classify_image_fault(text: str) -> ImageFault:
    """Find out why an image cannot be pulled."""
    return next((fault for fault, words in _IMAGE_FAULTS if words.search(text)), ImageFault.OTHER)


def find_missing_object(text: str) -> MissingObject | None:
    """Find the ConfigMap, Secret or key that a message names as missing."""
    for pattern in (_MISSING_KEY, _MISSING_OBJECT, _MISSING_ITEM):
        found = pattern.search(text)
        if found is not None:
            groups = found.groupdict()
            kind = "secret" if groups["kind"].lower() == "secret" else "configmap"
            return MissingObject(kind, groups.get("name") or "", groups.get("key") or "")
    return None


def find_volume(text: str) -> str:
    """Find the name of the volume that a message is about; "" if it names none."""
    found = _VOLUME.search(text)
    return found.group("name") if found else ""

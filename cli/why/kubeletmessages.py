"""Reads the messages of the kubelet about containers that cannot start. Pure.

The texts are those of kubelet 1.27 to 1.34 with containerd, and of the local cluster.
"""

import re
from dataclasses import dataclass
from enum import StrEnum

from cli.why.names import hide_names, unquote


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

_FAULTS_BY_REASON = {
    "InvalidImageName": ImageFault.INVALID,
    "ErrImageNeverPull": ImageFault.NEVER,
    "RegistryUnavailable": ImageFault.UNREACHABLE,
}
_IMAGE_FAULTS = (
    (ImageFault.NEVER, re.compile(r"pull policy of Never")),
    (
        ImageFault.DENIED,
        re.compile(
            r"unauthorized|authentication required|authorization failed|access denied|forbidden"
            r"|status(?: code)?:? 40[13]\b|no basic auth",
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
    (
        ImageFault.MISSING,
        re.compile(r"not ?found|manifest unknown|status(?: code)?:? 404\b", re.IGNORECASE),
    ),
    (ImageFault.INVALID, re.compile(r"couldn't parse image|invalid reference format|InvalidImage")),
)
# Names that container runtimes do not quote.
_UNQUOTED_NAMES = re.compile(
    r"\b[a-z]{3,9}://\S+|(?<=\blookup )\S+|(?<=\bdenied for )\S+|(?<=\bmanifest for )\S+"
    r"|(?<=\breading manifest )\S+ in \S+|(?<=\bx509: ).*",
)
_MOST_NAMES = 16
# They match the beginning of a message whose quoted names are hidden.
_MISSING_KEY = re.compile(
    r"^couldn't find key (?P<key>\S+) in (?P<kind>ConfigMap|Secret) [^/\s]+/(?P<name>\S+)$"
)
_MISSING_OBJECT = re.compile(
    r'^\[?(?P<kind>configmap|secret)s? (?P<name>"\d+") not found(?=[],]|$)', re.IGNORECASE
)
_MISSING_ITEM = re.compile(
    r"^\[?(?:configmap )?references non-existent (?P<kind>config|secret|configMap) key: "
    r"(?P<key>[^\s\],]+)"
)
_MOUNT = re.compile(r'^[\w.]+(?: [a-z]+)? failed for volume (?P<name>"\d+") : (?P<rest>.*)$')
_UNMOUNTED = re.compile(
    r"^Unable to attach or mount volumes: unmounted volumes=\[(?P<name>[^\]\s,]+)"
)
_ROOT = re.compile(r"^container has runAsNonRoot and|^container's runAsUser breaks non-root policy")


def classify_image_fault(reason: str, text: str) -> ImageFault:
    """Find out why an image cannot be pulled.

    Args:
        reason: with which the container waits.
        text: what the kubelet and the container runtime say.
    """
    if reason in _FAULTS_BY_REASON:
        return _FAULTS_BY_REASON[reason]
    said = _remove_names(text)
    return next((fault for fault, words in _IMAGE_FAULTS if words.search(said)), ImageFault.OTHER)


def find_missing_object(text: str) -> MissingObject | None:
    """Find the ConfigMap, Secret or key that a message names as missing.

    Only the beginning of a message, after that of a mount, is matched: paths and commands of users
    come later.
    """
    hidden = hide_names(_fold(text))
    mount = _MOUNT.match(hidden.text)
    said = mount.group("rest") if mount else hidden.text
    for pattern in (_MISSING_KEY, _MISSING_OBJECT, _MISSING_ITEM):
        found = pattern.match(said)
        if found is not None:
            groups = {key: hidden.restore(part) for key, part in found.groupdict().items()}
            kind = "secret" if groups["kind"].lower() == "secret" else "configmap"
            return MissingObject(kind, unquote(groups.get("name", "")), groups.get("key", ""))
    return None


def find_volume(text: str) -> str:
    """Find the name of the volume that a message is about; "" if it names none."""
    hidden = hide_names(_fold(text))
    found = _MOUNT.match(hidden.text) or _UNMOUNTED.match(hidden.text)
    return unquote(hidden.restore(found.group("name"))) if found else ""


def shorten_mount(text: str) -> str:
    """Remove the name of the volume from a message."""
    hidden = hide_names(_fold(text))
    found = _MOUNT.match(hidden.text)
    return hidden.restore(found.group("rest")) if found else text


def is_root_refused(text: str) -> bool:
    """Return whether a message says that the container would run as root."""
    return _ROOT.match(text) is not None


def _remove_names(text: str) -> str:
    """Remove the names that users chose: quoted ones, their repetitions, and addresses."""
    hidden = hide_names(_fold(text))
    said = hidden.text
    for name in dict.fromkeys(map(unquote, hidden.names[:_MOST_NAMES])):
        said = said.replace(f": {name}: ", ": ")
    return _UNQUOTED_NAMES.sub("", said)


def _fold(text: str) -> str:
    return " ".join(text.split())

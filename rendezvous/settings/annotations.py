"""The own Pod's annotations, as the kubelet writes them into a downward API volume.

A line is ``key="value"``, the value quoted as Go quotes strings. ``options.BY_ANNOTATION`` lists
the settings that an annotation may give; ``options`` parses their values.
"""

import os
import re
from typing import Dict, Iterator, Mapping

from framework.api import constants
from rendezvous.settings.options import OPTIONS

FILE_ENV = "FB_ANNOTATIONS_FILE"
DEFAULT_FILE = "/etc/podinfo/annotations"
_MAX_BYTES = 1024 * 1024
_NAME = re.compile(r'[^="]+\Z')
_ESCAPE = re.compile(
    r"\\(?:([abfnrtv\\\"'])|x([0-9a-f]{2})|u([0-9a-f]{4})|U([0-9a-f]{8})|([0-7]{3}))"
)
_SHORT = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_MAX_CODE = 0x10FFFF


def read_annotations(env: Mapping[str, str]) -> Dict[str, str]:
    """Read the file, if it is mounted; a file that the variable names must exist.

    Raises:
        OSError: It cannot be read.
    """
    path = env.get(FILE_ENV) or DEFAULT_FILE
    if not env.get(FILE_ENV) and not os.path.exists(path):
        return {}
    with open(path, "rb") as file:
        return parse_annotations(file.read(_MAX_BYTES).decode("utf-8", "replace"))


def parse_annotations(text: str) -> Dict[str, str]:
    """Parse the file; other lines are left out."""
    found = {}
    for line in text.split("\n"):
        name, _, quoted = line.partition('="')
        if _NAME.match(name) and quoted.endswith('"') and _is_quoted_well(quoted[:-1]):
            found[name] = _ESCAPE.sub(_unquote, quoted[:-1])
    return found


def _is_quoted_well(text: str) -> bool:
    """Return whether each quote is escaped, and each backslash escapes a character.

    One pattern for the whole text would need 600 bytes of memory for each escape.
    """
    rest = text.replace("\\\\", "").replace('\\"', "")
    return '"' not in rest and not rest.endswith("\\")


def list_ignored(annotations: Mapping[str, str]) -> Iterator[str]:
    """List the annotations of our prefix that are not settings: most are misspelt."""
    settings = {setting.annotation: setting for setting in OPTIONS}
    known = {constants.ACKNOWLEDGED_GENERATION_ANNOTATION, constants.WRAPPER_ANNOTATION, *settings}
    for name in sorted(annotations):
        if name.startswith(constants.ANNOTATION_PREFIX) and name not in known:
            yield f"annotation {name}: there is no such setting"
    for name, setting in settings.items():
        if name in annotations and not setting.by_annotation:
            # Only the Pod's spec may give it.
            yield (
                f"annotation {name} is ignored: an annotation may not give this setting; "
                f"set {setting.env_name} in the env of the agent's container"
            )


def _unquote(match: "re.Match[str]") -> str:
    short, *codes, octal = match.groups()
    if short:
        return _SHORT.get(short, short)
    code = int(octal, 8) if octal else int(next(filter(None, codes)), 16)
    return chr(code) if code <= _MAX_CODE else "\ufffd"

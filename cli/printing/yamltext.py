"""Writes objects as YAML that kubectl reads back unchanged. Pure."""

import re
from collections.abc import Sequence
from typing import Any

import yaml

from framework.api.text import is_printable
from framework.kube.resources import Object

_WIDTH = 100
# YAML 1.1 and Go's reader take them for line breaks in a plain or quoted text.
_OTHER_BREAKS = re.compile("[\x85\u2028\u2029]")


class _Dumper(yaml.SafeDumper):
    """Writes as kubectl does: in the given order, without anchors, long texts as blocks."""

    def ignore_aliases(self, data: Any) -> bool:
        """Write an object that occurs twice in full each time."""
        del data
        return True


def _represent_text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    style = None
    if _OTHER_BREAKS.search(text):
        style = '"'
    elif "\n" in text:
        style = "|"
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _represent_text)
# Texts that Go's reader takes for a boolean or a number, and Python's does not, get quotes.
_Dumper.add_implicit_resolver("tag:yaml.org,2002:bool", re.compile(r"^[yYnN]$"), list("yYnN"))
_Dumper.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(r"^[-+]?([0-9._]+([eE][-+0-9_]+)?|[0_]+[bBoOxX][0-9a-fA-F_]+)$"),
    list("-+.0123456789"),
)


def render_yaml(objects: Sequence[Object]) -> str:
    """Render the objects, one document each, with control characters escaped."""
    text = _dump(objects, is_unicode=True)
    return text if is_printable(text.replace("\n", "")) else _dump(objects, is_unicode=False)


def _dump(objects: Sequence[Object], *, is_unicode: bool) -> str:
    text: str = yaml.dump_all(
        objects, Dumper=_Dumper, sort_keys=False, width=_WIDTH, allow_unicode=is_unicode
    )
    return text

"""Annotations and containers of Pod templates that are not validated."""

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

from framework.api import images

_RUN = "run"
# With more, it is not clear which one runs the program.
MAX_CONTAINERS = 256


def walk_objects(items: Any) -> Iterator[dict[str, Any]]:
    """Walk the objects of a list in a Pod template, which is not validated; skip all other values.

    A check for Mapping instead of dict would take ten times as long for each of a million texts.
    """
    if isinstance(items, (list, tuple)):
        yield from (item for item in items if isinstance(item, dict))


def find_annotation(template: Mapping[str, Any] | None, name: str) -> object:
    """Find an annotation of a Pod template; None if it is absent."""
    metadata = (template or {}).get("metadata")
    annotations = metadata.get("annotations") if isinstance(metadata, Mapping) else None
    found: object = None
    if isinstance(annotations, Mapping):
        found = annotations.get(name)
    return found


def find_runner(template: Mapping[str, Any] | None) -> str | None:
    """Find the container of a Pod template whose program is started by ``rendezvous run``.

    Returns:
        Its name; the only container if no container shows the agent; None if several could be it.
    """
    containers = list(islice(_walk_containers(template), MAX_CONTAINERS + 1))
    if len(containers) > MAX_CONTAINERS:
        return None
    found = [each for each in containers if _runs_agent(each)] or containers
    return str(found[0].get("name")) if len(found) == 1 else None


def _walk_containers(template: Mapping[str, Any] | None) -> Iterator[Mapping[str, Any]]:
    spec = (template or {}).get("spec")
    containers = spec.get("containers") if isinstance(spec, Mapping) else None
    return walk_objects(containers)


def _runs_agent(container: Mapping[str, Any]) -> bool:
    command, args = (_list_words(container, key) for key in ("command", "args"))
    words = [*command, *args]
    if images.starts_installed_agent(words):
        return True
    name = command[0] if command else str(container.get("image") or "")
    return images.find_program(name) == images.RENDEZVOUS and _RUN in words


def _list_words(container: Mapping[str, Any], key: str) -> list[str]:
    """List the words of a command; one that is no text, which no API server accepts, is empty."""
    words = container.get(key)
    if not isinstance(words, list):
        return []
    return [word if isinstance(word, str) else "" for word in words]

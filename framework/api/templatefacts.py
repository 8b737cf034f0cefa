"""The facts of a Pod template that decisions read. Pure.

Any tenant may store a template of 1.4 MB, and a decision may read it for each of ten thousand
Tasks. So a template is read once, when it is stored in the controller, and decisions read only its
facts. Facts are small whatever the template contains:

- Of the tolerations, the first ``MAX_TOLERATIONS`` count.
- A template that refers to more than ``MAX_GANG_KEYS`` gang keys, or has more than
  ``MAX_REFERENCES`` places where it may do so, counts as one that refers to all.
- A template with more than ``podtemplates.MAX_CONTAINERS`` containers has no runner.
"""

from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any

from framework.api.gang_key import PLACEHOLDER_NAME, walk_gang_keys
from framework.api.inplace import find_annotated
from framework.api.naming import build_gang_key_name
from framework.api.nodes import Taint, Toleration, parse_toleration, walk_tolerations
from framework.api.podtemplates import find_runner
from framework.api.recovery import InPlaceSpec
from framework.api.retryable_codes import RetryableCodes, find_retryable_codes

MAX_TOLERATIONS = 64
MAX_GANG_KEYS = 64
MAX_REFERENCES = 20_000
# The name of a container is a DNS label.
_MAX_CONTAINER_CHARS = 63


@dataclass(frozen=True, slots=True)
class TemplateFacts:
    """All that decisions read of a Pod template."""

    retryable_codes: RetryableCodes | None = None
    """Of the annotation; None if there is none that can be read."""
    in_place: InPlaceSpec | None = None
    """Restart in place of the annotation; None if there is none that can be read."""
    runner: str | None = None
    """The container whose program is started by ``rendezvous run``; None if that is not clear. A
    name that no container may have is ""."""
    has_init_containers: bool = False
    """Whether Pods have init containers."""
    tolerations: frozenset[Toleration] = frozenset()
    """Those without a limit of time."""
    gang_keys: frozenset[str] | None = frozenset()
    """Names of the gang keys that the template refers to, also with a placeholder; None for all."""

    def tolerates(self, taint: Taint, *, by_key: bool) -> bool:
        """Return whether a toleration lets a Pod stay at a taint without a limit of time.

        ``by_key``: whether it must name the key. One without a key tolerates all taints.
        """
        keys = (taint.key,) if by_key else (taint.key, "")
        return any(
            toleration in self.tolerations
            for effect in {"", taint.effect}
            for toleration in (
                *(Toleration(key, effect) for key in keys),
                Toleration(taint.key, effect, taint.value),
            )
        )

    def refers_to_gang_key(self, framework: str) -> bool:
        """Return whether the template refers to the gang key of the Framework of this name."""
        names = (build_gang_key_name(framework), PLACEHOLDER_NAME)
        return self.gang_keys is None or not self.gang_keys.isdisjoint(names)


NO_FACTS = TemplateFacts()


class TemplateWithFacts(Mapping[str, Any]):
    """A Pod template that was read already."""

    __slots__ = ()

    @property
    @abstractmethod
    def facts(self) -> TemplateFacts:
        """Its facts."""

    @property
    @abstractmethod
    def json_bytes(self) -> int:
        """The length of its JSON."""

    @abstractmethod
    def render(
        self,
        names: Mapping[str, str],
        count_growth: Callable[[int], None],
        *,
        with_affinity: bool = False,
    ) -> dict[str, Any]:
        """Replace the placeholders by ``names``; values that no code reads may stay JSON.

        ``count_growth`` is called with the characters by which the JSON becomes longer. With
        ``with_affinity``, ``affinity`` and ``nodeName`` of the spec are read, too.
        """


def find_facts(template: Mapping[str, Any] | None) -> TemplateFacts:
    """Find the facts of a Pod template, which has been read already in the controller."""
    if template is None:
        return NO_FACTS
    return template.facts if isinstance(template, TemplateWithFacts) else read_facts(template)


def read_facts(template: Mapping[str, Any]) -> TemplateFacts:
    """Read a Pod template."""
    runner, spec = find_runner(template), template.get("spec")
    parsed = map(parse_toleration, islice(walk_tolerations(template), MAX_TOLERATIONS))
    return TemplateFacts(
        retryable_codes=find_retryable_codes(template),
        in_place=find_annotated(template),
        runner="" if runner and len(runner) > _MAX_CONTAINER_CHARS else runner,
        has_init_containers=isinstance(spec, Mapping) and bool(spec.get("initContainers")),
        tolerations=frozenset(each for each in parsed if each is not None),
        gang_keys=_read_gang_keys(template),
    )


def _read_gang_keys(template: Mapping[str, Any]) -> frozenset[str] | None:
    found: set[str] = set()
    for number, name in enumerate(walk_gang_keys(template)):
        if name:
            found.add(name)
        if number == MAX_REFERENCES or len(found) > MAX_GANG_KEYS:
            return None
    return frozenset(found)

"""A probe as the Pod specifies it, and the count of its results. Pure."""

from dataclasses import dataclass, replace

from framework.kube.resources import Object


@dataclass(frozen=True, slots=True)
class ProbeSpec:
    """A probe with the API's defaults filled in."""

    action: Object
    """The probe as written: ``exec``, ``httpGet`` or ``tcpSocket``."""
    initial_delay_seconds: float
    """Delay before the first try."""
    period_seconds: float
    """Time between the end of a try and the next one."""
    timeout_seconds: float
    """Limit of one try."""
    success_threshold: int
    """Successes in a row that count."""
    failure_threshold: int
    """Failures in a row that count."""


@dataclass(frozen=True, slots=True)
class ProbeCounter:
    """Counts equal results in a row."""

    ok: bool | None = None
    count: int = 0

    def observe(self, *, ok: bool) -> "ProbeCounter":
        """Count a result."""
        return replace(self, count=self.count + 1) if ok is self.ok else ProbeCounter(ok, 1)

    def has_reached(self, spec: ProbeSpec) -> bool:
        """Return whether the threshold is reached."""
        return self.count >= (spec.success_threshold if self.ok else spec.failure_threshold)


def parse_probe(probe: Object) -> ProbeSpec:
    """Fill in the defaults of the API."""
    return ProbeSpec(
        action=probe,
        initial_delay_seconds=probe.get("initialDelaySeconds") or 0,
        period_seconds=probe.get("periodSeconds") or 10,
        timeout_seconds=probe.get("timeoutSeconds") or 1,
        success_threshold=probe.get("successThreshold") or 1,
        failure_threshold=probe.get("failureThreshold") or 3,
    )

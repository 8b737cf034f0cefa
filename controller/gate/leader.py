"""Leader election: of all controllers that run, only the holder of the Lease acts.

Leader and candidates have different clocks. A candidate takes over a Lease that it has seen
unchanged for its whole duration. The leader stops acting a while earlier, measured from the time
before it sent its last renewal. Both measure with the boottime clock, which continues while a
process is stopped or the machine sleeps; the times in the Lease are for people. A renewal names the
version that it replaces, so its success proves that no other process held the Lease in between.
Why ``kubernetes.aio.leaderelection`` is not used: docs/adr.

    LeadershipLostError    the Lease is lost: send nothing more and end
"""

import asyncio
import logging
import math
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, NoReturn

from framework.clock import BootClock
from framework.kube.client import KubeClient
from framework.kube.errors import KubeError, NotFoundError
from framework.kube.resources import LEASES, Object

logger = logging.getLogger(__name__)

# deploy/base/role.yaml has this name, too.
DEFAULT_LEASE_NAME = "framework-controller"
_RELEASE_TIMEOUT_SECONDS = 2.0
# Less time than this counts as no time, because a clock may not be finer.
_LEAST_SECONDS = 0.001


class LeadershipLostError(Exception):
    """The Lease could not be renewed in time, or another holds it."""


@dataclass(frozen=True, slots=True)
class LeaseTimes:
    """Durations of the election; the same in every candidate."""

    lease_seconds: float = 6.0
    """A Lease may be taken over when it has not changed for this time."""
    renew_seconds: float = 4.0
    """The leader may act for this time after it sent a renewal, and then gives up. The difference
    to ``lease_seconds`` is for writes that are on their way."""
    retry_seconds: float = 1.0
    """Time between two renewals."""
    poll_seconds: float = 0.3
    """Time between two reads of a candidate, so that it takes a released Lease within a second."""


class LeaderElector:
    """One candidate. Call ``acquire``, then ``keep``, and ``release`` at an orderly end."""

    def __init__(
        self,
        client: KubeClient,
        clock: BootClock,
        *,
        namespace: str,
        name: str,
        identity: str,
        times: LeaseTimes | None = None,
        on_change: Callable[[bool], None] = lambda _: None,
    ) -> None:
        """Prepare; nothing is sent yet.

        Args:
            client: used for nothing else, so that no throttle and no queue delays a renewal.
            clock: the clock of the machine.
            namespace: namespace of the Lease.
            name: name of the Lease.
            identity: a text that no other process has, now or earlier.
            times: durations of the election; None for the defaults.
            on_change: called with True when the Lease is held (again), False when it is lost.
        """
        self._client = client
        self._clock = clock
        self._namespace = namespace
        self._name = name
        self._identity = identity
        self._times = times or LeaseTimes()
        self._on_change = on_change
        # The Lease as last read or written; None: there is none, as far as is known.
        self._lease: Object | None = None
        self._changed_at = -math.inf
        self._sent_at = -math.inf
        self._held_until = -math.inf

    def may_write(self) -> bool:
        """Return whether this controller may act at this moment."""
        return self._clock.boottime() < self._held_until

    async def acquire(self) -> None:
        """Wait until the Lease is ours, also while the API server cannot be reached."""
        last_problem = ""
        while True:
            problem = await self._try_acquire()
            if not problem:
                break
            if problem != last_problem:
                logger.info("not leading", extra={"reason": problem, **self._describe()})
                last_problem = problem
            await asyncio.sleep(self._times.poll_seconds)
        logger.info("leading", extra=self._describe())

    async def keep(self) -> NoReturn:
        """Renew the Lease for ever.

        Raises:
            LeadershipLostError: it is not ours any more, or not renewed in time.
        """
        while True:
            rest = self._sent_at + self._times.retry_seconds - self._clock.boottime()
            await asyncio.sleep(max(0.0, rest))
            try:
                await self._renew()
            except LeadershipLostError:
                self._give_up()
                raise

    async def release(self) -> None:
        """Release the Lease, as the last step of the program, so that the next leader starts."""
        if self._sent_at == -math.inf:
            return
        self._give_up()
        try:
            async with asyncio.timeout(_RELEASE_TIMEOUT_SECONDS):
                # A renewal may have been cut off: only the server knows the version.
                lease = await self._client.get(LEASES, self._namespace, self._name)
                if _read_holder(lease) == self._identity:
                    freed = _read_spec(lease) | {"holderIdentity": "", "leaseDurationSeconds": 1}
                    await self._client.replace(
                        LEASES, self._namespace, self._name, {**lease, "spec": freed}
                    )
        except (KubeError, TimeoutError) as e:
            logger.warning("lease not released: it expires", extra={"error": str(e)})
        else:
            logger.info("lease released", extra=self._describe())

    async def _try_acquire(self) -> str:
        """Take the Lease if it is free; return why it is not ours, "" if it is."""
        try:
            await self._read()
            holder = _read_holder(self._lease)
            if holder not in {"", self._identity} and not self._is_expired():
                return f"{holder} leads"
            if self._lease is None and not self._is_expired():
                return "the Lease was deleted, its holder may still act"
            await self._write()
        except KubeError as e:
            return str(e)
        return "" if self.may_write() else "the answer arrived after the deadline"

    async def _renew(self) -> None:
        """Renew once, in as many tries as the time allows."""
        deadline = self._clock.boottime() + self._times.renew_seconds
        is_again = False
        while True:
            left = deadline - self._clock.boottime()
            if left < _LEAST_SECONDS:
                raise LeadershipLostError(
                    f"the Lease {self._namespace}/{self._name} was not renewed for"
                    f" {self._times.renew_seconds:g} s"
                )
            try:
                async with asyncio.timeout(left):
                    if is_again:
                        await self._check_holder()
                    await self._write()
                return
            except TimeoutError:
                is_again = True
            except KubeError as e:
                logger.warning("lease not renewed, retrying", extra={"error": str(e)})
                # The first error may be a conflict, so read the holder at once. Then pause.
                await asyncio.sleep(min(self._times.retry_seconds, left) if is_again else 0.0)
                is_again = True

    async def _check_holder(self) -> None:
        """Read the holder: another process may have the Lease, or an earlier renewal arrived."""
        await self._read()
        holder = _read_holder(self._lease)
        if self._lease is not None and holder != self._identity:
            raise LeadershipLostError(
                f"the Lease {self._namespace}/{self._name} is held by {holder or 'no controller'}"
            )

    async def _read(self) -> None:
        """Read the Lease; if it has changed, record the time."""
        timeout = self._times.renew_seconds
        try:
            lease: Object | None = await self._client.get(
                LEASES, self._namespace, self._name, timeout_seconds=timeout
            )
        except NotFoundError:
            lease = None
        if lease is not None and _read_spec(lease) != _read_spec(self._lease):
            self._changed_at = self._clock.boottime()
        self._lease = lease

    async def _write(self) -> None:
        """Write our identity into the Lease; it is held from the time of sending."""
        spec = self._build_spec()
        timeout = self._times.renew_seconds
        sent_at = self._sent_at = self._clock.boottime()
        if self._lease is None:
            metadata = {"name": self._name, "namespace": self._namespace}
            body = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata}
            self._lease = await self._client.create(
                LEASES, self._namespace, {**body, "spec": spec}, timeout_seconds=timeout
            )
        else:
            self._lease = await self._client.replace(
                LEASES,
                self._namespace,
                self._name,
                {**self._lease, "spec": spec},
                timeout_seconds=timeout,
            )
        self._changed_at = self._clock.boottime()
        was_held = self.may_write()
        self._held_until = sent_at + self._times.renew_seconds
        if self.may_write() and not was_held:
            self._on_change(True)  # noqa: FBT003 the one argument of a callback

    def _build_spec(self) -> Object:
        spec = _read_spec(self._lease)
        now = _format_micro_time(self._clock.now())
        if spec.get("holderIdentity") != self._identity:
            spec["acquireTime"] = now
            spec["leaseTransitions"] = int(spec.get("leaseTransitions") or 0) + 1
        spec["holderIdentity"] = self._identity
        spec["leaseDurationSeconds"] = math.ceil(self._times.lease_seconds)
        spec["renewTime"] = now
        return spec

    def _is_expired(self) -> bool:
        return self._clock.boottime() >= self._changed_at + self._times.lease_seconds

    def _give_up(self) -> None:
        self._held_until = -math.inf
        self._on_change(False)  # noqa: FBT003 the one argument of a callback

    def _describe(self) -> dict[str, object]:
        return {"lease": f"{self._namespace}/{self._name}", "identity": self._identity}


def _read_spec(lease: Object | None) -> dict[str, Any]:
    return dict((lease or {}).get("spec") or {})


def _read_holder(lease: Object | None) -> str:
    """Return the identity that holds a Lease, "" if it is free."""
    return str(_read_spec(lease).get("holderIdentity") or "")


def _format_micro_time(at: datetime) -> str:
    return at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
